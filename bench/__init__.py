"""Benchmarks: what the product promises in numbers, measured.

A module of this package has `run()`, which measures for some seconds and returns its results; `python -m
bench NAME` prints them. `goals/` has the goals of speed with their table and page, which is what `python -m
bench` measures. Peers are started by the program that `MILEPOST_PEER` names (`peers.py`). Figures of a shared
machine are to be read as ± 30 %, so wherever it can be, a result is a ratio of two things measured in a run.
What takes long is a part of its size, or fewer rounds, unless `--full` is said.
"""

from __future__ import annotations

from typing import NamedTuple

# Said on the command line: measure what is promised at its full size, however long that takes.
FULL = False


class Result(NamedTuple):
    """One line of the report."""

    name: str
    value: float
    unit: str
    target: str = ""
    """What it ought to be; empty where nothing is promised."""
    ok: bool | None = None
    """Whether it is; None where nothing is promised."""


def at_most(name: str, value: float, unit: str, target: float) -> Result:
    return Result(name, value, unit, f"≤ {target:,g}", value <= target)


def at_least(name: str, value: float, unit: str, target: float) -> Result:
    return Result(name, value, unit, f"≥ {target:,g}", value >= target)
