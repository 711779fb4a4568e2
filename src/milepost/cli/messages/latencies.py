"""Counts latencies in buckets one percent wide.

>>> latencies = Latencies()
>>> for _ in range(99): latencies.add(0.001)
>>> latencies.add(1.0)
>>> round(latencies.quantile_ms(0.5), 2), round(latencies.max_ms)
(1.0, 1000)
"""

from __future__ import annotations

import math

_WIDTH = math.log(1.01)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


class Latencies:
    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        # Bucket number → how many. Invariant: the counts add up to `count`.
        self._buckets: dict[int, int] = {}

    def add(self, seconds: float, times: int = 1) -> None:
        ms = max(seconds * 1000, 0.001)
        bucket = round(math.log(ms) / _WIDTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self.count += times
        self.max_ms = max(self.max_ms, ms)

    def quantile_ms(self, share: float) -> float:
        """The latency that this share of them does not exceed, to one percent; 0 of none."""
        wanted = math.ceil(share * self.count)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(math.exp(bucket * _WIDTH), self.max_ms)
        return 0.0

    def summary(self) -> dict[str, float]:
        found = {name: round(self.quantile_ms(share), 3) for name, share in QUANTILES.items()}
        return {**found, "max": round(self.max_ms, 3)}
