"""The tables of a run as text for a terminal: pure."""

from __future__ import annotations

from bench.goals.figures import BEFORE, KAFKA, PULSAR, Run
from bench.goals.judgement import ComparedRow, Row, Verdict, compared_rows, number, rows

SHORT = {PULSAR: "Pulsar", KAFKA: "Kafka"}


def tables(run: Run) -> str:
    return "\n".join([*_goals(run), "", *_peers(run)])


def _goals(run: Run) -> list[str]:
    has_before = BEFORE in run.servers
    before = f"{'before':>12}" if has_before else ""
    lines = [f"{'goal':<68}{'target':>12}{'measured':>12}{before}  verdict"]
    judged = rows(run)
    for row in judged:
        cells = f"{row.goal.text:<68}{_target(row):>12}{_cell(row.value, row):>12}"
        if has_before:
            cells += f"{_cell(row.before, row):>12}"
        note = row.detail or row.reason
        lines.append(f"{cells}  {row.verdict}{f' ({note})' if note else ''}")
    counts = {verdict: sum(row.verdict == verdict for row in judged) for verdict in Verdict}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return [*lines, f"{len(judged)} goals: {told}"]


def _peers(run: Run) -> list[str]:
    head = f"{'beside peers':<46}{'Milepost':>12}"
    head += "".join(f"{SHORT[peer]:>12}{'ratio':>9}" for peer in SHORT)
    return [head, *(_compared(run, row) for row in compared_rows(run))]


def _compared(run: Run, row: ComparedRow) -> str:
    comparison = row.comparison
    line = f"{f'{comparison.text}, {comparison.unit}':<46}{shown(row.ours):>12}"
    for peer in SHORT:
        line += f"{peer_cell(run, row, peer):>12}{times(row.ratios[peer]):>9}"
    return line.rstrip()


def peer_cell(run: Run, row: ComparedRow, peer: str) -> str:
    """A peer's figure, or why there is none."""
    if peer in run.absent:
        return Verdict.NO_PEER
    return shown(row.theirs[peer])


def shown(value: float | None) -> str:
    return "–" if value is None else number(value)


def times(value: float | None) -> str:
    return "–" if value is None else f"{number(value)} ×"


def _target(row: Row) -> str:
    return f"{row.goal.bound} {row.goal.unit}"


def _cell(value: float | None, row: Row) -> str:
    return "–" if value is None else f"{number(value)} {row.goal.unit}"
