"""IndexRanges by example; `tests/property/test_ranges.py` compares it with a Python set."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptData, InvalidRange
from milepost.positions.ranges import IndexRanges
from milepost.positions.spans import INDEX_MAX


def test_ranges_that_touch_become_one() -> None:
    ranges = IndexRanges([(5, 8), (0, 3)])
    assert list(ranges) == [(0, 3), (5, 8)]
    assert ranges.add(3, 5) == 2
    assert list(ranges) == [(0, 8)]


def test_a_change_says_how_many_it_changed() -> None:
    ranges = IndexRanges([(0, 10)])
    assert ranges.add(5, 15) == 5
    assert ranges.add(5, 15) == 0
    assert ranges.discard(8, 20) == 7
    assert ranges.discard(8, 20) == 0
    assert (ranges.count, list(ranges)) == (8, [(0, 8)])


def test_an_empty_range_changes_nothing() -> None:
    ranges = IndexRanges([(0, 2)])
    assert (ranges.add(9, 9), ranges.discard(1, 1), ranges.count_within(1, 1)) == (0, 0, 0)
    assert (ranges.covers(7, 7), ranges.bits(1, 1)) == (True, 0)
    assert list(ranges) == [(0, 2)]


@pytest.mark.parametrize(("first", "end"), [(2, 1), (-1, 3), (-2, -1), (-1, -1)])
@pytest.mark.parametrize("verb", ["add", "discard", "count_within", "covers", "bits"])
def test_what_is_no_range_is_refused_by_name(verb: str, first: int, end: int) -> None:
    ranges = IndexRanges([(0, 5)])
    with pytest.raises(InvalidRange, match=rf"\[{first}, {end}\)"):
        getattr(ranges, verb)(first, end)
    assert list(ranges) == [(0, 5)]


def test_what_is_no_index_is_not_in_a_set() -> None:
    ranges = IndexRanges([(0, 5)])
    assert [thing in ranges for thing in (0, 4, 5, -1, "0", None)] == [True, True, *[False] * 4]


def test_an_empty_set_has_no_first_and_no_end() -> None:
    ranges = IndexRanges()
    assert (ranges.first, ranges.end, ranges.count, bool(ranges)) == (None, None, 0, False)
    assert (ranges.next_range(0), list(ranges)) == (None, [])


def test_a_range_looked_for_is_cut_to_the_window() -> None:
    ranges = IndexRanges([(2, 6), (9, 12)])
    assert ranges.next_range(0) == (2, 6)
    assert ranges.next_range(4) == (4, 6)
    assert ranges.next_range(6, 11) == (9, 11)
    assert ranges.next_range(6, 9) is None
    assert list(ranges.within(5, 10)) == [(5, 6), (9, 10)]
    assert list(ranges.gaps(5, 14)) == [(6, 9), (12, 14)]
    assert list(ranges.gaps(2, 6)) == []


def test_ranges_across_pages_of_the_real_size() -> None:
    ranges = IndexRanges([(1000, 5000)])
    assert list(ranges) == [(1000, 5000)]
    assert ranges.discard(1024, 4096) == 3072
    assert list(ranges) == [(1000, 1024), (4096, 5000)]
    assert ranges.bits(1020, 4100) == 0b1111 | 0b1111 << 3076


def test_a_copy_lives_on_its_own() -> None:
    ranges = IndexRanges([(0, 5), (2000, 2001)])
    other = ranges.copy()
    other.discard(0, 1)
    other.add(3000, 3001)
    assert list(ranges) == [(0, 5), (2000, 2001)]
    assert other != ranges
    ranges.clear()
    assert list(other) == [(1, 5), (2000, 2001), (3000, 3001)]


def test_a_set_is_equal_to_sets_only() -> None:
    assert IndexRanges([(0, 1), (1, 2)]) == IndexRanges([(0, 2)])
    assert IndexRanges([(0, 2)]) != [(0, 2)]
    with pytest.raises(TypeError, match="unhashable"):
        hash(IndexRanges())


def test_text_stays_short() -> None:
    assert repr(IndexRanges([(0, 1), (4, 6)])) == "IndexRanges([(0, 1), (4, 6)])"
    many = IndexRanges((index, index + 1) for index in range(0, 100, 2))
    assert repr(many).endswith("(12, 13), (14, 15), …])")


def test_few_ranges_are_written_as_ranges() -> None:
    # gap 3, length 2; gap 295, length 2000: across page borders it is one range.
    assert IndexRanges([(3, 5), (300, 2300)]).to_bytes().hex() == "0304a702a01f"
    assert IndexRanges().to_bytes() == b""


def test_many_ranges_of_a_page_are_written_as_a_bitmap() -> None:
    odd = IndexRanges((index, index + 1) for index in range(1, 1024, 2))
    # gap 0, a bitmap of 128 bytes.
    assert odd.to_bytes() == bytes([0, 0x81, 0x02]) + b"\xaa" * 128


def test_every_second_index_of_a_million_is_one_bit_each() -> None:
    ranges = IndexRanges()
    for index in range(0, 1_000_000, 2):
        ranges.add(index, index + 1)
    written = ranges.to_bytes()
    assert len(written) < 130_000
    assert IndexRanges.from_bytes(written) == ranges


def test_the_largest_index_there_is() -> None:
    ranges = IndexRanges([(INDEX_MAX - 1, INDEX_MAX)])
    assert list(IndexRanges.from_bytes(ranges.to_bytes())) == [(INDEX_MAX - 1, INDEX_MAX)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("03", "byte 1 of 1 that does not end"),
        ("0300", "a part of 0 from index 3"),
        ("0301", "a part of 0 from index 3"),
        ("0003", "a part of 1 from index 0 before byte 2"),
        ("00818102" + "00" * 9000, "a part of 16448"),
        ("ffffffffffffffff7f02", "a part of 1 from index 9223372036854775807"),
        ("feffffffffffffff7f0302", "a part of 1 from index"),
    ],
)
def test_other_bytes_are_corrupt(data: str, why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        IndexRanges.from_bytes(bytes.fromhex(data))
