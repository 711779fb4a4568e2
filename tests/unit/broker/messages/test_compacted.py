"""What compaction leaves: what a reader passes over, and its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.messages.compacted import Compacted
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges


def test_what_is_passed_over() -> None:
    compacted = Compacted(10, IndexRanges([(2, 3), (5, 7)]))
    assert [compacted.next_kept(index) for index in (0, 2, 3, 6, 7, 10, 99)] == [
        2,
        2,
        5,
        6,
        10,
        10,
        99,
    ]
    assert list(compacted.gone(1, 20)) == [(1, 2), (3, 5), (7, 10)]
    assert list(compacted.gone(10, 20)) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9))), st.integers(0, 100))
def test_it_is_the_same_when_read_back(ranges: list[tuple[int, int]], more: int) -> None:
    indexes = IndexRanges()
    for first, count in ranges:
        indexes.add(first, first + count)
    compacted = Compacted((indexes.end or 0) + more, indexes)
    assert Compacted.decode(compacted.encode()) == compacted


def test_bytes_that_are_none() -> None:
    data = Compacted(10, IndexRanges([(2, 3)])).encode()
    with pytest.raises(UnknownFormat):
        Compacted.decode(b"\x02" + data[1:])
    with pytest.raises(UnknownFormat):
        Compacted.decode(b"")
    with pytest.raises(CorruptData):
        Compacted.decode(data[:-1] + b"\x00")


@given(st.sets(st.integers(0, 60)), st.integers(0, 80))
def test_the_last_that_is_kept_before_an_index_is_found(indexes: set[int], index: int) -> None:
    compacted = Compacted(61, IndexRanges([(one, one + 1) for one in indexes]))
    expected = index if index >= 61 else max((one for one in indexes if one <= index), default=-1)
    assert compacted.last_kept(index) == expected
