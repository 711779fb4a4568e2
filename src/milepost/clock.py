"""The only module that asks the time.

Everything else is given a `Clock`, so that tests turn time by hand (`milepost.testing.ManualClock`).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """One reading for people, one that never goes back, and what of it this thread has worked."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as in Pulsar's publish and event times. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def thread_cpu(self) -> float:
        """Seconds of processor time that the calling thread has used."""
        ...


def since_boot() -> float:
    """Seconds that never go back and go on while the machine is suspended, where it can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # The function itself: it is asked twice for every publish.
    monotonic = staticmethod(time.monotonic)

    def thread_cpu(self) -> float:
        return time.thread_time()
