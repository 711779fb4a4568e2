"""Does long work in short slices, so that live traffic does not wait.

Work for half a millisecond, rest for a whole one. To pass the turn on is not enough: the loop would go on
working as soon as it has looked at its sockets, and the journal's thread, which needs the interpreter for a
moment to get a publish to the disk, would hardly ever find it free. A rest leaves it free.

    slices = TimeSlices(broker.clock)
    for topic in topics:
        work(topic)
        if slices.is_over:
            await slices.rest()

Who asks the clock decides how often: what lies between two looks is never cut.
"""

from __future__ import annotations

import asyncio
from typing import Final

from milepost.clock import Clock

WORK_S: Final = 0.0005
REST_S: Final = 0.001
# What takes a few milliseconds in all is felt less in slices that are no longer than a publish takes anyway:
# looking at one topic, say. It takes twice as long.
SHORT_WORK_S: Final = 0.00025


class TimeSlices:
    __slots__ = ("_clock", "_until", "_work_s")

    def __init__(self, clock: Clock, work_s: float = WORK_S) -> None:
        """What lies between two looks at the clock comes on top of it."""
        self._clock = clock
        self._work_s = work_s
        self._until = clock.monotonic() + work_s

    @property
    def is_over(self) -> bool:
        """Is it time for a rest?"""
        return self._clock.monotonic() >= self._until

    async def rest(self) -> None:
        """Let others work; then the next slice begins."""
        await asyncio.sleep(REST_S)
        self._until = self._clock.monotonic() + self._work_s
