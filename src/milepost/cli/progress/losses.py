"""Dry runs of commands that delete: how much would be gone.

    persistent://public/default/orders billing: 7 not acked would be lost
    persistent://public/default/orders: 500 bytes, 1 subscriptions, 1 producers, 2 consumers

They ask with GET only, so that they are safe on any broker: one that does not know a flag for a dry
run would carry it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from milepost.admin import Admin

UNCHANGED = "nothing was changed: this was a dry run"


def topics_would_go(admin: Admin, topics: list[str]) -> None:
    """Print what deleting or truncating topics would take away."""
    for topic in topics:
        partitions = admin.get_partitioned_topic_metadata(topic).get("partitions", 0)
        stats = admin.get_partitioned_stats(topic) if partitions else admin.get_stats(topic)
        for line in _of_topic(topic, stats):
            click.echo(line)
    click.echo(UNCHANGED)


def _of_topic(topic: str, stats: dict[str, Any]) -> Iterator[str]:
    subscriptions = stats.get("subscriptions", {})
    for name, one in subscriptions.items():
        yield f"{topic} {name}: {_backlog(one)} not acked would be lost"
    producers = len(stats.get("publishers", []))
    consumers = sum(len(one.get("consumers", [])) for one in subscriptions.values())
    yield (
        f"{topic}: {stats.get('storageSize', 0)} bytes, {len(subscriptions)} subscriptions, "
        f"{producers} producers, {consumers} consumers"
    )


def backlogs_would_go(admin: Admin, namespace: str, subscription: str | None) -> None:
    """Print what every topic of a namespace has not acked yet."""
    for topic in admin.list_topics(namespace):
        for name, one in admin.get_stats(topic).get("subscriptions", {}).items():
            if subscription in (None, name):
                click.echo(f"{topic} {name}: {_backlog(one)} would be skipped")
    click.echo(UNCHANGED)


def ledgers_would_go(admin: Admin, topic: str) -> None:
    """Print what trimming could delete: ledgers that every cursor has behind it, but the last."""
    stats = admin.get_internal_stats(topic)
    marks = [
        tuple(int(part) for part in one["markDeletePosition"].split(":"))
        for one in stats.get("cursors", {}).values()
    ]
    gone = [
        ledger
        for ledger in stats.get("ledgers", [])[:-1]
        if all(mark >= (ledger["ledgerId"], ledger["entries"] - 1) for mark in marks)
    ]
    entries = sum(ledger["entries"] for ledger in gone)
    size = sum(ledger["size"] for ledger in gone)
    click.echo(f"{topic}: at most {len(gone)} ledgers, {entries} entries, {size} bytes would go")
    click.echo(UNCHANGED)


def _backlog(stats: dict[str, Any]) -> int:
    """In messages where the broker counts them, else in entries."""
    return int(stats.get("messagesBacklog", stats.get("msgBacklog", 0)))
