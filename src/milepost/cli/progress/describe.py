"""`milepost topics describe` and `subscriptions describe`: a page for people, with the strips of the groups.

    milepost topics describe orders
    milepost subscriptions describe orders billing

The numbers are the broker's, as `progress`, `stats` and the console have them. Apache Pulsar counts no
indexes: of it the page has what its statistics say.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.figures import age, size
from milepost.cli.output import chosen, show_object, table_cell
from milepost.cli.progress.progress import verdict_style
from milepost.cli.progress.strip import legend, room_for_strip, strip_lines
from milepost.cli.terminal import WIDTH_DEFAULT, Terminal, terminal
from milepost.positions.names import TopicName
from milepost.positions.severity import severity, worst

if TYPE_CHECKING:
    from milepost.admin import Admin

Json = dict[str, Any]

# Of more partitions, producers, consumers or resets than this a page names the first ones.
PARTITIONS_MAX = 32
NAMES_MAX = 8
INDENT = "  "
WIDTH_MIN = 30


@click.command(cls=RemoteCommand, help="A page about a topic: sizes, clients, groups and strips.")
@click.argument("topic")
def describe_topic(topic: str) -> None:
    with connection().admin() as admin:
        found = collect(admin, topic, None, _width())
    if chosen() in ("json", "csv"):
        show_object(found)
        return
    place = terminal()
    for line in topic_page(found, place):
        click.echo(line)


@click.command(cls=RemoteCommand, help="A page about a subscription: progress, clients, strip.")
@click.argument("topic")
@click.argument("subscription")
def describe_subscription(topic: str, subscription: str) -> None:
    with connection().admin() as admin:
        found = collect(admin, topic, subscription, _width())
        if subscription not in found["stats"].get("subscriptions", {}):
            raise CommandFailed(
                f"subscriptions describe {topic} {subscription}: there is none of that name; "
                f"`milepost subscriptions list {topic}` shows them",
                Exit.NOT_FOUND,
            )
        found["resets"] = admin.get_resets(topic, subscription) if found["progress"] else []
    if chosen() in ("json", "csv"):
        show_object(found)
        return
    place = terminal()
    for line in subscription_page(found, subscription, place):
        click.echo(line)


def _width() -> int:
    return max(terminal().width or WIDTH_DEFAULT, WIDTH_MIN)


def collect(admin: Admin, topic: str, subscription: str | None, width: int) -> Json:
    """All that a page is made of; strips as wide as it is."""
    from milepost.admin import Missing

    name = TopicName.parse(topic)
    partitions = int(admin.get_partitioned_topic_metadata(topic).get("partitions", 0))
    stats = admin.get_partitioned_stats(topic) if partitions else admin.get_stats(topic)
    found: Json = {
        "topic": str(name),
        "partitions": partitions,
        "stats": stats,
        "schema": None,
        "progress": [],
        "strips": [],
    }
    if subscription is None:
        try:
            found["schema"] = admin.get_schema(topic)
        except Missing:
            found["schema"] = None  # it has none
    if not name.is_persistent or not admin.is_milepost():
        return found
    found["progress"] = admin.get_progress(topic, subscription=subscription)
    for line in found["progress"]:
        if line["member"] or line["partition"] >= PARTITIONS_MAX:
            continue
        columns = room_for_strip(width, len(_label(line)), line["end"], INDENT)
        strip = admin.get_strip(line["topic"], line["subscription"], columns=columns)
        found["strips"].append({**strip, "partition": line["partition"]})
    return found


def _label(line: Json) -> str:
    return f"part {line['partition']}" if line["partition"] >= 0 else ""


def topic_page(found: Json, place: Terminal) -> Iterator[str]:
    stats, width = found["stats"], max(place.width or WIDTH_DEFAULT, WIDTH_MIN)
    partitions = found["partitions"]
    yield place.paint(found["topic"], "head")
    yield ""
    facts = list(_topic_facts(found))
    yield from _facts(facts, width)
    names = stats.get("subscriptions", {})
    if not names:
        yield ""
        yield "no subscriptions"
    for name in sorted(names, key=lambda one: (-severity(_verdict(found, one)), one)):
        yield ""
        yield from group_lines(found, name, place)
    if found["strips"]:
        yield ""
        yield from _below(legend(found["strips"], place), place, width)
    if partitions > PARTITIONS_MAX:
        yield f"strips of partitions 0 to {PARTITIONS_MAX - 1} of {partitions}"


def _topic_facts(found: Json) -> Iterator[tuple[str, str]]:
    stats = found["stats"]
    if found["partitions"]:
        yield "partitions", str(found["partitions"])
    elif "endIndex" in stats:
        first, end = stats.get("firstIndex", 0), stats["endIndex"]
        yield "messages", f"{end - first}, indexes {first} to {end - 1}" if end > first else "none"
    yield "size", size(stats.get("storageSize", 0))
    yield "in", _rate(stats, "In")
    yield "out", _rate(stats, "Out")
    schema = found["schema"]
    yield (
        "schema",
        f"{schema.get('type')}, version {schema.get('version')}" if schema else "none",
    )
    publishers = stats.get("publishers", [])
    names = [
        f"{one.get('producerName')} at {str(one.get('address', '')).lstrip('/')}"
        for one in publishers
    ]
    yield "producers", _some(names)


def _rate(stats: Json, way: str) -> str:
    messages, through = stats.get(f"msgRate{way}", 0.0), stats.get(f"msgThroughput{way}", 0.0)
    return f"{messages:.1f} messages a second, {size(through)}/s"


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    more = f", and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{len(names)}: {', '.join(map(table_cell, names[:NAMES_MAX]))}{more}"


def _facts(facts: list[tuple[str, str]], width: int, indent: str = "") -> Iterator[str]:
    label = max((len(name) for name, _ in facts), default=0)
    for name, text in facts:
        head = f"{indent}{name.ljust(label)}  "
        yield from textwrap.wrap(
            table_cell(text),
            max(width, len(head) + 20),
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        ) or [head.rstrip()]


def _below(text: str, place: Terminal, width: int) -> list[str]:
    # A text with colours is longer than it looks: it is left to the terminal.
    return [text] if place.has_colour else textwrap.wrap(text, width)


def _lines_of(found: Json, subscription: str) -> list[Json]:
    return [
        line
        for line in found["progress"]
        if line["subscription"] == subscription and not line["member"]
    ]


def _verdict(found: Json, subscription: str) -> str:
    lines = _lines_of(found, subscription)
    return worst(line["verdict"] for line in lines) if lines else "CAUGHT_UP"


def group_lines(found: Json, name: str, place: Terminal) -> Iterator[str]:
    """A group: its verdict and why, its strips, its numbers and who consumes."""
    stats, lines = found["stats"]["subscriptions"][name], _lines_of(found, name)
    width = max(place.width or WIDTH_DEFAULT, WIDTH_MIN)
    kind = stats.get("type")
    if kind in (None, "", "None"):  # of a group without consumers the progress still knows it
        known = {line["type"] for line in lines} - {""}
        kind = ", ".join(sorted(known)) or "not consumed since its topic was opened"
    head = f"{place.paint(table_cell(name), 'head')}  {kind}"
    if not lines:
        yield head
        backlog = stats.get("messagesBacklog", stats.get("msgBacklog", 0))
        facts = [("backlog", f"{backlog}"), ("acked", _rate(stats, "Out"))]
        names = [str(one.get("consumerName")) for one in stats.get("consumers", [])]
        yield from _facts([*facts, ("consumers", _some(names))], width, INDENT)
        return
    verdict = _verdict(found, name)
    yield f"{head}  {place.paint(verdict, verdict_style(verdict))}"
    reason = next(line["reason"] for line in lines if line["verdict"] == verdict)
    yield from textwrap.wrap(
        table_cell(reason), width, initial_indent=INDENT, subsequent_indent=INDENT
    )
    ordered = sorted(lines, key=lambda line: line["partition"])
    strips = [
        (_label(line), strip)
        for line in ordered
        for strip in found["strips"]
        if (strip["subscription"], strip["partition"]) == (name, line["partition"])
    ]
    yield from strip_lines(strips, place, INDENT)
    yield from _facts(list(_group_facts(ordered)), width, INDENT)


def _group_facts(lines: list[Json]) -> Iterator[tuple[str, str]]:
    def total(column: str) -> Any:
        return sum(line[column] for line in lines)

    yield (
        "backlog",
        f"{total('backlog')}: {total('ready')} ready, {total('inflight')} inflight, "
        f"{total('delayed')} delayed",
    )
    if holes := total("holes"):
        yield "holes", str(holes)
    behind = max(line["behind_ms"] for line in lines)
    oldest = f", the oldest for {age(behind)}" if behind else ""
    yield "acked", f"{total('acked')}, {total('rate_acked'):.1f} a second{oldest}"
    clients: dict[str, int] = {}
    for line in lines:
        for one in line["consumers"]:
            client = f"{one['name']} at {one['address']}"
            clients[client] = clients.get(client, 0) + one["inflight"]
    names = [f"{client} holds {held}" if held else client for client, held in clients.items()]
    yield "consumers", _some(names)


def subscription_page(found: Json, name: str, place: Terminal) -> Iterator[str]:
    width = max(place.width or WIDTH_DEFAULT, WIDTH_MIN)
    yield place.paint(found["topic"], "head")
    yield ""
    yield from group_lines(found, name, place)
    properties = found["stats"]["subscriptions"][name].get("subscriptionProperties") or {}
    facts = [(key, str(value)) for key, value in properties.items()]
    if facts:
        yield ""
        yield "properties"
        yield from _facts(facts, width, INDENT)
    if found["strips"]:
        yield ""
        yield from _below(legend(found["strips"], place), place, width)
    resets = found["resets"][-NAMES_MAX:]
    if resets:
        yield ""
        yield "resets"
    for one in resets:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one["at_ms"] / 1000))
        part = f" on partition {one['partition']}" if one["partition"] >= 0 else ""
        text = (
            f"{when} by {one['by'] or 'no name'}{part}: {one['was']} to {one['to']}, "
            f"{one['redelivered']} again, {one['skipped']} skipped"
        )
        waiting = f"; waiting for {', '.join(one['waiting'])}" if one["waiting"] else ""
        yield from textwrap.wrap(
            table_cell(text + waiting), width, initial_indent=INDENT, subsequent_indent=INDENT * 2
        )
