"""`milepost topics`: create, delete, skip, expire and reset subscriptions.

What would move a cursor takes `--dry-run`: it prints from where to where, and how many messages would
be delivered again or skipped.
"""

from __future__ import annotations

import json
import time

import click

from milepost.cli.admin.options import DRY_RUN, FORCE, PROPERTIES, SUBSCRIPTION, TOPIC
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.output import chosen, show_object
from milepost.cli.progress.moves import dry_run_of, dry_run_of_skip
from milepost.cli.progress.places import END, Kind, Place, parse_place, position_of
from milepost.cli.quantities import DURATION


@click.command(cls=RemoteCommand, help="Create a subscription.")
@TOPIC
@SUBSCRIPTION
@click.option(
    "-m",
    "--messageId",
    "message_id",
    default="latest",
    help="Where it begins: latest, earliest, ledger:entry, or index:N.",
)
@click.option("-r", "--replicated", is_flag=True, hidden=True)
@PROPERTIES
def create_subscription(
    topic: str,
    subscription: str,
    message_id: str,
    replicated: bool,
    properties: dict[str, str],
) -> None:
    with connection().admin() as admin:
        admin.create_subscription(
            topic,
            subscription,
            position_of(admin, topic, message_id, is_id=True, checked=True),
            replicated=replicated,
            properties=properties,
        )


