"""`milepost topics`: replication and offloading."""

from __future__ import annotations

import click

from milepost.cli.admin.options import SUBSCRIPTION, TOPIC
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit


@click.command(cls=RemoteCommand, help="Say whether a subscription is to be replicated.")
@TOPIC
@SUBSCRIPTION
@click.option("-e", "--enable", is_flag=True, help="It is replicated.")
@click.option("-d", "--disable", is_flag=True, help="It is not.")
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
