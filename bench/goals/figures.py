"""What a run has measured, as it lies in the file: pure values.

A figure has one number for each turn, or null for a turn that broke down.
`figures[workload][server][measure]` is that list; what was not measured at all is not there.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

OURS, BEFORE, PULSAR, KAFKA = "milepost", "before", "pulsar", "kafka"
PEERS = (PULSAR, KAFKA)

Measures = Mapping[str, float | None]
Figures = dict[str, dict[str, dict[str, list[float | None]]]]


class Side(NamedTuple):
    """One figure: of which workload, what, and of which server."""

    workload: str
    measure: str
    server: str = OURS


class Run(NamedTuple):
    """Everything that a page says."""

    made: str
    """When it began, in UTC."""
    commit: str
    before: str
    """The commit that was measured beside it; empty if there was none."""
    machine: Mapping[str, str]
    """What → how much, ready to be shown."""
    servers: Mapping[str, str]
    """Who was measured → its name."""
    absent: Mapping[str, str]
    """Which peer was not → why."""
    figures: Figures
    failures: Mapping[str, str]
    """Workload and server → what went wrong."""
    scale: float = 1.0
    turns: int = 1
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Run:
        return cls(**data)


def without_paths(text: str) -> str:
    """What went wrong, without folders of the machine on which it did: it may stand on a page.

    >>> without_paths("no jars; more is in /home/me/maven.log")
    'no jars; more is in …'
    """
    return re.sub(r"(?<![\w:/])/[\w.+@/-]+", "…", text)


def add(figures: Figures, workload: str, server: str, measures: Measures, turn: int = 0) -> None:
    """Keep what one turn showed, the first being 0."""
    known = figures.setdefault(workload, {}).setdefault(server, {})
    for measure, value in measures.items():
        if value is not None:
            values = known.setdefault(measure, [])
            values += [None] * (turn + 1 - len(values))
            values[turn] = value


def turns_of(figures: Figures, side: Side) -> Sequence[float | None]:
    return figures.get(side.workload, {}).get(side.server, {}).get(side.measure, ())


def middle(figures: Figures, side: Side) -> float | None:
    """The median over the turns."""
    values = [value for value in turns_of(figures, side) if value is not None]
    return statistics.median(values) if values else None


def ratios(figures: Figures, over: Side, under: Side) -> list[float]:
    """Of each turn that tells both."""
    pairs = zip(turns_of(figures, over), turns_of(figures, under), strict=False)
    return [top / bottom for top, bottom in pairs if top is not None and bottom]


def ratio(figures: Figures, over: Side, under: Side) -> float | None:
    """The median of the ratios of each turn: what else the machine did then met both sides alike."""
    found = ratios(figures, over, under)
    return statistics.median(found) if found else None


class Span(NamedTuple):
    """The lowest and the highest ratio of a turn."""

    lowest: float
    highest: float


def span(figures: Figures, over: Side, under: Side) -> Span | None:
    """None where there is nothing between two turns."""
    found = ratios(figures, over, under)
    return Span(min(found), max(found)) if len(found) > 1 else None
