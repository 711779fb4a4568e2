"""The histogram of one kind of value, over the last whole period. Plain counts; a value costs a bisection.

Upstream's dashboards read such counts as they stand, not as sums since the start, and each bucket counts what
is above the one before it. So there are two sets of counts: the period that runs, and the last that ended.

    >>> sizes = Histogram((128, 512))
    >>> sizes.add(100), sizes.add_all([400, 500, 9000]), sizes.roll()
    (None, None, None)
    >>> sizes.counts, sizes.count, sizes.total
    ((1, 2, 1), 4, 10000.0)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Milliseconds, and what dashboards call them.
WRITE_TIMES_MS = (0.5, 1, 5, 10, 20, 50, 100, 200, 1000)
WRITE_TIME_NAMES = ("0_5", "1", "5", "10", "20", "50", "100", "200", "1000")

# The same of transactions, from opened to ended.
TRANSACTION_TIMES_MS = (
    10, 20, 50, 100, 500, 1000, 5000, 15_000, 30_000, 60_000, 300_000, 1_500_000, 3_000_000,
)  # fmt: skip

_KIB = 1024
ENTRY_SIZES = (128, 512, _KIB, 2 * _KIB, 4 * _KIB, 16 * _KIB, 100 * _KIB, _KIB * _KIB)
ENTRY_SIZE_NAMES = ("128", "512", "1_kb", "2_kb", "4_kb", "16_kb", "100_kb", "1_mb")


class Histogram:
    __slots__ = ("_bounds", "counts", "running", "running_total", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """A value is counted by the first bound that it is not above; one above all, by none."""
        self._bounds = bounds
        # A topic counts into these directly, on the way of a message.
        self.running = [0] * (len(bounds) + 1)
        self.running_total = 0.0
        self.counts = tuple(self.running)
        """Of the last whole period: one for each bound, and one for what was above all of them."""
        self.total = 0.0
        """Of the values in it."""

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, value: float, count: int = 1) -> None:
        """So many times this value."""
        self.running[bisect_left(self._bounds, value)] += count
        self.running_total += value * count

    def add_all(self, values: Sequence[float]) -> None:
        low = bisect_left(self._bounds, min(values))
        if low == bisect_left(self._bounds, max(values)):  # mostly all values are in one bucket
            self.running[low] += len(values)
        else:
            for value in values:
                self.running[bisect_left(self._bounds, value)] += 1
        self.running_total += sum(values)

    def roll(self) -> None:
        """A period ends, and another begins."""
        self.counts, self.total = tuple(self.running), self.running_total
        self.running[:] = [0] * len(self.running)
        self.running_total = 0.0
