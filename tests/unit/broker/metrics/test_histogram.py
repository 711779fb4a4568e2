"""Histograms over periods."""

from __future__ import annotations

from milepost.broker.metrics.histogram import (
    ENTRY_SIZE_NAMES,
    ENTRY_SIZES,
    WRITE_TIME_NAMES,
    WRITE_TIMES_MS,
    Histogram,
)


def test_a_value_is_counted_by_the_first_bound_that_it_is_not_above() -> None:
    found = Histogram((10, 20))
    for value in (0, 10, 10.5, 20, 21):
        found.add(value)
    found.roll()
    assert (found.counts, found.count, found.total) == ((2, 2, 1), 5, 61.5)


def test_many_at_once_are_as_many_one_by_one() -> None:
    for values in ([1, 2, 3], [1, 15, 99], [30]):
        one, many = Histogram((10, 20)), Histogram((10, 20))
        for value in values:
            one.add(value)
        many.add_all(values)
        one.roll()
        many.roll()
        assert (one.counts, one.total) == (many.counts, many.total)


def test_only_the_last_whole_period_is_shown() -> None:
    found = Histogram((10,))
    found.add(1, 3)
    assert found.count == 0
    found.roll()
    found.add(99)
    assert (found.counts, found.total) == ((3, 0), 3)
    found.roll()
    assert (found.counts, found.total) == ((0, 1), 99)
    found.roll()
    assert (found.count, found.total) == (0, 0)


def test_every_bound_has_its_name() -> None:
    assert len(WRITE_TIMES_MS) == len(WRITE_TIME_NAMES)
    assert len(ENTRY_SIZES) == len(ENTRY_SIZE_NAMES)
