"""Acks and releases single messages by index, for an edge whose clients hold messages for a time.

Such a client names a delivery, not an entry: one message of a batch comes back when its time is over, and the
others stay where they are. What a message is in the eyes of its subscription is asked here too, so that the
edge needs no cursor.

    if standing(subscription, index, epoch) is Standing.OPEN:
        ack(subscription, consumer, await ranges_of(topic, index, disk), done)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from milepost.cursor.cursor import NO_HOLDER
from milepost.errors import MilepostError
from milepost.positions.ranges import Range
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import LAST_CHUNK

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Engine


class Standing(Enum):
    """What became of a message since it was delivered in an epoch."""

    OPEN = "not acked"
    DONE = "acked, or no longer retained"
    VOID = "the subscription was moved since"


def epoch_of(subscription: Subscription) -> int:
    """How often the subscription was moved."""
    return subscription.cursor.epoch


def standing(subscription: Subscription, index: int, epoch: int) -> Standing:
    cursor = subscription.cursor
    if epoch != cursor.epoch or index >= cursor.end:
        return Standing.VOID
    if index < cursor.first or cursor.is_acked(Span(index, 1)):
        return Standing.DONE
    return Standing.OPEN


def open_ranges(subscription: Subscription) -> Sequence[Range]:
    """The indexes that are not acked."""
    return list(subscription.cursor.backlog_ranges())


def holds(consumer: Consumer, ranges: Sequence[Range]) -> bool:
    """Are all of these with the consumer? An operator, a policy or another client may have acked some."""
    cursor = consumer.subscription.cursor
    return all(cursor.holds(consumer.holder, first, end) for first, end in ranges)


async def ranges_of(topic: Topic, index: int, disk: Engine) -> Sequence[Range]:
    """The indexes of the message with this index: all of its chunks, if this is the last one."""

    def found() -> Sequence[Range]:
        located = topic.log.locate(index)
        if located.flags & LAST_CHUNK:
            return [*topic.chunk_ranges(*located.position), (index, index + 1)]
        return ((index, index + 1),)

    return await disk.look(found)


def ack(
    subscription: Subscription,
    consumer: Consumer | None,
    ranges: Sequence[Range],
    done: Callable[[MilepostError | None], None],
) -> None:
    """Ack these; `done` is called when that is durable. What is acked already is waited for too."""
    holder = NO_HOLDER if consumer is None else consumer.holder
    if out := subscription.meant(ranges):
        subscription.note_acked(subscription.cursor.ack(out, holder))
    if subscription.journal is None:
        done(None)
    else:
        subscription.journal.when_durable(done)


def release(consumer: Consumer, ranges: Sequence[Range], *, count: bool) -> int:
    """Make ready again what of these the consumer holds; how many. With `count` it was a delivery that
    failed, without it none that the client has seen."""
    subscription = consumer.subscription
    released = subscription.cursor.release(ranges, consumer.holder, count=count).count
    consumer.unacked -= released
    subscription.unacked -= released
    if subscription.dispatcher is not None:
        subscription.dispatcher.settled(ranges)
    subscription.unblock()
    subscription.rescan()
    return released


def want(consumer: Consumer, messages: int) -> None:
    """Let the consumer be given so many messages; 0: none for now."""
    if messages > consumer.permits:
        consumer.subscription.flow(consumer, messages - consumer.permits)
    elif messages == 0:
        consumer.permits = min(consumer.permits, 0)
