"""Entries as columns, against an object for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.positions.ranges import IndexRanges
from milepost.storage.ledgers.stretch import Stretch


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
    st.sets(st.integers(0, 60)),
    st.integers(0, 20),
)
def test_entries_that_hold_indexes(counts: list[int], indexes: set[int], before: int) -> None:
    base, first = 5, 5 + before
    lasts, owners = [], {}
    for number, count in enumerate(counts):
        begin = lasts[-1] + 1 if lasts else before
        lasts.append(begin + count - 1)
        owners |= {base + index: 30 + number for index in range(begin, begin + count)}
    stretch = Stretch(9, 30, first, base, lasts, [0] * len(lasts))
    ranges = IndexRanges([(index, index + 1) for index in indexes])
    held = sorted({owners[index] for index in indexes if index in owners})
    assert list(stretch.held(ranges)) == held
    assert stretch.count_in(ranges) == len(held)
    assert (stretch.entries, stretch.end_index) == (len(counts), max(owners) + 1)
    assert stretch.is_plain == (set(counts) == {1})
    for entry_id in range(30, 30 + len(counts)):
        mine = [index for index, owner in owners.items() if owner == entry_id]
        assert stretch.indexes_of(entry_id) == (min(mine), max(mine) + 1)
    assert stretch.position(31) == (9, 31)
