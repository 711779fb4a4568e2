"""Samples: rates are differences, and nothing is said before there is one."""

from __future__ import annotations

from milepost.broker.metrics.samples import (
    NOTHING_KNOWN,
    SAMPLE_INTERVAL_MS,
    SAMPLES_MAX,
    Sample,
    Samples,
)


def at(seconds: float, end: int = 0, out: int = 0, acked: int = 0, mark: int = -1) -> Sample:
    return Sample(int(seconds * 1000), end, out, acked, mark)


def test_without_two_samples_nothing_is_known() -> None:
    samples = Samples()
    assert samples.recent() == NOTHING_KNOWN
    assert samples.is_due(0)
    samples.add(at(1))
    assert samples.recent() == NOTHING_KNOWN
    assert samples.recent().rate_acked == 0.0


def test_what_happened_between_two_samples() -> None:
    samples = Samples()
    samples.add(at(10, end=5, out=4, acked=3, mark=2))
    samples.add(at(20, end=105, out=54, acked=23, mark=2))
    recent = samples.recent()
    assert (recent.rate_in, recent.rate_out, recent.rate_acked) == (10.0, 5.0, 2.0)
    assert (recent.seconds, recent.has_moved) == (10.0, False)
    assert samples.recent(at(30, end=105, out=54, acked=23, mark=9)).has_moved


def test_it_is_sampled_now_and_then() -> None:
    samples = Samples()
    samples.add(at(1))
    assert not samples.is_due(1000 + SAMPLE_INTERVAL_MS - 1)
    assert samples.is_due(1000 + SAMPLE_INTERVAL_MS)
    samples.add(at(1, acked=9))  # the clock did not move
    assert samples.recent() == NOTHING_KNOWN


def test_a_minute_is_remembered() -> None:
    samples = Samples()
    for number in range(100):
        samples.add(at(number * 5, acked=number * 10))
    assert samples.recent().seconds == (SAMPLES_MAX - 1) * 5
    assert samples.recent().rate_acked == 2.0


def test_a_seek_begins_anew() -> None:
    samples = Samples()
    samples.add(at(1))
    samples.add(at(9))
    samples.restart()
    assert samples.recent() == NOTHING_KNOWN
