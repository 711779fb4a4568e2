"""`milepost topics`: replication and offloading; `milepost non-persistent`."""

from __future__ import annotations

import click

from milepost.cli.admin.topic_subscriptions import SUBSCRIPTION
from milepost.cli.admin.topics import TOPIC
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.groups import Lazy, LazyGroup
from milepost.cli.output import show_names, show_object


@click.command(cls=RemoteCommand, help="Whether a subscription was to be replicated.")
@TOPIC
@SUBSCRIPTION
def get_replicated_subscription_status(topic: str, subscription: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_replicated_status(topic, subscription))


@click.command(cls=RemoteCommand, help="Say whether a subscription is to be replicated.")
@TOPIC
@SUBSCRIPTION
@click.option("-e", "--enable", is_flag=True)
@click.option("-d", "--disable", is_flag=True)
def set_replicated_subscription_status(
    topic: str, subscription: str, enable: bool, disable: bool
) -> None:
    if enable == disable:
        raise click.UsageError("give either --enable or --disable")
    with connection().admin() as admin:
        admin.set_replicated_status(topic, subscription, enable)


@click.command(cls=RemoteCommand, help="Offload what lies before a position.")
@TOPIC
@click.option("-s", "--size-threshold", "size", hidden=True)
def offload(topic: str, size: str | None) -> None:
    with connection().admin() as admin:
        last = admin.get_last_message_id(topic)
        admin.offload_topic(topic, last.ledger_id, last.entry_id)
    click.echo(f"Offload triggered for {topic} for messages before {last}")


@click.command(cls=RemoteCommand, help="How offloading went.")
@TOPIC
@click.option("-w", "--wait-complete", is_flag=True, hidden=True)
def offload_status(topic: str, wait_complete: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_offload_status(topic)
    if found.get("status") == "ERROR":
        raise CommandFailed(f"offload of {topic}: {found.get('lastError')}", Exit.USAGE)
    click.echo(f"Offload: {found.get('status')}")


@click.command("delete", cls=RemoteCommand, help="Remove everything that is set for a topic.")
@TOPIC
@click.option("-g", "--global", "is_global", is_flag=True, hidden=True)
def delete_policies(topic: str, is_global: bool) -> None:
    with connection().admin() as admin:
        admin.remove_topic_policy(topic, "policies")


@click.command(cls=RemoteCommand, help="The open topics of a bundle.")
@click.argument("namespace")
@click.option("-b", "--bundle", required=True, help="The range of hashes.")
def list_in_bundle(namespace: str, bundle: str) -> None:
    with connection().admin() as admin:
        show_names(admin.list_topics_in_bundle(namespace, bundle), "topic")


@click.command("list", cls=RemoteCommand, help="The open topics of a namespace.")
@click.argument("namespace")
def list_volatile(namespace: str) -> None:
    with connection().admin() as admin:
        show_names(admin.list_topics(namespace, domain="non-persistent"), "topic")


_TOPICS = "milepost.cli.admin.topics"
_TABLE = {
    "list": Lazy(
        "milepost.cli.admin.topic_placement:list_volatile", "The open topics of a namespace."
    ),
    "list-in-bundle": Lazy(
        "milepost.cli.admin.topic_placement:list_in_bundle", "Those of a bundle."
    ),
    "create": Lazy(f"{_TOPICS}:create", "Create a topic without partitions."),
    "create-partitioned-topic": Lazy(
        f"{_TOPICS}:create_partitioned_topic", "Create a topic with partitions."
    ),
    "get-partitioned-topic-metadata": Lazy(
        f"{_TOPICS}:get_partitioned_topic_metadata", "How many partitions a topic has."
    ),
    "lookup": Lazy(f"{_TOPICS}:lookup", "Which broker serves a topic."),
    "stats": Lazy(f"{_TOPICS}:stats", "Rates, sizes, producers, subscriptions, consumers."),
    "stats-internal": Lazy(f"{_TOPICS}:stats_internal", "Ledgers and cursors."),
    "unload": Lazy(f"{_TOPICS}:unload", "Close a topic here; clients come back."),
    "delete": Lazy(f"{_TOPICS}:delete", "Delete topics."),
}

non_persistent = LazyGroup(
    "non-persistent", table=_TABLE, help="Non-persistent topics, by `pulsar-admin`'s older words."
)
