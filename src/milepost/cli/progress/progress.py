"""`milepost progress`: the progress of every group, trouble first.

    milepost progress                      every group, one line each
    milepost progress -g billing           its partitions and clients, with totals
    milepost progress --watch 2 -n public/default
    milepost progress --check              exit code 9 if a group needs an operator

The numbers and verdicts are the broker's (docs/progress.md); here they are only added up and printed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.output import chosen, note, show_object, show_rows
from milepost.cli.quantities import Number
from milepost.positions.severity import is_trouble, severity, worst

GROUPS = (
    "group", "topic", "parts", "clients", "backlog", "ready", "inflight", "delayed", "holes",
    "rate", "lag", "verdict", "reason",
)  # fmt: skip
PARTS = (
    "topic", "part", "end", "mark-delete", "backlog", "ready", "inflight", "delayed", "holes",
    "client", "rate", "lag", "verdict",
)  # fmt: skip
SUMS = ("backlog", "ready", "inflight", "delayed", "holes", "rate_acked")

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
        while True:
            lines = admin.get_progress(topic, namespace=namespace, subscription=group)
            if group is not None and not lines and watch is None:
                raise CommandFailed(
                    f"there is no group {group}; `milepost progress` shows those that there are",
                    Exit.NOT_FOUND,
                )
            if watch is not None:
                click.clear()
            show(lines, group)
            if watch is None:
                break
            time.sleep(watch)
    in_trouble = any(is_trouble(line["verdict"]) for line in lines)
    return Exit.TROUBLE if check and in_trouble else Exit.OK


def show(lines: Sequence[Line], group: str | None) -> None:
    if chosen() == "json":
        show_object(list(lines))
    elif group is None:
        show_rows(GROUPS, group_rows(lines))
        if chosen() != "csv":
            note(WHAT_IS_COUNTED)
    else:
        show_rows(PARTS, part_rows(lines))
        if chosen() != "csv":
            for text in totals(lines):
                note(text)


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


def age(milliseconds: int) -> str:
    """Two figures' worth of a duration.

    >>> [age(ms) for ms in (0, 900, 61_000, 5_400_000, 200_000_000)]
    ['0s', '0.9s', '61s', '90m', '55h']
    """
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f}s" if milliseconds else "0s"
    for unit, size in (("s", 1), ("m", 60), ("h", 3600)):
        if seconds / size < 100:
            return f"{int(seconds / size)}{unit}"
    return f"{int(seconds / 86400)}d"


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
