"""The numbers of the stats that follow from a cursor: backlog, its size and age, positions.

Reads, and changes nothing.

What is counted as things pass is in `subscription_counts.py` and `rates.py`; here is what follows from
where a cursor stands: backlog in messages (exact, cheap) and in entries (what upstream means by
`msgBacklog`), its size and age, and positions as upstream prints them.

    backlog = await backlog_of(subscription, slices, disk)    # Backlog(messages=30, entries=3, …)

Where messages lie may be on disk only: a plain function raises `NotInMemory` then, and its caller awaits
it (`storage/ledgers/paging.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.backlog_walk import entries_in
from milepost.broker.messages.lookup_by_index import UNREADABLE, came_ms, visible_size
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.positions.ids import Position
from milepost.positions.ranges import IndexRanges, Range
from milepost.storage.interface import Log
from milepost.storage.ledgers.not_in_memory import taken_together
from milepost.storage.ledgers.paging import Disk

# Ranges that a text of individual acks shows.
SHOWN_RANGES_MAX = 1000
# Ranges gone through between two looks at the clock.
STEP_RANGES = 64


class Standing(NamedTuple):
    """Where a cursor stands, at one moment."""

    first_index: int
    """The first message that is not acked; the end index if all are."""
    size_bytes: int
    """From the entry of that one to the last message that consumers may see."""
    oldest_ms: int
    """When that one came; 0 if all are acked."""
    ranges: IndexRanges
    """What is not acked."""


class Backlog(NamedTuple):
    """What is not acked."""

    messages: int
    entries: int
    """Entries of which anything is not acked."""
    size_bytes: int
    first_index: int
    oldest_ms: int


def settle(subscription: Subscription) -> None:
    """A broadcast group stands where its slowest member does, also between two of its ticks."""
    if isinstance(subscription, BroadcastGroup):
        subscription.settle()


def standing_of(subscription: Subscription) -> Standing:
    settle(subscription)
    log, cursor = subscription.topic.log, subscription.cursor
    first = cursor.mark_delete_index + 1
    size_bytes = visible_size(subscription.topic, first)
    is_empty = first >= cursor.end
    oldest_ms = 0 if is_empty else came_ms(log, max(first, log.first_index))
    return Standing(first, size_bytes, oldest_ms, cursor.backlog_ranges())


async def backlog_of(subscription: Subscription, slices: TimeSlices, disk: Disk) -> Backlog:
    """The numbers are of one moment, also where counting them takes a while."""
    standing = await disk.look(lambda: standing_of(subscription))
    entries = await count_entries(subscription.topic.log, standing, slices, disk)
    return Backlog(
        standing.ranges.count,
        entries,
        standing.size_bytes,
        standing.first_index,
        standing.oldest_ms,
    )


async def count_entries(log: Log, standing: Standing, slices: TimeSlices, disk: Disk) -> int:
    """Entries of which anything is not acked; if the disk does not say where they begin and end, no fewer
    than there are."""
    try:
        return await entries_in(log, standing.ranges, slices, disk)
    except UNREADABLE:
        kept = [one.entries for one in log.ledgers if one.end_index > standing.first_index]
        return min(sum(kept), standing.ranges.count)


class TopicStanding(NamedTuple):
    """What the slowest subscription needs of a topic."""

    slowest: str | None
    """Its name; None if all of them have acked everything."""
    size_bytes: int
    oldest_ms: int
    """When the oldest message came that it needs; 0 without one."""


def topic_standing(topic: Topic) -> TopicStanding:
    found, log = slowest(topic), topic.log
    if found is None:
        return TopicStanding(None, 0, 0)
    subscription, index = found
    oldest_ms = came_ms(log, max(index, log.first_index))
    return TopicStanding(subscription.name, visible_size(topic, index), oldest_ms)


def backlog_size(topic: Topic) -> int:
    """Bytes that the slowest subscription needs of a topic."""
    found = slowest(topic)
    return 0 if found is None else visible_size(topic, found[1])


def touch(topic: Topic) -> None:
    """Lack what the numbers of a topic begin with, all of it at once, so that it is brought."""
    log = topic.log
    firsts = {one.cursor.mark_delete_index + 1 for one in topic.subscriptions.values()}
    taken_together(
        partial(came_ms, log, index) for index in firsts if log.first_index <= index < log.end_index
    )


def slowest(topic: Topic) -> tuple[Subscription, int] | None:
    """The durable subscription whose first message that is not acked is the oldest, and its index."""
    found = [
        (one.cursor.mark_delete_index + 1, name)
        for name, one in topic.subscriptions.items()
        if one.is_durable and one.cursor.backlog
    ]
    index, name = min(found, default=(topic.visible_end, ""))
    if index >= topic.visible_end:
        return None
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
    subscription: Subscription, holes: Sequence[Range], slices: TimeSlices, disk: Disk
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
        lower, upper = await disk.look(
            lambda end=end, following=following: (  # type: ignore[misc]
                topic.acked_position(end - 1),
                topic.acked_position(following - 1),
            )
        )
        if lower != upper:
            texts.append(f"({lower}..{upper}]")
        if slices.is_over:
            await slices.rest()
    return f"[{','.join(texts)}]"
