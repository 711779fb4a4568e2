"""Samples of the last minute of a subscription, from which verdicts judge its pace.

A sample is taken every few seconds, by the broker's tick, so that a message passes without being timed. What
happened since a moment is a difference of two samples; a number that did not change tells as much as one
that did.

    >>> samples = Samples()
    >>> for second in range(0, 30, 5):
    ...     samples.add(Sample(second * 1000, end=100 * second, out=50 * second, acked=50 * second, mark=-1))
    >>> recent = samples.recent(); recent.seconds, recent.rate_in, recent.rate_acked
    (25.0, 100.0, 50.0)
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

SAMPLE_INTERVAL_MS: Final = 5_000
SAMPLES_MAX: Final = 12


class Sample(NamedTuple):
    at_ms: int
    """Of a clock that never goes back."""
    end: int
    """The end index, without what was never shown: its differences are messages that came."""
    out: int
    """Messages delivered, ever."""
    acked: int
    """Messages acked, ever."""
    mark: int
    """The mark-delete index."""


class Recent(NamedTuple):
    """What happened between the oldest sample and the newest."""

    seconds: float
    """0 while there is one sample at most: then nothing is known."""
    messages_in: int
    messages_out: int
    messages_acked: int
    has_moved: bool
    """Did the mark-delete index change?"""

    @property
    def rate_in(self) -> float:
        return self.messages_in / self.seconds if self.seconds else 0.0

    @property
    def rate_out(self) -> float:
        return self.messages_out / self.seconds if self.seconds else 0.0

    @property
    def rate_acked(self) -> float:
        return self.messages_acked / self.seconds if self.seconds else 0.0


NOTHING_KNOWN: Final = Recent(0.0, 0, 0, 0, False)


class Samples:
    __slots__ = ("_samples",)

    # Oldest first.  Invariant: times ascend.
    _samples: deque[Sample]

    def __init__(self) -> None:
        self._samples = deque(maxlen=SAMPLES_MAX)

    def is_due(self, now_ms: int) -> bool:
        return not self._samples or now_ms - self._samples[-1].at_ms >= SAMPLE_INTERVAL_MS

    def add(self, sample: Sample) -> None:
        if not self._samples or sample.at_ms > self._samples[-1].at_ms:
            self._samples.append(sample)

    def restart(self) -> None:
        """The cursor was moved: what was before says nothing about what comes."""
        self._samples.clear()

    def recent(self, now: Sample | None = None) -> Recent:
        """Since the oldest sample; until `now`, if given, else until the newest."""
        if not self._samples:
            return NOTHING_KNOWN
        oldest, newest = self._samples[0], now or self._samples[-1]
        if newest.at_ms <= oldest.at_ms:
            return NOTHING_KNOWN
        return Recent(
            (newest.at_ms - oldest.at_ms) / 1000,
            newest.end - oldest.end,
            newest.out - oldest.out,
            newest.acked - oldest.acked,
            newest.mark != oldest.mark,
        )
