"""A token bucket in messages and bytes: may it pass, and if not, how long to wait.

A bucket of each fills evenly and holds one period's worth. What passes is taken out afterwards, whole as it
came, so a bucket may be in debt: then nothing passes until it is paid. Over any longer time no more than the
rate passes, plus one bucket, plus one piece.

    >>> now = 0.0
    >>> throttle = Throttle(Rate(messages=10, size_bytes=0), lambda: now)
    >>> throttle.took(15, 0); throttle.room, throttle.wait_s
    (0, 0.6)

Asks no clock but the one it is given.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.broker.policies.effective import Rate

NO_LIMIT = 1 << 62


class _Bucket:
    __slots__ = ("_per_s", "_tokens", "capacity")

    def __init__(self, amount: int, period_s: float) -> None:
        self._per_s = amount / period_s
        self.capacity = float(amount)
        # Invariant: at most the capacity; below zero while there is a debt.
        self._tokens = self.capacity

    def fill(self, elapsed_s: float, extra: int) -> None:
        self._tokens = min(self._tokens + elapsed_s * self._per_s + extra, self.capacity + extra)

    def take(self, amount: int) -> None:
        self._tokens -= amount

    @property
    def tokens(self) -> float:
        return self._tokens

    @property
    def wait_s(self) -> float:
        """Until there is a whole token, or a hundredth of the capacity where that is more: not for
        each byte that drips in."""
        wanted = max(1.0, self.capacity / 100)
        return max((wanted - self._tokens) / self._per_s, 0.0)


class Throttle:
    def __init__(
        self,
        rate: Rate,
        now: Callable[[], float],
        published: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """`published`: messages and bytes so far that may pass besides, for a relative rate."""
        self.rate = rate
        self._now = now
        self._published = published
        self._messages = _Bucket(rate.messages, rate.period_s) if rate.messages else None
        self._bytes = _Bucket(rate.size_bytes, rate.period_s) if rate.size_bytes else None
        self._filled = now()
        self._seen = published()
        # How large messages were lately, to say how many fit.
        self._mean_size = 1.0

    def took(self, messages: int, size: int) -> None:
        """So much has passed."""
        self._fill()
        if self._messages is not None:
            self._messages.take(messages)
        if self._bytes is not None:
            self._bytes.take(size)
        if messages:
            self._mean_size = max(size / messages, 1.0)

    @property
    def room(self) -> int:
        """Messages that may pass now."""
        self._fill()
        room = NO_LIMIT
        if self._messages is not None:
            room = int(self._messages.tokens)
        if self._bytes is not None:
            tokens = self._bytes.tokens
            # A message larger than the rate passes too, if there is no debt.
            fitting = max(int(tokens / self._mean_size), 1) if tokens > 0 else 0
            room = min(room, fitting)
        return max(room, 0)

    @property
    def wait_s(self) -> float:
        """How long until there is room; 0 while there is."""
        if self.room:
            return 0.0
        return max(bucket.wait_s for bucket in (self._messages, self._bytes) if bucket is not None)

    def _fill(self) -> None:
        now = self._now()
        elapsed, self._filled = max(now - self._filled, 0.0), now
        messages = size = 0
        if self.rate.relative:
            seen, self._seen = self._seen, self._published()
            messages, size = self._seen[0] - seen[0], self._seen[1] - seen[1]
        if self._messages is not None:
            self._messages.fill(elapsed, messages)
        if self._bytes is not None:
            self._bytes.fill(elapsed, size)
