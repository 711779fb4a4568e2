"""A clock that a test turns by hand.

Owns two readings and moves them only when told. Never asks the machine's time, so a test that uses
it gives the same result on every run and never sleeps.

    clock = ManualClock(wall_ms=1_000)
    clock.advance(1.5)      # an hour glass: both readings move
    clock.wall_ms()         # 2500
    clock.jump(-2_000)      # an operator sets the wall clock back; the monotonic reading stays
    clock.monotonic()       # 1.5
"""

from __future__ import annotations

# Some moment in November 2023: far from 0, so that a forgotten unit (s, ms, µs) shows in a failure.
WALL_MS_DEFAULT = 1_700_000_000_000

NS_PER_MS = 1_000_000
NS_PER_SECOND = 1_000_000_000


class ManualClock:
    """Implements `milepost.clock.Clock`."""

    __slots__ = ("_monotonic_ns", "_wall_ns")

    def __init__(self, wall_ms: int = WALL_MS_DEFAULT) -> None:
        # Whole nanoseconds: a thousand steps of 0.1 s make exactly 100 s.
        self._wall_ns = wall_ms * NS_PER_MS
        # Invariant: never decreases.
        self._monotonic_ns = 0

    def wall_ms(self) -> int:
        return self._wall_ns // NS_PER_MS

    def monotonic(self) -> float:
        return self._monotonic_ns / NS_PER_SECOND

    def thread_cpu(self) -> float:
        """Nothing takes any time here."""
        return 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass: both readings move by the same amount."""
        if seconds < 0:
            raise ValueError(
                f"time cannot pass backwards: {seconds} s; use jump for the wall clock"
            )
        passed_ns = round(seconds * NS_PER_SECOND)
        self._wall_ns += passed_ns
        self._monotonic_ns += passed_ns

    def jump(self, ms: int) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._wall_ns += ms * NS_PER_MS
