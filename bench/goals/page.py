"""The page of a run, docs/benchmarks.md: pure."""

from __future__ import annotations

from bench.goals.figures import BEFORE, KAFKA, PULSAR, Run
from bench.goals.judgement import Row, Verdict, compared_rows, number, rows, turns_text
from bench.goals.terminal import peer_cell, shown, times

GOALS_PLOT, PEERS_PLOT = "goals.svg", "peers.svg"
HEAD = """\
# Benchmarks

Made by `make bench`: every figure on this page and in its pictures comes from one run of it, and changes
to the page by hand are lost with the next. [Speed](speed.md) has what is promised beside these goals, and
how it is measured. Figures of two machines say little about each other; ratios of one run say more.
"""
HOW = """\
## How it is measured

The load is one process beside the server, with bytes that were prepared before the clock ran: Pulsar's
protocol for Milepost and Apache Pulsar (`bench/load/workloads.py`), Kafka's for Kafka
(`bench/load/kafka.py`). Messages have 100 B where nothing else is said, batches have 100 messages. Every
server keeps its data on the same disk and syncs before it answers a publish; Kafka is told to do so
(`log.flush.interval.messages=1`), which is not its default. Apache Pulsar answers an ack from memory,
Milepost when it is on disk. Each server has its turn at a workload, then the next turn begins in the
other order. A figure is the median over the turns, and a ratio the median of the turns' ratios. Peers are
stopped before memory, starts and disturbances are measured.

`make bench` alone measures Milepost. `MILEPOST_PEER` names a program that runs peers (`bench/peers.py`),
and `make bench BEFORE=COMMIT` has an earlier Milepost take part. `python -m bench goals --help` has what
can be left out.
"""


def page(run: Run) -> str:
    parts = [HEAD, _about(run), _goals(run), _missed(run), _peers(run), _broken(run), HOW]
    return "\n".join(part for part in parts if part)


def _about(run: Run) -> str:
    servers = {key: title for key, title in run.servers.items() if key in (PULSAR, KAFKA)}
    peers = [*servers.values(), *(f"no {peer}: {why}" for peer, why in run.absent.items())]
    about = {
        "made": run.made,
        "commit": run.commit,
        **({"before": run.before} if run.before else {}),
        "peers": "; ".join(peers) or "none",
        "turns": f"{run.turns}, {run.seconds / 60:.0f} minutes in all",
        **run.machine,
    }
    lines = ["| | |", "| --- | --- |", *(f"| {what} | {told} |" for what, told in about.items())]
    if run.scale != 1:
        lines += ["", f"**Tried out at {run.scale:g} of the size: the figures do not count.**"]
    return "\n".join([*lines, ""])


def _goals(run: Run) -> str:
    judged = rows(run)
    met = sum(row.verdict == Verdict.MET for row in judged)
    measured = sum(row.verdict in (Verdict.MET, Verdict.MISSED) for row in judged)
    has_before = BEFORE in run.servers
    heads = ["goal", "target", "measured", *(["before"] if has_before else []), "verdict"]
    lines = [
        "## Goals",
        "",
        f"{met} of the {measured} that were measured are met.",
        "",
        _row(heads),
        _row(["---"] * len(heads)),
    ]
    for row in judged:
        unit = row.goal.unit
        value = "–" if row.value is None else f"{number(row.value)} {unit}"
        detail = f" ({row.detail})" if row.detail else ""
        verdict = f"**{row.verdict}**" if row.verdict == Verdict.MISSED else str(row.verdict)
        cells = [row.goal.text, f"{row.goal.bound} {unit}", value + detail]
        if has_before:
            cells.append("–" if row.before is None else f"{number(row.before)} {unit}")
        lines.append(_row([*cells, verdict]))
    return "\n".join([*lines, "", f"![goals](benchmarks/{GOALS_PLOT})", ""])


def _missed(run: Run) -> str:
    """What is not reached, and why; what was not measured, and why not."""
    lines = ["## What is not reached, and why", ""]
    reasons: dict[str, list[str]] = {}
    for row in rows(run):
        if why := _why(row):
            reasons.setdefault(why, []).append(row.goal.text)
    if not reasons:
        return "\n".join([*lines, "All goals are met.", ""])
    lines += [_row(["goal", "why"]), _row(["---"] * 2)]
    lines += [_row(["<br>".join(texts), why]) for why, texts in reasons.items()]
    return "\n".join([*lines, ""])


def _why(row: Row) -> str:
    match row.verdict:
        case Verdict.MISSED | Verdict.ELSEWHERE:
            return row.goal.why
        case Verdict.NO_PEER:
            return f"No peer: {row.reason}."
        case Verdict.NOT_MEASURED:
            return f"Not measured: {row.reason or 'it was left out of this run'}."
        case _:
            return ""


def _peers(run: Run) -> str:
    names = {peer: run.servers.get(peer, title) for peer, title in _TITLES.items()}
    has_before = BEFORE in run.servers
    heads = ["workload", "Milepost", *(["before"] if has_before else []), "load"]
    for name in names.values():
        heads += [name, "ratio"]
    lines = [
        "## Beside the peers",
        "",
        "A ratio is Milepost's figure by the peer's: of rates more is better, of times and CPU less. "
        "`load` is the part of a core that the load itself took beside Milepost; near 1 "
        "the load is what was measured. Behind a ratio of several turns stand the lowest and the "
        "highest of them: where they lie far apart, it is not that of the two figures beside it.",
        "",
        _row(heads),
        _row(["---"] * len(heads)),
    ]
    for row in compared_rows(run):
        cells = [f"{row.comparison.text}, {row.comparison.unit}", shown(row.ours)]
        cells += [shown(row.before)] if has_before else []
        cells.append(shown(row.load))
        for peer in names:
            told = turns_text(row.spans[peer])
            ratio = times(row.ratios[peer]) + "".join(f" ({one})" for one in told)
            cells += [peer_cell(run, row, peer), ratio]
        lines.append(_row(cells))
    if any(peer in run.servers for peer in names):
        lines += ["", f"![peers](benchmarks/{PEERS_PLOT})"]
    return "\n".join([*lines, ""])


def _broken(run: Run) -> str:
    """Turns that told nothing: the figures of their workloads are those of the others."""
    if not run.failures:
        return ""
    lines = ["## What broke down", "", _row(["workload and server", "why"]), _row(["---"] * 2)]
    lines += [_row([place, told.replace("|", "/")]) for place, told in run.failures.items()]
    return "\n".join([*lines, ""])


_TITLES = {PULSAR: "Apache Pulsar", KAFKA: "Apache Kafka"}


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
