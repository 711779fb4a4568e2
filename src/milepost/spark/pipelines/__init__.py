"""Pipelines between topics and lakes: each one file, importable, and a command of `milepost pipeline`."""
