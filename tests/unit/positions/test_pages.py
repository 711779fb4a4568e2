"""Pages: what is kept as what, which nobody outside can see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.positions import pages
from milepost.positions.ranges import IndexRanges


@pytest.fixture(autouse=True)
def pages_of_eight() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_SHIFT", 3)
        yield


def test_the_drawing_at_the_top_of_the_module() -> None:
    ranges = IndexRanges([(8, 26), (27, 28), (32, 40)])
    assert ranges._bounds == [1, 5]
    assert ranges._partial == {3: 0b00001011}


def test_a_full_page_has_no_object_and_neither_has_an_empty_one() -> None:
    ranges = IndexRanges([(8, 15)])
    assert (ranges._bounds, ranges._partial) == ([1, 2], {1: 0b01111111})
    ranges.add(15, 16)
    assert (ranges._bounds, ranges._partial) == ([1, 2], {})
    ranges.discard(8, 16)
    assert (ranges._bounds, ranges._partial) == ([], {})


def test_a_page_that_is_filled_whole_loses_its_object() -> None:
    ranges = IndexRanges([(9, 10), (17, 18)])
    assert ranges.add(8, 24) == 14
    assert (ranges._bounds, ranges._partial) == ([1, 3], {})


def test_a_long_backlog_is_two_numbers() -> None:
    ranges = IndexRanges([(0, 10**12)])
    assert (len(ranges._bounds), len(ranges._partial)) == (2, 0)
    assert ranges.discard(5 * 10**11, 5 * 10**11 + 1) == 1
    # Found without walking the 60,000 million pages before the hole.
    assert list(ranges) == [(0, 5 * 10**11), (5 * 10**11 + 1, 10**12)]
    assert ranges.count_within(1, 10**12 - 1) == 10**12 - 3
    assert ranges.add(0, 10**12) == 1
    assert len(ranges._partial) == 0


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (("_bounds", [1]), r"\[1\]"),
        (("_bounds", [1, 1]), r"\[1, 1\]"),
        (("_bounds", [4, 5]), "page 1 outside"),
        (("_partial", {1: 0}), "page 1 is kept as 0x0"),
        (("_partial", {1: 255}), "page 1 is kept as 0xff"),
        (("count", 2), "count is 2"),
    ],
)
def test_check_finds_a_broken_invariant(broken: tuple[str, object], why: str) -> None:
    ranges = IndexRanges([(9, 12)])
    ranges.check()
    setattr(ranges, *broken)
    with pytest.raises(AssertionError, match=why):
        ranges.check()
