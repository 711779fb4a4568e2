"""`milepost seek`: move a subscription while its consumers live, and say what that does.

    milepost seek orders billing --to idx:120 --dry-run
    milepost seek orders billing --to 2026-11-15T14:00:00Z --expected 480
    milepost seek orders billing --by -10
    milepost seek orders audit --to earliest --create

Against Apache Pulsar it uses that broker's own reset, which can neither count nor check.
"""

from __future__ import annotations

import click

from milepost.cli.connection import connection
from milepost.cli.exits import CommandFailed
from milepost.cli.moves import outcome_of, show_outcome
from milepost.cli.peek import end_index
from milepost.cli.places import Kind, Place, parse_place, position_of
from milepost.cli.remote import RemoteCommand


@click.command(cls=RemoteCommand)
@click.argument("topic")
@click.argument("subscription")
@click.option("--to", metavar="PLACE", help="earliest, latest, idx:120, 3:7:-1:2, a time, -10m.")
@click.option("--by", type=int, metavar="N", help="So many messages on; -10 for ten back.")
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

    Prints from where to where it moved, how many messages are delivered again, and how many are
    skipped. An index that counts from the end, as -10, is ten before it.
    """
    if (to is None) == (by is None):
        raise click.UsageError("give either --to or --by")
    if create and expected is not None:
        raise click.UsageError("what is not there yet is expected nowhere: --create or --expected")
    place = parse_place(to) if to is not None else Place(Kind.BY, by or 0)
    with connection().admin() as admin:
        if place.kind is Kind.INDEX and place.number < 0:
            place = Place(Kind.INDEX, max(end_index(admin, topic) + place.number, 0))
        try:
            outcome = outcome_of(
                admin,
                topic,
                subscription,
                place,
                after=after,
                expected=expected,
                create=create,
                dry_run=dry_run,
            )
        except CommandFailed:
            # Apache Pulsar: it can move, and neither count nor check.
            if dry_run or create or expected is not None or place.kind is Kind.BY:
                raise
            if place.kind is Kind.TIME:
                admin.reset_cursor_to_time(topic, subscription, place.number)
                click.echo(f"{topic} {subscription}: moved to {place}")
                return
            at = position_of(admin, topic, place)
            admin.reset_cursor(topic, subscription, at, excluded=after)
            where = f"{place}, of which this broker knows the entry, {at}"
            click.echo(
                f"{topic} {subscription}: moved to {where if place.kind is Kind.INDEX else place}"
            )
            return
    show_outcome(subscription, outcome)
