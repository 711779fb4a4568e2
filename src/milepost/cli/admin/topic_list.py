"""`milepost topics list`: names for programs, and for people a table with counts and sizes.

Programs get what pulsar-admin prints: a name a line, each partition by its own. On a terminal, and with
`-o table`, a partitioned topic is one row.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.admin.options import NAMESPACE, SYSTEM
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.figures import short_topic, size
from milepost.cli.output import for_a_person, note, show_names
from milepost.cli.progress.progress import style
from milepost.cli.quantities import Property
from milepost.cli.tables import Column, fit, lines
from milepost.cli.terminal import terminal

if TYPE_CHECKING:
    from milepost.admin import Admin

# Counting opens topics: of more than these a person wants a search, and a program the names.
TOPICS_MAX = 1000
PAGE = 200

COLUMNS = (
    Column("topic", cut_to=16),
    Column("parts", rank=4, hides_zeros=True),
    Column("messages"),
    Column("size", rank=8),
    Column("groups", rank=6),
    Column("backlog", rank=7),
    Column("producers", rank=2, hides_zeros=True),
    Column("consumers", rank=3, hides_zeros=True),
    Column("in/s", rank=5, hides_zeros=True),
    Column("out/s", rank=5, hides_zeros=True),
    Column("verdict", rank=9, hides_zeros=True),
)

PARTITION = re.compile(r"-partition-(?:0|[1-9][0-9]*)\Z")

DOMAIN = click.option(
    "-td",
    "--topic-domain",
    "domain",
    type=click.Choice(["persistent", "non_persistent"]),
    callback=lambda *of: of[2].replace("_", "-") if of[2] else None,
    help="Only these; else both.",
)


@click.command("list", cls=RemoteCommand, help="Names of the topics of a namespace.")
@NAMESPACE
@DOMAIN
@SYSTEM
@click.option("-b", "--bundle", hidden=True, expose_value=False)
@click.option("-p", "--property", type=Property(), multiple=True, hidden=True, expose_value=False)
def list_topics(namespace: str, domain: str | None, include_system: bool) -> None:
    with connection().admin() as admin:
        if not for_a_person():
            found = admin.list_topics(namespace, domain=domain, include_system=include_system)
            show_names(found, "topic")
        elif domain or include_system or not admin.is_milepost():
            found = admin.list_topics(namespace, domain=domain, include_system=include_system)
            _show_folded(found)
        else:
            _show_counted(admin, namespace)


def _show_folded(names: list[str]) -> None:
    """Names alone, a partitioned topic with the number of its partitions: counts are not asked for."""
    counts = Counter(PARTITION.sub("", name) for name in names)
    whole = set(names)
    rows = [(short_topic(name), "" if name in whole else str(n)) for name, n in counts.items()]
    place = terminal()
    for line in lines(fit(COLUMNS[:2], rows, place.width), place):
        click.echo(line)


def _show_counted(admin: Admin, namespace: str) -> None:
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        page = admin.search_topics(namespace=namespace, after=after, limit=PAGE)
        found += page["topics"]
        after = page.get("after")
        if after is None or len(found) >= TOPICS_MAX:
            break
    place = terminal()
    if found:
        rows = [row_of(one) for one in found]
        for line in lines(fit(COLUMNS, rows, place.width), place, style):
            click.echo(line)
    # Apache Pulsar keeps no list of the others either: they are there while a client uses them.
    others = admin.list_topics(namespace, domain="non-persistent")
    for name in others:
        click.echo(name)
    if not found and not others:
        note(f"no topics in {namespace}")
    if after is not None:
        note(
            f"the first {len(found)} of {page['found']} topics; "
            f"`milepost topics list {namespace} -o json` has all names"
        )


def row_of(topic: dict[str, Any]) -> tuple[str, ...]:
    return (
        short_topic(topic["name"]),
        str(topic["partitions"] or ""),
        str(topic["messages"]),
        size(topic["stored_bytes"]),
        str(topic["subscriptions"]),
        str(topic["backlog"]),
        str(topic["producers"]),
        str(topic["consumers"]),
        f"{topic['rate_in']:.1f}",
        f"{topic['rate_out']:.1f}",
        topic["verdict"],
    )
