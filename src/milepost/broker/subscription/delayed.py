"""Delayed delivery: puts messages aside until their time has come.

On Shared and Key_Shared subscriptions only, as upstream has it. A message's time is part of its entry, so
nothing is written down when it is put aside: after a restart, or a seek, it is met again and put aside again.
It is in the backlog all the while, and whatever acks it (expiry, trimming, an operator) ends its waiting.

    met before its time ─▶ cursor.delay ─▶ timer ─▶ cursor.due ─▶ dispatched as any other

A timer stands for the earliest time of a subscription, so that a million of them cost one. If very many are
met, or become due, at once, some are dealt with and the rest after a pause: others publish meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from milepost.broker.limits.time_slices import REST_S
from milepost.storage.ledgers.entry import DELAYED, Entry
from milepost.wire.metadata import entry_metadata

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.clock import Clock

FOR_EVER_MS = 1 << 63

# Put aside, or released, in one go: about half a millisecond each.
PUT_ASIDE_MAX = 50
RELEASED_MAX = 150

# A clock may jump while a timer runs; once a second the steward looks in any case.
WAIT_S_MAX = 60.0


def put_aside(subscription: Subscription, entries: Sequence[Entry], at: int) -> int:
    """From one entry on, those that name a time which is still to come wait for it from now on. How
    many entries that settles: after `PUT_ASIDE_MAX` of them all, for it is others' turn then."""
    count = 0
    for entry in islice(entries, at, at + PUT_ASIDE_MAX):
        if not (entry.flags & DELAYED and _puts_aside(subscription, entry)):
            return count
        count += 1
    if count == PUT_ASIDE_MAX:
        subscription.rest()
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
    subscription.wake_at(due_ms)
    return True


def release_due(subscription: Subscription, now_ms: int) -> None:
    """Dispatch what waited until now, or the first of it, and set the timer for the rest."""
    cursor = subscription.cursor
    if cursor.due(now_ms, RELEASED_MAX):
        subscription.rescan()
    next_due_ms = cursor.next_due_ms
    # Whatever was closed meanwhile has no dispatcher, and no timer keeps it in memory.
    if next_due_ms is not None and subscription.dispatcher is not None:
        subscription.wake_at(next_due_ms)


def obey(subscription: Subscription) -> None:
    """Nothing waits where nothing is delayed, be it by policy or by the subscription's type."""
    dispatcher = subscription.dispatcher
    is_off = subscription.topic.policies.delays is None
    if (is_off or (dispatcher is not None and not dispatcher.delays)) and (
        subscription.cursor.due(None)
    ):
        subscription.rescan()


class DueTimer:
    """Wakes a subscription at the earliest time that one of its messages waits for."""

    def __init__(self, subscription: Subscription, clock: Clock) -> None:
        self._subscription = subscription
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = FOR_EVER_MS
        subscription.wake_at = self.wake_at

    def wake_at(self, due_ms: int) -> None:
        """Something waits until then."""
        if due_ms < self._due_ms or self._timer is None:
            self._set(due_ms)

    def _set(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        # Half a millisecond more, for clocks that are rounded down.
        wait_s = (due_ms - self._clock.wall_ms()) / 1000 + 0.0005
        self._timer = self._loop.call_later(min(max(wait_s, REST_S), WAIT_S_MAX), self.look)

    def look(self) -> None:
        """Release what is due, and wait for the next."""
        self._timer, self._due_ms = None, FOR_EVER_MS
        release_due(self._subscription, self._clock.wall_ms())
