"""`milepost progress`: the progress of every group, trouble first.

    milepost progress                      every group, one line each
    milepost progress -g billing           its partitions and clients, with totals
    milepost progress --watch 2 -n public/default
    milepost progress --check              exit code 9 if a group needs an operator

The numbers and verdicts are the broker's (docs/progress.md); here they are only added up and printed. On a
terminal the table is as wide as that: columns that are all zero are left out, and reasons stand below their
rows where there is no room beside them.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.figures import age, short_topic
from milepost.cli.output import chosen, for_a_person, note, show_object, show_rows, table_cell
from milepost.cli.quantities import Number
from milepost.cli.tables import Column, fit, lines
from milepost.cli.terminal import WIDTH_DEFAULT, Terminal, terminal
from milepost.positions.severity import is_trouble, severity, worst

if TYPE_CHECKING:
    from milepost.admin import Admin

GROUPS = (
    "group", "topic", "parts", "clients", "backlog", "ready", "inflight", "delayed", "holes",
    "rate", "lag", "verdict", "reason",
)  # fmt: skip
PARTS = (
    "topic", "part", "end", "mark-delete", "backlog", "ready", "inflight", "delayed", "holes",
    "client", "rate", "lag", "verdict",
)  # fmt: skip
SUMS = ("backlog", "ready", "inflight", "delayed", "holes", "rate_acked")

# What of them is left out first on a narrow terminal, and what may be cut.
RANKS = {
    "parts": 1, "holes": 2, "delayed": 3, "end": 1, "mark-delete": 2, "clients": 4, "ready": 5,
    "rate": 6, "client": 4, "inflight": 7, "lag": 8,
}  # fmt: skip
CUT_TO = {"group": 6, "topic": 6, "client": 10}
# What is all zero says nothing; but that there is no backlog, and that no client is there, does.
SHOWS_ZEROS = ("backlog", "clients", "verdict", "end", "mark-delete")
INDENT = "    "

# A message has one index, and a chunked message one for each of its chunks.
WHAT_IS_COUNTED = "Counts are indexes: a message has one, a chunked message one for each chunk."

Line = dict[str, Any]


@click.command(cls=RemoteCommand, help="How far every group is, trouble first.")
@click.option("-g", "--group", metavar="NAME", help="One group: its partitions and clients.")
@click.option("-t", "--topic", metavar="TOPIC", help="Of one topic only.")
@click.option("-n", "--namespace", metavar="TENANT/NAME", help="Of one namespace only.")
@click.option("--watch", type=Number(min=0.1), metavar="SECONDS", help="Again and again.")
@click.option("--check", is_flag=True, help="Exit with 9 if a group is in trouble.")
def progress(
    group: str | None,
    topic: str | None,
    namespace: str | None,
    watch: float | None,
    check: bool,
) -> int:
    if topic is not None and namespace is not None:
        raise click.UsageError("a topic has a namespace already: say --topic or --namespace")
    with connection().admin() as admin:
        found = admin.get_progress(topic, namespace=namespace, subscription=group)
        if watch is not None:
            _watch(admin, found, watch, topic=topic, namespace=namespace, subscription=group)
        if group is not None and not found:
            raise CommandFailed(
                f"there is no group {group}; `milepost progress` shows those that there are",
                Exit.NOT_FOUND,
            )
        show(found, group)
    in_trouble = any(is_trouble(line["verdict"]) for line in found)
    return Exit.TROUBLE if check and in_trouble else Exit.OK


def _watch(admin: Admin, found: Sequence[Line], pause_s: float, **asked: str | None) -> None:
    """Show it again and again. A poll that fails is told below what the last one has found: a broker that
    restarts, or a network that is gone for a while, ends no watch. Ends by Ctrl-C."""
    from milepost.admin import AdminError

    failed_at, refusal = 0.0, ""
    while True:
        if not refusal or terminal().has_screen:
            if terminal().has_screen:
                click.clear()
            show(found, asked["subscription"])
        if refusal:
            since = age(int((time.monotonic() - failed_at) * 1000))
            note(f"{refusal}; no answer for {since}, asking again every {pause_s:g} s")
        time.sleep(pause_s)
        try:
            found, refusal = admin.get_progress(**asked), ""
        except AdminError as error:
            failed_at = failed_at if refusal else time.monotonic()
            refusal = error.reason


def show(found: Sequence[Line], group: str | None) -> None:
    if chosen() == "json":
        show_object(list(found))
        return
    columns, rows = (GROUPS, group_rows(found)) if group is None else (PARTS, part_rows(found))
    if chosen() == "csv" or not for_a_person():
        show_rows(columns, rows)
    elif not rows:
        note("no groups: no topic that was asked for has a subscription")
        return
    else:
        for text in page(columns, rows, terminal()):
            click.echo(text)
    if chosen() == "csv":
        return
    width = terminal().width
    for text in totals(found) if group is not None else [WHAT_IS_COUNTED]:
        note(textwrap.fill(text, width) if width else text)


def page(
    columns: Sequence[str], rows: Sequence[Sequence[object]], place: Terminal
) -> Iterator[str]:
    """The table for people, as wide as the terminal is. A reason stands beside its row where all of them
    fit there; else below it, and only where a person should look."""
    shown = [
        Column(name, RANKS.get(name, 0), CUT_TO.get(name, 0), name not in SHOWS_ZEROS)
        for name in columns
    ]
    cells = [_shortened(dict(zip(columns, map(table_cell, row), strict=True))) for row in rows]
    if "parts" in columns and all(row[columns.index("parts")] == "1" for row in cells):
        shown, cells = _without("parts", shown, cells)
    beside = fit([column._replace(rank=0, cut_to=0) for column in shown], cells, place.width)
    if not beside.is_turned or "reason" not in columns:
        table = beside if not beside.is_turned else fit(shown, cells, place.width)
        # A client beside the first has a row of its own, which is empty where clients are left out.
        told = tuple(row for row in table.rows if any(row))
        yield from lines(table._replace(rows=told), place, style)
        return
    narrow, short = _without("reason", shown, cells)
    width = place.width or WIDTH_DEFAULT
    table = fit(narrow, short, width)
    verdict, reason = columns.index("verdict"), columns.index("reason")
    if table.is_turned:
        yield from lines(beside, place, style)
        return
    head, *below = lines(table, place, style)
    yield head
    for text, row in zip(below, rows, strict=True):
        yield text
        if severity(str(row[verdict])) >= severity("SLOW"):
            wrapped = textwrap.wrap(table_cell(row[reason]), max(width - len(INDENT), 20))
            yield from (place.paint(INDENT + line, "faint") for line in wrapped)


def _shortened(cells: dict[str, str]) -> list[str]:
    """The cells of a row for people: a partition has a column of its own, and is no part of a name."""
    part = cells.get("part", "")
    topic = cells["topic"].removesuffix(f"-partition-{part}")
    shown = {"topic": short_topic(topic) if topic else "", "part": "" if part == "-1" else part}
    return [shown.get(name, text) for name, text in cells.items()]


def _without(
    name: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> tuple[list[Column], list[list[str]]]:
    at = [column.name for column in columns].index(name)
    left = [[*row[:at], *row[at + 1 :]] for row in rows]
    return [*columns[:at], *columns[at + 1 :]], left


def style(column: str, cell: str) -> str:
    """The colour of a verdict; other cells have none."""
    if column == "reason":
        return "faint"
    return verdict_style(cell) if column == "verdict" and cell else ""


def verdict_style(verdict: str) -> str:
    if is_trouble(verdict):
        return "trouble"
    return "watch" if severity(verdict) >= severity("SLOW") else "well"


def group_rows(lines: Sequence[Line]) -> list[tuple[object, ...]]:
    """One row a group and topic, its partitions added up; members of a broadcast group are in it."""
    whole = [line for line in lines if not line["member"]]
    whole.sort(key=_name)
    rows = []
    for (topic, name), parts in groupby(whole, key=_name):
        found = list(parts)
        sums = {column: sum(line[column] for line in found) for column in SUMS}
        verdict = worst(line["verdict"] for line in found)
        told = [line for line in found if line["verdict"] == verdict]
        reason = next((line for line in told if _waits(line)), told[0])["reason"]
        rows.append(
            (
                name,
                topic,
                len(found),
                sum(len(line["consumers"]) for line in found),
                *(sums[column] for column in SUMS[:5]),
                float(sums["rate_acked"]),
                age(max(line["behind_ms"] for line in found)),
                verdict,
                reason,
            )
        )
    rows.sort(key=lambda row: (-severity(str(row[11])), -int(str(row[4]))))
    return rows


def part_rows(lines: Sequence[Line]) -> list[tuple[object, ...]]:
    """One row a partition (and member), then one for each client beside the first."""
    rows: list[tuple[object, ...]] = []
    ordered = sorted(lines, key=lambda one: (one["topic"], one["partition"], one["member"]))
    for line in ordered:
        # A member is its own client; the clients of a group are its members'.
        is_group = line["type"] == "Broadcast" and not line["member"]
        clients = [] if is_group else line["consumers"]
        first = line["member"] or (_client(clients[0]) if clients else "")
        rows.append(
            (
                line["topic"],
                line["partition"],
                line["end"],
                line["mark_delete_index"],
                *(line[column] for column in SUMS[:5]),
                first,
                float(line["rate_acked"]),
                age(line["behind_ms"]),
                line["verdict"],
            )
        )
        for client in clients[1:]:
            held = (client["inflight"], None, None, _client(client))
            rows.append((*(None,) * 6, *held, None, None, None))
    return rows


def totals(lines: Sequence[Line]) -> list[str]:
    whole = [line for line in lines if not line["member"]]
    if not whole:
        return []
    sums = {column: sum(line[column] for line in whole) for column in SUMS}
    found = [
        f"backlog {sums['backlog']} indexes: {sums['ready']} ready, {sums['inflight']} inflight, "
        f"{sums['delayed']} delayed; {sums['rate_acked']:.1f} acked a second. {WHAT_IS_COUNTED}"
    ]
    # What is well needs no words.
    told = [line for line in whole if line["verdict"] != "CAUGHT_UP" or _waits(line)]
    if not told:
        found.append(f"{whole[0]['verdict']}: {whole[0]['reason']}")
    for line in sorted(told, key=_severity, reverse=True)[:3]:
        where = f"partition {line['partition']}: " if line["partition"] >= 0 else ""
        found.append(f"{where}{line['verdict']}: {line['reason']}")
    return found


def _client(consumer: Line) -> str:
    return f"{consumer['name']}@{consumer['address']}"


def _name(line: Line) -> tuple[str, str]:
    topic = str(line["topic"])
    if line["partition"] >= 0:
        topic = topic.removesuffix(f"-partition-{line['partition']}")
    return topic, str(line["subscription"])


def _waits(line: Line) -> bool:
    """Does it wait for a transaction? Brokers that know of none do not say."""
    return bool(line.get("held_back_by") or line.get("pending"))


def _severity(line: Line) -> int:
    return severity(line["verdict"])
