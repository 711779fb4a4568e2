"""Tells what a reset did or would do.

    persistent://public/default/orders billing: from index 100 to 40 of [0, 200): 60 indexes delivered
    again, 0 skipped

The counting is the broker's, in one snapshot and in indexes: a chunked message has one for each chunk.
Apache Pulsar cannot say it, and is told apart.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import click

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.output import chosen, show_rows
from milepost.cli.progress.places import END, Kind, Place

if TYPE_CHECKING:
    from milepost.admin import Admin, ResetOutcome

COLUMNS = ("topic", "subscription", "from", "to", "first", "end", "redelivered", "skipped", "note")
NUMBERS = attrgetter("was", "to", "first", "end", "redelivered", "skipped")


def dry_run_of(
    admin: Admin,
    topic: str,
    subscription: str,
    place: Place,
    *,
    after: bool = False,
    exact: bool = False,
) -> None:
    """Print what a reset to a place would do, and change nothing."""
    if not admin.is_milepost():
        raise cannot_count(f"{topic} {subscription}")
    outcome = admin.reset_subscription(
        topic, subscription, after=after, exact=exact, dry_run=True, **place.as_target()
    )
    show_outcome(subscription, outcome)


def dry_run_of_skip(admin: Admin, topic: str, subscription: str, entries: int) -> None:
    """The same for skipping entries: behind the last of them that is not acked."""
    from milepost.admin import Missing

    if entries == 0:
        dry_run_of(admin, topic, subscription, Place(Kind.BY))
        return
    try:
        last = admin.peek_entry(topic, subscription, entries)[-1].message_id
    except Missing:  # fewer than that; if the subscription is missing, the dry run says so
        dry_run_of(admin, topic, subscription, END)
    else:
        whole = last.__class__(last.ledger_id, last.entry_id, last.partition)
        dry_run_of(admin, topic, subscription, Place(Kind.ID, message_id=whole), after=True)


def cannot_count(what: str) -> CommandFailed:
    """Of Apache Pulsar, which has no call that says what a move does."""
    return CommandFailed(
        f"{what}: this broker is not Milepost, and cannot say beforehand what a move does; nothing "
        "was changed",
        Exit.USAGE,
    )


def show_outcome(subscription: str, outcome: ResetOutcome) -> None:
    if chosen() is not None:
        rows = [(one.topic, subscription, *NUMBERS(one), one.note) for one in outcome.moves]
        show_rows(COLUMNS, rows)
        return
    for move in outcome.moves:
        note = f" ({move.note})" if move.note else ""
        click.echo(
            f"{move.topic} {subscription}: from index {move.was} to {move.to} of "
            f"[{move.first}, {move.end}): {move.redelivered} "
            f"{'index' if move.redelivered == 1 else 'indexes'} delivered again, "
            f"{move.skipped} skipped{note}"
        )
    if outcome.dry_run:
        click.echo("nothing was changed: this was a dry run")
