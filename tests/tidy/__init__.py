"""Conventions as code: `tree.py` reads the project, `rules.py` judges it."""