@click.command(cls=RemoteCommand, help="Delete a subscription.")
@TOPIC
@SUBSCRIPTION
@FORCE
@DRY_RUN
def unsubscribe(topic: str, subscription: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            dry_run_of(admin, topic, subscription, END)
        else:
            admin.delete_subscription(topic, subscription, force=force)


@click.command(cls=RemoteCommand, help="The properties of a subscription, as JSON.")
@TOPIC
@SUBSCRIPTION
def get_subscription_properties(topic: str, subscription: str) -> None:
    with connection().admin() as admin:
        found = admin.get_subscription_properties(topic, subscription)
    if chosen() is None:
        click.echo(json.dumps(found, separators=(",", ":")))
    else:
        show_object(found)


@click.command(cls=RemoteCommand, help="Replace the properties of a subscription.")
@TOPIC
@SUBSCRIPTION
@PROPERTIES
@click.option("-c", "--clear", is_flag=True, help="Remove all.")
def update_subscription_properties(
    topic: str, subscription: str, properties: dict[str, str], clear: bool
) -> None:
    if clear == bool(properties):
        raise click.UsageError("give either properties or --clear")
    with connection().admin() as admin:
        admin.update_subscription_properties(topic, subscription, properties)


@click.command(cls=RemoteCommand, help="Skip the next messages of a subscription; a batch is one.")
@TOPIC
@SUBSCRIPTION
@click.option("-n", "--count", type=click.IntRange(min=0), required=True, help="How many.")
@DRY_RUN
def skip(topic: str, subscription: str, count: int, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            dry_run_of_skip(admin, topic, subscription, count)
        else:
            admin.skip_messages(topic, subscription, count)


@click.command(cls=RemoteCommand, help="Skip everything that a subscription has not acked.")
@TOPIC
@SUBSCRIPTION
@DRY_RUN
def clear_backlog(topic: str, subscription: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            dry_run_of(admin, topic, subscription, END)
        else:
            admin.skip_all_messages(topic, subscription)


@click.command(cls=RemoteCommand, help="Skip messages that are older than a time or a position.")
@TOPIC
@SUBSCRIPTION
@click.option("-t", "--expireTime", "older_than_s", type=DURATION, help="90, 100m, 3h, 2d, 5w.")
@click.option("-p", "--position", help="ledger:entry.")
@click.option(
    "-e",
    "--exclude-reset-position",
    "excluded",
    is_flag=True,
    help="Keep the message at the position.",
)
@DRY_RUN
def expire_messages(
    topic: str,
    subscription: str,
    older_than_s: int | None,
    position: str | None,
    excluded: bool,
    dry_run: bool,
) -> None:
    if (older_than_s is None) == (position is None):
        raise click.UsageError("give either --expireTime or --position")
    with connection().admin() as admin:
        if older_than_s is not None:
            if dry_run:
                time_ms = int(time.time() * 1000) - older_than_s * 1000
                dry_run_of(admin, topic, subscription, Place(Kind.TIME, time_ms))
            else:
                admin.expire_messages(topic, subscription, older_than_s)
            return
        at = position_of(admin, topic, position or "", is_id=True, checked=not dry_run)
        if dry_run:
            place = parse_place(position or "", is_id=True)
            dry_run_of(admin, topic, subscription, place, after=not excluded)
        else:
            admin.expire_messages_until(topic, subscription, at, excluded=excluded)


@click.command(cls=RemoteCommand, help="The same for every subscription of a topic.")
@TOPIC
@click.option(
    "-t", "--expireTime", "older_than_s", type=DURATION, required=True, help="90, 100m, 3h, 2d, 5w."
)
@DRY_RUN
def expire_messages_all_subscriptions(topic: str, older_than_s: int, dry_run: bool) -> None:
    with connection().admin() as admin:
        if not dry_run:
            admin.expire_messages_for_all_subscriptions(topic, older_than_s)
            return
        time_ms = int(time.time() * 1000) - older_than_s * 1000
        for name in admin.get_subscriptions(topic):
            dry_run_of(admin, topic, name, Place(Kind.TIME, time_ms))


@click.command(cls=RemoteCommand, help="Move a subscription to a time or a message.")
@TOPIC
@SUBSCRIPTION
@click.option("-t", "--time", "back_s", type=DURATION, help="How far back: 100m, 3h, 2d, 5w.")
@click.option(
    "-m",
    "--messageId",
    "message_id",
    help="latest, earliest, ledger:entry[:partition:batch], index:N.",
)
@click.option("-e", "--exclude-reset-position", "excluded", is_flag=True, help="Begin behind it.")
@DRY_RUN
def reset_cursor(
    topic: str,
    subscription: str,
    back_s: int | None,
    message_id: str | None,
    excluded: bool,
    dry_run: bool,
) -> None:
    if (back_s is None) == (message_id is None):
        raise click.UsageError("give either --time or --messageId")
    with connection().admin() as admin:
        if back_s is not None:
            time_ms = int(time.time() * 1000) - back_s * 1000
            if dry_run:
                dry_run_of(admin, topic, subscription, Place(Kind.TIME, time_ms))
            else:
                admin.reset_cursor_to_time(topic, subscription, time_ms)
            return
        place = parse_place(message_id or "", is_id=True)
        if dry_run:
            dry_run_of(admin, topic, subscription, place, after=excluded, exact=True)
        elif admin.is_milepost():
            admin.reset_subscription(
                topic, subscription, after=excluded, exact=True, **place.as_target()
            )
        else:
            at = position_of(admin, topic, place, checked=True)
            admin.reset_cursor(topic, subscription, at, excluded=excluded)


@click.command(cls=RemoteCommand, help="Count what is in a subscription's backlog.")
@TOPIC
@SUBSCRIPTION
@click.option("-p", "--position", help="Begin at ledger:entry.")
@click.option("-b", "--backlog-scan-max-entries", type=int, hidden=True)
@click.option("-q", "--quiet", is_flag=True, hidden=True)
@click.option("--plain", is_flag=True, help="On one line.")
def analyze_backlog(
    topic: str, subscription: str, position: str | None, plain: bool, **_: object
) -> None:
    with connection().admin() as admin:
        at = position_of(admin, topic, position, is_id=True) if position else None
        found = admin.analyze_subscription_backlog(topic, subscription, at)
    if plain:
        click.echo(json.dumps(found))
    else:
        show_object(found)
