"""`milepost seek`: resets a subscription.

    milepost seek orders billing --to index:120 --dry-run
    milepost seek orders billing --to 2026-11-15T14:00:00Z --expected 480
    milepost seek orders billing --by -10
    milepost seek orders audit --to earliest --create

The broker is asked once whether it is Milepost. Apache Pulsar's own reset can neither count nor check:
what would need that is refused there, and a place that is not there is, everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.progress.moves import cannot_count, show_outcome
from milepost.cli.progress.places import Kind, Place, parse_place, position_of

if TYPE_CHECKING:
    from milepost.admin import Admin


@click.command(cls=RemoteCommand)
@click.argument("topic")
@click.argument("subscription")
@click.option(
    "--to", metavar="PLACE", help="earliest, latest, index:120, id:3:7:-1:2, time:14:30, -10m."
)
@click.option("--by", type=int, metavar="N", help="So many indexes on; -10 for ten back.")
@click.option("--after", is_flag=True, help="Begin behind the message, not at it.")
@click.option(
    "--expected", type=click.IntRange(min=0), metavar="INDEX", help="Only if it stands there now."
)
@click.option("--create", is_flag=True, help="Make the subscription if it is not there.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
def seek(
    topic: str,
    subscription: str,
    to: str | None,
    by: int | None,
    after: bool,
    expected: int | None,
    create: bool,
    dry_run: bool,
) -> None:
    """Move a subscription to a place, on all partitions or none.

    Prints from where to where it moved, how many indexes are delivered again, and how many are
    skipped. An index that counts from the end, as -10, is ten before it; this and --by are each
    partition's own numbers, as far as it goes. What is not there is refused, with what is.
    """
    if (to is None) == (by is None):
        raise click.UsageError("give either --to or --by")
    if create and expected is not None:
        raise click.UsageError("what is not there yet is expected nowhere: --create or --expected")
    place = parse_place(to) if to is not None else Place(Kind.BY, by or 0)
    with connection().admin() as admin:
        if not admin.is_milepost():
            if dry_run or create or expected is not None or place.kind is Kind.BY:
                raise cannot_count(f"{topic} {subscription}")
            click.echo(
                f"{topic} {subscription}: moved to "
                + _seek_on_pulsar(admin, topic, subscription, place, after=after)
            )
            return
        outcome = admin.reset_subscription(
            topic,
            subscription,
            after=after,
            expected=expected,
            create=create,
            exact=True,
            dry_run=dry_run,
            **place.as_target(),
        )
    show_outcome(subscription, outcome)


def _seek_on_pulsar(
    admin: Admin, topic: str, subscription: str, place: Place, *, after: bool
) -> str:
    """Use Apache Pulsar's own reset, at a message that is there; say where that is."""
    if place.kind is Kind.TIME:
        admin.reset_cursor_to_time(topic, subscription, place.number)
        return str(place)
    at = position_of(admin, topic, place, checked=True)
    admin.reset_cursor(topic, subscription, at, excluded=after)
    if place.kind is Kind.INDEX:
        return f"{place}, of which this broker knows the entry, {at}"
    return str(place)
