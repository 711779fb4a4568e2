"""IndexRanges against its dumb twin, a Python set of integers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples

from milepost.errors import CorruptData
from milepost.positions import pages
from milepost.positions.ranges import IndexRanges, Range

# With pages of 8 these ranges begin, end and cross page borders all the time, and leave full,
# partial and empty pages behind; with the real page size they straddle the border at 1,024.
INDEX_MAX = 96
REAL_PAGE_FIRST = 1024 - INDEX_MAX // 2


@pytest.fixture(autouse=True, scope="module", params=[(3, 0), (10, REAL_PAGE_FIRST)])
def base(request: pytest.FixtureRequest) -> int:
    """The page size in use, and where the ranges of these tests are counted from."""
    shift, base = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_SHIFT", shift)
        yield base


bounds = st.tuples(st.integers(0, INDEX_MAX), st.integers(0, INDEX_MAX)).map(sorted).map(tuple)
range_lists = st.lists(bounds, max_size=12)
changes = st.lists(st.tuples(st.sampled_from(["add", "discard"]), bounds), max_size=30)


def runs(members: set[int]) -> list[Range]:
    """The maximal ranges of a set of integers."""
    firsts = sorted(index for index in members if index - 1 not in members)
    ends = sorted(index + 1 for index in members if index + 1 not in members)
    return list(zip(firsts, ends, strict=True))


def both(ranges: list[Range], base: int) -> tuple[IndexRanges, set[int]]:
    members = {base + index for first, end in ranges for index in range(first, end)}
    return IndexRanges((base + first, base + end) for first, end in ranges), members


@given(changes=changes)
def test_every_change_reports_what_it_changed(base: int, changes: list[tuple[str, Range]]) -> None:
    ranges, twin = IndexRanges(), set[int]()
    for verb, (first, end) in changes:
        named = set(range(base + first, base + end))
        if verb == "add":
            assert ranges.add(base + first, base + end) == len(named - twin)
            twin |= named
        else:
            assert ranges.discard(base + first, base + end) == len(named & twin)
            twin -= named
        ranges.check()
        assert ranges.count == len(twin)
        assert list(ranges) == runs(twin)


@given(content=range_lists, window=bounds)
def test_every_view_of_a_window(base: int, content: list[Range], window: Range) -> None:
    ranges, twin = both(content, base)
    first, end = base + window[0], base + window[1]
    inside = {index for index in twin if first <= index < end}
    assert list(ranges.within(first, end)) == runs(inside)
    assert list(ranges.gaps(first, end)) == runs(set(range(first, end)) - twin)
    assert ranges.range_count() == len(runs(twin))
    assert ranges.count_within(first, end) == len(inside)
    absent = set(range(first, end)) - twin
    assert ranges.last_absent(first, end) == max(absent, default=None)
    assert ranges.covers(first, end) == (len(inside) == end - first)
    assert ranges.bits(first, end) == sum(1 << (index - first) for index in inside)
    assert ranges.next_range(first, end) == next(iter(runs(inside)), None)
    above = [index for index in twin if index >= first]
    assert ranges.next_index(first) == min(above, default=None)
    assert ranges.next_range(first) == next(iter(runs(set(above))), None)
    assert ranges.first == min(twin, default=None)
    assert ranges.end == (max(twin) + 1 if twin else None)
    assert bool(ranges) == bool(twin)
    assert [index for index in range(base, base + INDEX_MAX) if index in ranges] == sorted(twin)


@given(left=range_lists, right=range_lists)
def test_whole_sets(base: int, left: list[Range], right: list[Range]) -> None:
    (a, twin_a), (b, twin_b) = both(left, base), both(right, base)
    united, cut = a.copy(), a.copy()
    assert united.add_all(b) == len(twin_b - twin_a)
    assert cut.discard_all(b) == len(twin_a & twin_b)
    for result, twin in [
        (united, twin_a | twin_b),
        (cut, twin_a - twin_b),
        (a & b, twin_a & twin_b),
    ]:
        result.check()
        assert list(result) == runs(twin)
    assert (a == b) == (twin_a == twin_b)
    assert list(a) == runs(twin_a), "the copies were changed, not the set"
    assert list(b) == runs(twin_b)
    a.clear()
    a.check()
    assert list(a) == []


@given(content=range_lists, order=st.randoms(use_true_random=False))
def test_one_set_has_one_form(base: int, content: list[Range], order) -> None:
    ranges, twin = both(content, base)
    singles = sorted(twin)
    order.shuffle(singles)
    same = IndexRanges((index, index + 1) for index in singles)
    assert same == ranges
    assert same.to_bytes() == ranges.to_bytes()


@given(content=range_lists, scattered=st.sets(st.integers(0, INDEX_MAX)))
def test_bytes_bring_the_same_set_back(
    base: int, content: list[Range], scattered: set[int]
) -> None:
    ranges, _ = both([*content, *((index, index + 1) for index in scattered)], base)
    reopened = IndexRanges.from_bytes(ranges.to_bytes())
    reopened.check()
    assert reopened == ranges


@given(content=range_lists, scattered=st.sets(st.integers(0, INDEX_MAX)))
def test_the_byte_form_knows_no_pages(base: int, content: list[Range], scattered: set[int]) -> None:
    ranges, twin = both([*content, *((index, index + 1) for index in scattered)], base)
    written = ranges.to_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_SHIFT", 5)
        reopened = IndexRanges.from_bytes(written)
        reopened.check()
        assert list(reopened) == runs(twin)


@settings(max_examples=examples(500))
@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_set_or_corrupt(data: bytes) -> None:
    try:
        ranges = IndexRanges.from_bytes(data)
    except CorruptData:
        return
    ranges.check()
    assert IndexRanges.from_bytes(ranges.to_bytes()) == ranges
