"""The timer of delayed delivery: it wakes a subscription when the earliest of its messages is due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from milepost.broker.limits.time_slices import REST_S
from milepost.broker.subscription.delayed import release_due

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.clock import Clock

FOR_EVER_MS = 1 << 63

# A clock may jump while a timer runs; once a second `PolicyEnforcement.tick` looks in any case.
WAIT_S_MAX = 60.0


class DelayTimer:
    """Wakes a subscription at the earliest time that one of its messages waits for (`host.Alarm`)."""

    def __init__(
        self, subscription: Subscription, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._subscription = subscription
        self._clock = clock
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = FOR_EVER_MS

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
