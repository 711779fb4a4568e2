"""Rates per second of topics, producers, subscriptions and consumers.

Everything that passes is counted anyway; every `INTERVAL_S` the counts are compared with those before. So
a rate is exact over the last whole interval, and costs nothing where a message passes.

    >>> rates = Rates()
    >>> rates.sample(0.0, 100, 0), rates.sample(10.0, 150, 1000)
    (None, None)
    >>> rates.per_second
    (5.0, 100.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic

INTERVAL_S = 10.0
# What a histogram shows, as upstream has it by default.
PERIOD_S = 60.0

# No object has more counts than this.
COUNTS_MAX = 7


class Rates:
    """Of one object whose counts only grow."""

    __slots__ = ("_before", "_sampled", "per_second")

    def __init__(self) -> None:
        self.per_second: tuple[float, ...] = (0.0,) * COUNTS_MAX
        """In the order of the counts; zeros before there were two samples."""
        self._before: tuple[int, ...] | None = None
        self._sampled = 0.0

    def sample(self, now: float, *counts: int) -> None:
        """The counts at a time, in seconds."""
        before, elapsed = self._before, now - self._sampled
        if before is not None and elapsed > 0:
            self.per_second = tuple(
                (count - earlier) / elapsed for count, earlier in zip(counts, before, strict=True)
            )
        self._before, self._sampled = counts, now


class RateBoard:
    """Samples everything that is open when it is due."""

    def __init__(self) -> None:
        self._due = 0.0
        self._roll_due = 0.0
        self.is_sampling = False
        """Is it time to look at the topics?"""
        self._rolls = False

    def begin(self, now: float) -> None:
        """All topics are about to be looked at."""
        self.is_sampling = now >= self._due
        self._rolls = self.is_sampling and now >= self._roll_due
        if self.is_sampling:
            self._due = now + INTERVAL_S
        if self._rolls:
            self._roll_due = now + PERIOD_S

    def tick(self, now: float, topic: Topic) -> None:
        """Look at one, if it is time; `now` is when that began for all."""
        if not self.is_sampling:
            return
        if self._rolls:
            topic.write_times.roll()
            topic.entry_sizes.roll()
        topic.rates.sample(
            now,
            topic.messages_in,
            topic.bytes_in,
            topic.messages_out,
            topic.bytes_out,
            topic.messages_dropped,
            topic.entries_in,
            topic.entries_out,
        )
        for producer in topic.producers.values():
            producer.rates.sample(now, producer.messages_in, producer.bytes_in)
        for subscription in topic.subscriptions.values():
            counts = subscription.counts
            subscription.rates.sample(
                now,
                counts.messages_out,
                counts.bytes_out,
                counts.messages_redelivered,
                counts.messages_acked,
                counts.expired,
                counts.dropped,
            )
            for consumer in subscription.consumers:
                consumer.rates.sample(
                    now,
                    consumer.messages_out,
                    consumer.bytes_out,
                    consumer.messages_redelivered,
                    consumer.messages_acked,
                )
