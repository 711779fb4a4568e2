"""`milepost subscriptions`: lists, shows, creates, deletes; who reset them.

    milepost subscriptions list persistent://public/default/orders
    milepost subscriptions resets persistent://public/default/orders billing

What pulsar-admin has for subscriptions is under `milepost topics`.
"""

from __future__ import annotations

import time
from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.output import show_object, show_rows
from milepost.cli.progress.describe import describe_subscription
from milepost.cli.progress.moves import dry_run_of
from milepost.cli.progress.places import END, position_of
from milepost.cli.quantities import Property

TOPIC = click.argument("topic")
SUBSCRIPTION = click.argument("subscription")
# What a partition has, and a topic of several has not.
POSITIONS = {"firstIndex", "endIndex", "markDeleteIndex", "epoch"}
COLUMNS = ("subscription", "type", "consumers", "backlog", "ready", "inflight", "delayed", "rate")

subscriptions = Group("subscriptions", help="Subscriptions and their progress.")
subscriptions.add_command(describe_subscription, "describe")


@subscriptions.command(
    "list", cls=RemoteCommand, help="Subscriptions of a topic, the longest backlog first."
)
@TOPIC
def list_subscriptions(topic: str) -> None:
    with connection().admin() as admin:
        partitions = admin.get_partitioned_topic_metadata(topic).get("partitions", 0)
        stats = admin.get_partitioned_stats(topic) if partitions else admin.get_stats(topic)
    rows = [report_row(name, one) for name, one in stats.get("subscriptions", {}).items()]
    rows.sort(key=lambda row: (-row[3], row[0]))
    show_rows(COLUMNS, rows)


def report_row(name: str, stats: dict[str, Any]) -> tuple[Any, ...]:
    """Counts are messages where the broker has them; Apache Pulsar's backlog is in entries."""
    return (
        name,
        stats.get("type") or "",
        len(stats.get("consumers", [])),
        stats.get("messagesBacklog", stats.get("msgBacklog", 0)),
        stats.get("messagesReady"),
        stats.get("messagesInflight", stats.get("unackedMessages")),
        stats.get("messagesDelayed", stats.get("msgDelayed", 0)),
        float(stats.get("msgRateOut", 0.0)),
    )


@subscriptions.command(cls=RemoteCommand, help="Create a subscription.")
@TOPIC
@SUBSCRIPTION
@click.option("--at", "place", default="latest", metavar="PLACE", help="Where it begins.")
@click.option(
    "-p", "--property", "properties", type=Property(), multiple=True, help="key=value; repeatable."
)
def create(
    topic: str, subscription: str, place: str, properties: tuple[tuple[str, str], ...]
) -> None:
    with connection().admin() as admin:
        at = position_of(admin, topic, place, checked=True)
        admin.create_subscription(topic, subscription, at, properties=dict(properties))


@subscriptions.command(cls=RemoteCommand, help="Delete a subscription.")
@TOPIC
@SUBSCRIPTION
@click.option("-f", "--force", is_flag=True, help="Close its consumers first.")
@click.option("--dry-run", is_flag=True, help="Say what would be lost, and change nothing.")
def delete(topic: str, subscription: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            dry_run_of(admin, topic, subscription, END)
        else:
            admin.delete_subscription(topic, subscription, force=force)


@subscriptions.command(cls=RemoteCommand, help="Everything a broker says of a subscription.")
@TOPIC
@SUBSCRIPTION
def show(topic: str, subscription: str) -> None:
    from milepost.cli.exits import CommandFailed, Exit

    with connection().admin() as admin:
        partitions = admin.get_partitioned_topic_metadata(topic).get("partitions", 0)
        stats = admin.get_partitioned_stats(topic) if partitions else admin.get_stats(topic)
    found = stats.get("subscriptions", {})
    if subscription not in found:
        raise CommandFailed(
            f"subscriptions show {topic} {subscription}: there is none of that name; "
            f"`milepost subscriptions list {topic}` shows them",
            Exit.NOT_FOUND,
        )
    told = found[subscription]
    if partitions:  # each of them has its own
        told = {name: value for name, value in told.items() if name not in POSITIONS}
    show_object(told)


@subscriptions.command(cls=RemoteCommand, help="Who moved a subscription, and who has obeyed.")
@TOPIC
@SUBSCRIPTION
def resets(topic: str, subscription: str) -> None:
    with connection().admin() as admin:
        found = admin.get_resets(topic, subscription)
    columns = ("time", "by", "partition", "asked", "from", "to", "again", "skipped", "waiting")
    show_rows(
        columns,
        [
            (
                time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one["at_ms"] / 1000)),
                one["by"],
                one["partition"],
                one["asked"],
                one["was"],
                one["to"],
                one["redelivered"],
                one["skipped"],
                ", ".join(one["waiting"]),
            )
            for one in found
        ],
    )
