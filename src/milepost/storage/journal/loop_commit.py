"""Decides whether the loop may sync a group itself while the disk is quick.

A thread that syncs leaves the loop free, but handing a group over to it and back costs both of them more
time of the processor than a quick disk takes: two threads wake each other, and take the interpreter's lock
from each other. So a group goes the short way while syncs are quick. The loop stands still meanwhile, and
everybody waits who has business with it: therefore a commit that took long, one that failed, or, on a disk
that is not that quick, a loop that is busy closes the way for a while.

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
# Larger groups take the disk longer. So do records that are larger on average: those are of large messages,
# which are copied and little else, and the loop can copy the next from their sockets meanwhile.
SIZE_MAX = 384 * 1024
RECORD_SIZE_MAX = 96 * 1024
# What it costs both threads to hand a group over and back. A loop that is busy stands still for less.
HANDOVER_S = 0.0003
# While commits take longer than that the loop may be busy, with work or with syncs of several records, for so
# much of its time, and for so many seconds more in a row. Beyond that it has no time to stand still.
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
# How much the newest commit counts in what is typical, if it took longer and if it did not. The thread's seem
# to take longer while the loop is busy: behind the disk it waits for the interpreter.
_WEIGHT_LONGER = 1 / 8
_WEIGHT_SHORTER = 1 / 4
# … and on the loop, for as long as it is busy. What it costs to be wrong there is little either way.
_WEIGHT_ON_LOOP = 1 / 32


class Shortcut:
    def __init__(self, typical_max_s: float = TYPICAL_MAX_S) -> None:
        """`typical_max_s` 0: everything is the thread's."""
        self._typical_max_s = typical_max_s
        # What a commit of no large group takes, on either thread: a moving average.
        self._typical_s = 2 * typical_max_s
        # … and on the loop, as far as is known.
        self._on_loop_s = 0.0
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
            size <= min(SIZE_MAX, count * RECORD_SIZE_MAX)
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
                if self._on_loop_s > HANDOVER_S:
                    self.close(now)
        self._now, self._cpu_s = now, cpu_s

    def took(
        self, now: float, seconds: float, *, on_loop: bool, count: int = 1, size: int = 0
    ) -> None:
        """A commit of so many records of so many bytes ended now, well or not, and took so long."""
        if size <= min(SIZE_MAX, count * RECORD_SIZE_MAX):  # a larger one says nothing of those
            # Twice the limit is slow enough: one that stalls is dealt with below.
            told_s = min(seconds, 2 * self._typical_max_s)
            is_longer = told_s > self._typical_s
            weight = _WEIGHT_LONGER if is_longer else _WEIGHT_SHORTER
            self._typical_s += (told_s - self._typical_s) * weight
            if on_loop:
                self._on_loop_s += (told_s - self._on_loop_s) * _WEIGHT_ON_LOOP
        if seconds > SLOW_FACTOR * self._typical_max_s:
            self.close(now, min(STALL_FACTOR * seconds, CLOSED_S))
        if on_loop and count > 1:
            # A single record belongs to a client that waits for it; several have come faster than they go.
            self._busy_s += seconds

    def close(self, now: float, seconds: float = CLOSED_S) -> None:
        """Leave it to the thread for so long."""
        self._closed_until = max(self._closed_until, now + seconds)
