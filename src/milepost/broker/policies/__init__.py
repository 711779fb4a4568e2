"""Policies: what may be set for a namespace or a topic, each declared once. Pure values and decisions.

`table.py` is the list; the routes, the commands and the documentation are made from it. What holds for a
topic is computed once a change (`effective.py`) and handed to it.
"""
