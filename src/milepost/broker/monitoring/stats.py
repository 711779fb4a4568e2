"""The numbers of the stats that follow from a cursor: backlog, its size and age, positions.

Reads, and changes nothing.

What is counted as things pass is in `subscription_counts.py` and `rates.py`; here is what follows from
where a cursor stands: backlog in messages (exact, cheap) and in entries (what upstream means by
`msgBacklog`), its size and age, and positions as upstream prints them.

    backlog = await backlog_of(subscription, slices)      # Backlog(messages=30, entries=3, …)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.backlog_walk import entries_in
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.positions.ids import Position
from milepost.positions.ranges import IndexRanges, Range

# Ranges that a text of individual acks shows.
SHOWN_RANGES_MAX = 1000
# Ranges gone through between two looks at the clock.
STEP_RANGES = 64


class Backlog(NamedTuple):
    """What is not acked."""

    messages: int
    entries: int
    """Entries of which anything is not acked."""
    size_bytes: int
    """From the first of them to the last message that consumers may see."""
    first_index: int
    """The first message that is not acked; the end index if all are."""
    oldest_ms: int
    """When that one came; 0 if all are acked."""


def settle(subscription: Subscription) -> None:
    """A broadcast group stands where its slowest member does, also between two of its ticks."""
    if isinstance(subscription, BroadcastGroup):
        subscription.settle()


async def backlog_of(subscription: Subscription, slices: TimeSlices) -> Backlog:
    """The numbers are of one moment, also where counting them takes a while."""
    log, cursor = subscription.topic.log, subscription.cursor
    first = cursor.mark_delete_index + 1
    ranges = cursor.backlog_ranges()
    is_empty = first >= cursor.end
    return Backlog(
        ranges.count,
        await entries_in(log, ranges, slices),
        subscription.topic.visible_size(first),
        first,
        0 if is_empty else log.locate(max(first, log.first_index)).timestamp_ms,
    )


def slowest(topic: Topic) -> tuple[Subscription, int] | None:
    """The durable subscription whose first message that is not acked is the oldest, and its index."""
    found = [
        (one.cursor.mark_delete_index + 1, name)
        for name, one in topic.subscriptions.items()
        if one.is_durable and one.cursor.backlog
    ]
    if not found:
        return None
    index, name = min(found)
    return topic.subscriptions[name], index


# -- positions, as upstream prints them --------------------------------------------------------------


def mark_delete_position(subscription: Subscription) -> Position:
    return subscription.topic.acked_position(subscription.cursor.mark_delete_index)


def read_position(subscription: Subscription) -> Position:
    """Where the first message lies that was never with a consumer in this epoch."""
    topic, cursor = subscription.topic, subscription.cursor
    ready = cursor.first_ready
    index = cursor.end if ready is None else ready
    if index < topic.log.end_index:
        return topic.log.locate(max(index, topic.log.first_index)).position
    ledgers = topic.log.ledgers
    return Position(ledgers[-1].ledger_id, ledgers[-1].entries) if ledgers else Position(-1, -1)


async def ack_holes(backlog: IndexRanges, end: int, slices: TimeSlices) -> list[Range]:
    """The oldest ranges of a backlog that something above them is not of, as the cursor says too that
    ends there; at most one more than are shown."""
    holes: list[Range] = []
    for hole in backlog:
        if hole[1] == end or len(holes) > SHOWN_RANGES_MAX:
            break
        holes.append(hole)
        if not len(holes) % STEP_RANGES and slices.is_over:
            await slices.rest()
    return holes


async def individually_acked(
    subscription: Subscription, holes: Sequence[Range], slices: TimeSlices
) -> str:
    """Whole entries acked behind the mark-delete position, `[(1:3..1:5],(1:7..1:9]]`; of many the
    first. `holes` are those of `ack_holes`."""
    topic, cursor = subscription.topic, subscription.cursor
    followings = [first for first, _ in holes[1:]]
    if len(holes) <= SHOWN_RANGES_MAX and holes:
        behind = cursor.backlog_ranges().next_index(holes[-1][1])
        followings.append(cursor.end if behind is None else behind)
    texts = []
    for (_, end), following in zip(holes, followings, strict=False):
        lower, upper = topic.acked_position(end - 1), topic.acked_position(following - 1)
        if lower != upper:
            texts.append(f"({lower}..{upper}]")
        if slices.is_over:
            await slices.rest()
    return f"[{','.join(texts)}]"
