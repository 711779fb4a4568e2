"""Subscribe rate limits: how often one consumer may come back within a period.

Who a consumer is, is said by its address, its name and its id, as upstream has it: a client in a loop is
slowed down, and no other.

    >>> gate = SubscribeGate(Rate(2, 0, 30), lambda: 0.0)
    >>> [gate.admits(("10.0.0.1", "c", 0)) for _ in range(3)]
    [True, True, False]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from milepost.broker.policies.effective import Rate

# Consumers remembered; past it the one that came longest ago is forgotten.
CONSUMERS_MAX = 10_000


class SubscribeGate:
    def __init__(self, rate: Rate, now: Callable[[], float]) -> None:
        self.rate = rate
        self._now = now
        # Consumer → when its period began, and how often it came since; the oldest first.
        # Invariant: at most `CONSUMERS_MAX`, none twice.
        self._seen: dict[Hashable, tuple[float, int]] = {}

    def admits(self, consumer: Hashable) -> bool:
        """May it subscribe? If so, it has."""
        now = self._now()
        since, count = self._seen.pop(consumer, (now, 0))
        if now - since >= self.rate.period_s:
            since, count = now, 0
        is_admitted = count < self.rate.messages
        self._seen[consumer] = (since, count + is_admitted)
        if len(self._seen) > CONSUMERS_MAX:
            del self._seen[next(iter(self._seen))]
        return is_admitted
