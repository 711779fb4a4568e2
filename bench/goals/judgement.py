"""A goal and the figures of a run make a row: pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from bench.goals.figures import BEFORE, OURS, PEERS, Run, Side, Span, middle, ratio, span
from bench.goals.goals import COMPARISONS, GOALS, LOAD, Comparison, Goal


class Verdict(StrEnum):
    MET = "met"
    MISSED = "missed"
    NO_PEER = "no peer"
    NOT_MEASURED = "not measured"
    ELSEWHERE = "elsewhere"
    """No benchmark can tell; the goal says where it is told."""


class Row(NamedTuple):
    goal: Goal
    value: float | None
    before: float | None
    """The same of the earlier commit."""
    detail: str
    """The two figures of a ratio."""
    verdict: Verdict
    reason: str = ""
    """Why there is no value."""

    @property
    def strain(self) -> float | None:
        """How much of its bound is used: up to 1 the goal is met."""
        return None if self.value is None else _strain(self.goal, self.value)

    @property
    def strain_before(self) -> float | None:
        return None if self.before is None else _strain(self.goal, self.before)


class ComparedRow(NamedTuple):
    """One figure of every server, and ours as a multiple of each peer's."""

    comparison: Comparison
    ours: float | None
    load: float | None
    """Which part of a core the load took while ours was measured."""
    before: float | None
    theirs: dict[str, float | None]
    ratios: dict[str, float | None]
    spans: dict[str, Span | None]


def rows(run: Run) -> list[Row]:
    return [judge(run, goal) for goal in GOALS]


def compared_rows(run: Run) -> list[ComparedRow]:
    return [_compared(run, comparison) for comparison in COMPARISONS]


def judge(run: Run, goal: Goal) -> Row:
    if goal.over is None:
        return Row(goal, None, None, "", Verdict.ELSEWHERE)
    value = _value(run, goal, OURS)
    if value is None:
        verdict, reason = _absence(run, goal)
        return Row(goal, None, None, "", verdict, reason)
    verdict = Verdict.MET if goal.bound.holds(value) else Verdict.MISSED
    return Row(goal, value, _value(run, goal, BEFORE), _detail(run, goal), verdict)


def _value(run: Run, goal: Goal, server: str) -> float | None:
    """What the goal speaks of, where `server` stands for us."""
    assert goal.over is not None
    over = goal.over._replace(server=server)
    if goal.under is None:
        return middle(run.figures, over)
    under = goal.under
    if under.server == OURS:
        under = under._replace(server=server)
    return ratio(run.figures, over, under)


def _absence(run: Run, goal: Goal) -> tuple[Verdict, str]:
    sides = [side for side in (goal.over, goal.under) if side is not None]
    for side in sides:
        if side.server in run.absent:
            return Verdict.NO_PEER, run.absent[side.server]
    for side in sides:
        for name in (side.workload, side.workload.partition(":")[0]):
            if failure := run.failures.get(f"{name} {side.server}"):
                return Verdict.NOT_MEASURED, failure
    return Verdict.NOT_MEASURED, ""


def _detail(run: Run, goal: Goal) -> str:
    if goal.over is None or goal.under is None:
        return ""
    one, other = middle(run.figures, goal.over), middle(run.figures, goal.under)
    if one is None or other is None:
        return ""
    detail = f"{number(one)} against {number(other)} {goal.detail_unit}".rstrip()
    return "; ".join([detail, *turns_text(span(run.figures, goal.over, goal.under))])


def turns_text(of: Span | None) -> list[str]:
    """How far the ratios of the turns lie apart: the median of them need not be the ratio of two medians."""
    return [] if of is None else [f"turns {number(of.lowest)} to {number(of.highest)}"]


def _compared(run: Run, comparison: Comparison) -> ComparedRow:
    ours = Side(comparison.workload, comparison.measure)
    theirs = {peer: middle(run.figures, ours._replace(server=peer)) for peer in PEERS}
    ratios = {peer: ratio(run.figures, ours, ours._replace(server=peer)) for peer in PEERS}
    before = middle(run.figures, ours._replace(server=BEFORE))
    load = middle(run.figures, ours._replace(measure=LOAD))
    spans = {peer: span(run.figures, ours, ours._replace(server=peer)) for peer in PEERS}
    return ComparedRow(comparison, middle(run.figures, ours), load, before, theirs, ratios, spans)


def _strain(goal: Goal, value: float) -> float:
    if goal.bound.is_upper:
        return value / goal.bound.limit
    return goal.bound.limit / value if value else float("inf")


def number(value: float) -> str:
    """Three digits that count, or all before the point.

    >>> [number(value) for value in (123456.7, 64.04, 1.5, 0.18423)]
    ['123,457', '64.0', '1.50', '0.184']
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"
