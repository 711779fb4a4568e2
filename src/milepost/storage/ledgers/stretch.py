"""Consecutive entries of one ledger as columns, for code that looks through many.

What lies where is known without a payload being read, and here without an object for each entry either. A
value; it reads nothing.

    >>> stretch = Stretch(7, 20, 100, 0, [100, 103, 104], [0, 0, 0])   # entries of 1, 3 and 1 messages
    >>> stretch.end_index, stretch.count_in(IndexRanges([(101, 102), (103, 105)]))
    (105, 2)
    >>> list(stretch.held(IndexRanges([(101, 102), (103, 105)])))
    [21, 22]
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from milepost.positions.ids import Position
from milepost.positions.ranges import IndexRanges


class Stretch(NamedTuple):
    """Entries of one ledger, at least one."""

    ledger_id: int
    first_entry_id: int
    first_index: int
    """Of the first entry."""
    base_index: int
    """What the last indexes are counted from."""
    last_indexes: Sequence[int]
    flags: Sequence[int]

    @property
    def entries(self) -> int:
        return len(self.last_indexes)

    @property
    def end_index(self) -> int:
        return self.base_index + self.last_indexes[-1] + 1

    @property
    def is_plain(self) -> bool:
        """Is each entry one message? Then an index is as good as an entry."""
        return self.end_index - self.first_index == self.entries

    def count_in(self, indexes: IndexRanges) -> int:
        """How many of the entries hold any of these indexes."""
        first, end = self.first_index, self.end_index
        count = indexes.count_within(first, end)
        if count == end - first:
            return self.entries
        return count if self.is_plain else sum(1 for _ in self.held(indexes))

    def held(self, indexes: IndexRanges) -> Iterator[int]:
        """Ids of the entries that hold any of these indexes, ascending."""
        index, end, base = self.first_index, self.end_index, self.base_index
        while (found := indexes.next_index(index)) is not None and found < end:
            at = bisect_left(self.last_indexes, found - base)
            yield self.first_entry_id + at
            index = base + self.last_indexes[at] + 1

    def position(self, entry_id: int) -> Position:
        return Position(self.ledger_id, entry_id)

    def indexes_of(self, entry_id: int) -> tuple[int, int]:
        """First and end index of one of the entries."""
        at = entry_id - self.first_entry_id
        first = self.base_index + self.last_indexes[at - 1] + 1 if at else self.first_index
        return first, self.base_index + self.last_indexes[at] + 1
