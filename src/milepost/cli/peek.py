"""`milepost peek`: look at messages without consuming them.

    milepost peek orders -s billing -n 5          # the next of a subscription
    milepost peek orders --from idx:100 -n 20     # by place, of nobody's

Nothing is acked, delivered or counted: consumers do not notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from milepost.cli.connection import connection
from milepost.cli.output import chosen, show_rows
from milepost.cli.places import Kind, Place, parse_place
from milepost.cli.remote import RemoteCommand
from milepost.cli.topic_messages import show_messages

if TYPE_CHECKING:
    from milepost.admin import Admin, StoredMessage
    from milepost.positions.ids import MessageId


@click.command(cls=RemoteCommand)
@click.argument("topic")
@click.option("-s", "--subscription", help="What it would get next.")
@click.option("--from", "begin", metavar="PLACE", help="Or begin here: idx:100, 3:7, a time.")
@click.option("-n", "--count", type=click.IntRange(min=1), default=10, show_default=True)
def peek(topic: str, subscription: str | None, begin: str | None, count: int) -> None:
    """Print messages and leave them where they are. Batches are unpacked; nothing is acked."""
    if subscription and begin:
        raise click.UsageError("give either --subscription or --from")
    with connection().admin() as admin:
        if subscription:
            found = next_of(admin, topic, subscription, count)
        else:
            place = parse_place(begin or "earliest")
            found = list(islice(messages_from(admin, topic, place), count))
    if chosen() is not None:
        show_messages(found)
        return
    show_rows(
        ("index", "id", "key", "data"),
        [
            (
                one.index,
                str(one.message_id),
                one.key,
                one.data.decode("utf-8", "backslashreplace"),
            )
            for one in found
        ],
    )


def next_of(admin: Admin, topic: str, subscription: str, count: int) -> list[StoredMessage]:
    """The next messages of a subscription. Of a batch that is acked in part, a broker shows the
    whole: what it says is acked up to is left out here."""
    found = admin.peek_messages(topic, subscription, count)
    if not found or found[0].batch_size == 0:
        return found
    stats = admin.get_stats(topic).get("subscriptions", {}).get(subscription, {})
    acked = stats.get("markDeleteIndex", -1)
    done = sum(1 for one in found if one.index is not None and one.index <= acked)
    if done:
        found = admin.peek_messages(topic, subscription, count + done)
    return [one for one in found if one.index is None or one.index > acked]


def messages_from(admin: Admin, topic: str, place: Place) -> Iterator[StoredMessage]:
    """Messages from a place on, entry by entry, until there are no more."""
    from milepost.admin import Missing

    index = index_of(admin, topic, place)
    while True:
        try:
            at = admin.get_message_id_by_index(topic, index)
            if at.entry_id < 0:  # it has expired; the first that is kept stands for it
                at = admin.examine_message(topic, "earliest", 1)[0].message_id
            entry = admin.get_message_by_id(topic, at.ledger_id, at.entry_id)
        except Missing:
            return
        for one in entry:
            if one.index is None or one.index >= index:
                yield one
        if entry[-1].index is None:
            return
        index = entry[-1].index + 1


def index_of(admin: Admin, topic: str, place: Place) -> int:
    """The index that a place means; that of the end if there is nothing behind it."""
    from milepost.admin import Missing

    if place.kind is Kind.EARLIEST:
        return 0
    if place.kind is Kind.INDEX and place.number >= 0:
        return place.number
    end = end_index(admin, topic)
    if place.kind is Kind.INDEX:
        return max(end + place.number, 0)
    if place.kind is Kind.LATEST:
        return end
    at = place.message_id
    if place.kind is Kind.TIME:
        at = admin.get_message_id_by_timestamp(topic, place.number)
        if at.entry_id < 0:
            return 0
    assert at is not None
    try:
        return index_at(admin, topic, at)
    except Missing:
        if place.kind is Kind.TIME:  # nothing is that young
            return end
        raise


def index_at(admin: Admin, topic: str, at: MessageId) -> int:
    """The index of a message. Apache Pulsar has no call for it, but shows it with the message."""
    from milepost.admin import Missing

    try:
        return admin.get_index_by_message_id(topic, at)
    except Missing as refusal:
        entry = admin.get_message_by_id(topic, at.ledger_id, at.entry_id)
        index = entry[min(max(at.batch_index, 0), len(entry) - 1)].index
        if index is None:
            raise refusal from None
        return index


def end_index(admin: Admin, topic: str) -> int:
    """One past the last index."""
    from milepost.admin import Missing

    last = admin.get_last_message_id(topic)
    if last.entry_id < 0:
        return 0
    try:
        return admin.get_index_by_message_id(topic, last) + 1
    except Missing as refusal:
        index = admin.get_message_by_id(topic, last.ledger_id, last.entry_id)[-1].index
        if index is None:
            raise refusal from None
        return index + 1
