"""Delayed delivery: puts messages aside until their time has come.

On Shared and Key_Shared subscriptions only, as upstream has it. A message's time is part of its entry, so
nothing is written down when it is put aside: after a restart, or a seek, it is met again and put aside again.
It is in the backlog all the while, and whatever acks it (expiry, trimming, an operator) ends its waiting.

    met before its time ─▶ cursor.delay ─▶ timer ─▶ cursor.due ─▶ dispatched as any other

A timer stands for the earliest time of a subscription, so that a million of them cost one. If very many are
met, or become due, at once, some are dealt with and the rest after a pause: others publish meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from milepost.storage.ledgers.entry import DELAYED, Entry
from milepost.wire.metadata import entry_metadata

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription

# Put aside, or released, in one go: about half a millisecond each.
PUT_ASIDE_MAX = 50
RELEASED_MAX = 150


def put_aside(subscription: Subscription, entries: Sequence[Entry], at: int) -> int:
    """From one entry on, those that name a time which is still to come wait for it from now on. How
    many entries that settles: after `PUT_ASIDE_MAX` of them all, for it is others' turn then."""
    count = 0
    for entry in islice(entries, at, at + PUT_ASIDE_MAX):
        if not (entry.flags & DELAYED and _puts_aside(subscription, entry)):
            return count
        count += 1
    if count == PUT_ASIDE_MAX:
        subscription.read_loop.rest()
        return len(entries) - at
    return count


def _puts_aside(subscription: Subscription, entry: Entry) -> bool:
    topic = subscription.topic
    dispatcher = subscription.dispatcher
    if dispatcher is None or not dispatcher.delays or topic.policies.delays is None:
        return False
    if not topic.name.is_persistent:
        return False
    due_ms = entry_metadata(entry.payload).deliver_at_time
    if due_ms <= topic.now_ms():
        return False
    end = entry.last_index + 1
    subscription.cursor.delay(end - entry.count, end, due_ms)
    subscription.delay_timer.wake_at(due_ms)
    return True


def release_due(subscription: Subscription, now_ms: int) -> None:
    """Dispatch what waited until now, or the first of it, and set the timer for the rest."""
    cursor = subscription.cursor
    if cursor.due(now_ms, RELEASED_MAX):
        subscription.rescan()
    next_due_ms = cursor.next_due_ms
    # A subscription that was closed has no dispatcher; a timer would keep it in memory.
    if next_due_ms is not None and subscription.dispatcher is not None:
        subscription.delay_timer.wake_at(next_due_ms)


def obey(subscription: Subscription) -> None:
    """Release what waits, if the policy or the type of the subscription delays nothing any more."""
    dispatcher = subscription.dispatcher
    is_off = subscription.topic.policies.delays is None
    if (is_off or (dispatcher is not None and not dispatcher.delays)) and (
        subscription.cursor.due(None)
    ):
        subscription.rescan()
