"""Skips and expires: acks messages that no consumer has acked.

By count, by age or by position; always from the front, and what was acked behind stays acked. Each way is
decided first (`plan_…`, which changes nothing) and carried out by `carry_out`, whose answer comes when it is
on disk: so a dry run and the real one cannot disagree.

    plan = await plan_entries(subscription, 10, slices, disk)   # Skip(first_index=40, end_index=57, count=12)
    await carry_out(broker, subscription, plan)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.backlog_walk import nth_in_backlog
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import IndexNotFound
from milepost.positions.ids import Position
from milepost.storage.ledgers.paging import Disk

if TYPE_CHECKING:
    from milepost.broker.broker import Broker


class Skip(NamedTuple):
    """What a skip will do, or has done."""

    first_index: int
    """The first message that is not acked."""
    end_index: int
    """Everything below will be."""
    count: int  # type: ignore[assignment]  # in place of tuple.count, which has no use here
    """How many messages that are: those acked one by one are not among them."""


def plan_up_to(subscription: Subscription, end_index: int) -> Skip:
    """Everything below an index."""
    cursor = subscription.cursor
    first = cursor.mark_delete_index + 1
    end = max(min(end_index, cursor.end), first)
    return Skip(first, end, cursor.backlog_ranges().count_within(first, end))


def plan_all(subscription: Subscription) -> Skip:
    return plan_up_to(subscription, subscription.cursor.end)


async def plan_entries(
    subscription: Subscription, count: int, slices: TimeSlices, disk: Disk
) -> Skip:
    """So many entries of which something is not acked: what upstream counts here. Where they end is
    as of the call; what it means, as of the answer."""
    if count <= 0:
        return plan_up_to(subscription, 0)
    backlog = subscription.cursor.backlog_ranges()
    try:
        last = await nth_in_backlog(subscription.topic.log, backlog, count, slices, disk)
    except IndexNotFound:  # there are not as many
        return plan_all(subscription)
    return plan_up_to(subscription, last.span.end_index)


def plan_older(subscription: Subscription, time_ms: int) -> Skip:
    """What came before a time."""
    return plan_up_to(subscription, subscription.topic.log.index_at(max(time_ms, 0)))


def plan_position(subscription: Subscription, position: Position, *, excluded: bool) -> Skip:
    """Everything up to a position, with what lies there or without."""
    log = subscription.topic.log
    if not excluded:
        position = Position(position.ledger_id, position.entry_id + 1)
    return plan_up_to(subscription, log.index_from(position))


async def carry_out(
    broker: Broker, subscription: Subscription, skip: Skip, *, expires: bool = False
) -> None:
    """Do it; return when it is on disk."""
    await carry_out_all(broker, [(subscription, skip)], expires=expires)


async def carry_out_all(
    broker: Broker, plans: Sequence[tuple[Subscription, Skip]], *, expires: bool = False
) -> None:
    """Do all of them as one record: a crash leaves all of them or none. Return when it is on disk."""
    for subscription, _ in plans:
        subscription.topic.check_open()  # what was unloaded since it was planned must not be moved
    with broker.store.together():
        for subscription, skip in plans:
            if skip.count:
                subscription.skip(skip.end_index)
                if expires:
                    note_expired(subscription, skip.count)
                subscription.flush_acks()
    await broker.engine.flush()


def note_expired(subscription: Subscription, count: int) -> None:
    subscription.counts.expired += count
    subscription.counts.expired_ms = subscription.topic.now_ms()
    subscription.topic.counters.messages_expired += count
