"""Decides whether the loop may sync a group itself while the disk is quick.

A thread that syncs leaves the loop free, but waking it and being woken by it costs more than half of what
a quick disk takes. So a small group goes the short way while syncs are quick and the loop has time to
spare. It stands still meanwhile, and everybody waits who has business with it: therefore a commit that took
long, one that failed, or a loop that is busy closes the way for a while.

Pure: it is told the time, and knows neither journal nor thread.

    >>> shortcut = Shortcut(typical_max_s=0.001)
    >>> def idle(): return 0.0
    >>> shortcut.allows(0.0, idle, count=1, size=200)    # a disk is slow until it was seen to be quick
    False
    >>> for _ in range(8): shortcut.took(0.0, 0.0002, on_loop=False)
    >>> shortcut.allows(0.0, idle, count=1, size=200)
    True
"""

from __future__ import annotations

from collections.abc import Callable

# Syncs that take longer than this are the thread's.
TYPICAL_MAX_S = 0.001
# What is worth it: with more at hand there is more on its way, which the loop can read meanwhile.
COUNT_MAX = 64
SIZE_MAX = 16 * 1024
# The loop may be busy, with work or with syncs of several records, for so much of its time, and for so
# many seconds more in a row. Beyond that it has no time to stand still.
BUSY_MAX = 0.85
RUN_MAX_S = 0.01
# It is looked at no more often than this: to ask what time the loop has used is a call of the kernel.
LOOK_S = 0.001
# A commit is slow that takes so many times as long as a typical one may.
SLOW_FACTOR = 20
# How long the way stays closed, whatever closed it.
CLOSED_S = 2.0
# Behind a slow commit, no longer than so many times what that took: a disk that does so again and again
# holds up the loop for a small part of its time.
STALL_FACTOR = 25
# How much the newest commit counts in what is typical.
_WEIGHT = 1 / 8


class Shortcut:
    def __init__(self, typical_max_s: float = TYPICAL_MAX_S) -> None:
        """`typical_max_s` 0: everything is the thread's."""
        self._typical_max_s = typical_max_s
        # What a commit of a small group takes, on either thread: a moving average.
        self._typical_s = 2 * typical_max_s
        self._closed_until = 0.0
        # How long the loop was busy beyond what it may be. Invariant: not negative.
        self._busy_s = 0.0
        # … as of then, and of so much processor time; None: it was never looked at.
        self._now = -LOOK_S
        self._cpu_s: float | None = None

    def allows(self, now: float, cpu_s: Callable[[], float], count: int, size: int) -> bool:
        """May the loop commit so many records of so many bytes now? `cpu_s` tells the processor time that
        it has used so far."""
        if now - self._now >= LOOK_S:
            self._look(now, cpu_s())
        return (
            count <= COUNT_MAX
            and size <= SIZE_MAX
            and now >= self._closed_until
            and self._typical_s < self._typical_max_s
        )

    def _look(self, now: float, cpu_s: float) -> None:
        """How busy was the loop since it was looked at last?"""
        if self._cpu_s is not None:
            self._busy_s += cpu_s - self._cpu_s - (now - self._now) * BUSY_MAX
            if self._busy_s < 0:
                self._busy_s = 0.0
            elif self._busy_s > RUN_MAX_S:
                self._busy_s = 0.0
                self.close(now)
        self._now, self._cpu_s = now, cpu_s

    def took(
        self, now: float, seconds: float, *, on_loop: bool, count: int = 1, size: int = 0
    ) -> None:
        """A commit of so many records of so many bytes ended now, well or not, and took so long."""
        if count <= COUNT_MAX and size <= SIZE_MAX:  # a larger one says nothing of those
            self._typical_s += (seconds - self._typical_s) * _WEIGHT
        if seconds > SLOW_FACTOR * self._typical_max_s:
            self.close(now, min(STALL_FACTOR * seconds, CLOSED_S))
        if on_loop and count > 1:
            # A single record belongs to a client that waits for it; several have come faster than they go.
            self._busy_s += seconds

    def close(self, now: float, seconds: float = CLOSED_S) -> None:
        """Leave it to the thread for so long."""
        self._closed_until = max(self._closed_until, now + seconds)
