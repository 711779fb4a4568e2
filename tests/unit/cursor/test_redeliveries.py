"""RedeliveryCounts: exact, per message, and cheap for a crowd."""

from __future__ import annotations

import pytest

from milepost.cursor.redeliveries import PLANES_MAX, RedeliveryCounts
from milepost.errors import CorruptData
from milepost.positions.ranges import IndexRanges


def test_counting_goes_on_past_every_power_of_two() -> None:
    counts = RedeliveryCounts()
    for expected in range(1, 40):
        counts.raise_all(IndexRanges([(3, 5)]))
        assert counts.highest(3, 4) == expected
        assert counts.highest(4, 5) == expected
    assert counts.highest(0, 3) == 0
    assert len(counts.planes) == 6


def test_an_entry_has_the_count_of_its_most_unlucky_message() -> None:
    counts = RedeliveryCounts()
    counts.raise_all(IndexRanges([(0, 10)]))
    counts.raise_all(IndexRanges([(2, 3), (7, 8)]))
    counts.raise_all(IndexRanges([(7, 8)]))
    assert [counts.highest(*span) for span in [(0, 2), (0, 5), (0, 10), (10, 20)]] == [1, 2, 3, 0]


def test_forgetting_one_leaves_its_neighbours() -> None:
    counts = RedeliveryCounts()
    counts.raise_all(IndexRanges([(0, 3)]))
    counts.raise_all(IndexRanges([(0, 3)]))
    counts.forget(1, 2)
    assert [counts.highest(index, index + 1) for index in range(3)] == [2, 0, 2]
    assert list(counts.counted()) == [(0, 1), (2, 3)]
    counts.forget(0, 3)
    assert counts.planes == []


def test_raising_nobody_changes_nothing() -> None:
    counts = RedeliveryCounts()
    counts.raise_all(IndexRanges())
    assert counts.planes == []


def test_the_set_that_was_raised_is_not_kept() -> None:
    counts = RedeliveryCounts()
    indexes = IndexRanges([(0, 3)])
    counts.raise_all(indexes)
    indexes.clear()
    assert counts.highest(0, 3) == 1
    counts.clear()
    assert counts.highest(0, 3) == 0


def test_more_bits_than_the_wire_has_are_corrupt() -> None:
    with pytest.raises(CorruptData, match="33 bits"):
        RedeliveryCounts([IndexRanges([(0, 1)])] * (PLANES_MAX + 1))


def test_a_run_shares_a_count_and_ends_where_that_changes() -> None:
    counts = RedeliveryCounts()
    assert counts.run(4, 9) == (0, 9)
    for ranges in ([(2, 8)], [(4, 8)], [(4, 6)]):
        counts.raise_all(IndexRanges(ranges))
    found = [counts.run(index, 10) for index in range(10)]
    one_by_one = [counts.highest(index, index + 1) for index in range(10)]
    assert [count for count, _ in found] == one_by_one == [0, 0, 1, 1, 3, 3, 2, 2, 0, 0]
    assert [end for _, end in found] == [2, 2, 4, 4, 6, 6, 8, 8, 10, 10]
    assert counts.run(4, 5) == (3, 5)
