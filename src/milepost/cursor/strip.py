"""The strip: how many indexes of each column of a range are in which state.

A range of millions of indexes is drawn as a few hundred columns. Each column is counted exactly, from the
cursor's sets, never from single indexes: what costs is a column, or a page of scattered indexes, whichever
there are more of. The sets are copies of one moment, so the caller may do something else in between.

    >>> strip = Strip(first=2, end=10, ready=[IndexRanges([(6, 10)])], inflight=[IndexRanges([(3, 5)])],
    ...     delayed=IndexRanges())
    >>> columns = strip.columns(0, 10, count=5)
    >>> columns.acked, columns.inflight, columns.ready, columns.trimmed
    ([0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 2, 2], [2, 0, 0, 0, 0])

Every index of a column below `end` is counted once: trimmed, acked, inflight, ready or delayed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from milepost.errors import InvalidRange
from milepost.positions.ranges import IndexRanges

# Columns that are dealt with in one go, and indexes of them that are looked at as one number.
STEP = 64
BITS_MAX = 1 << 14


class Columns(NamedTuple):
    """What a strip says of a range: for each column a number of each state."""

    first: int
    end: int
    acked: list[int]
    inflight: list[int]
    ready: list[int]
    delayed: list[int]
    trimmed: list[int]

    def border(self, column: int) -> int:
        """The first index of a column; of the one behind the last, the end."""
        return self.first + (self.end - self.first) * column // max(len(self.acked), 1)

    def column_of(self, index: int) -> int:
        """The column that an index of the range is in."""
        return ((index - self.first + 1) * len(self.acked) - 1) // (self.end - self.first)


class Strip(NamedTuple):
    """The states of a cursor's indexes at one moment."""

    first: int
    """What is below is trimmed."""
    end: int
    """What is not below is not there yet."""
    ready: Sequence[IndexRanges]
    """Disjoint sets, as are those that are inflight."""
    inflight: Sequence[IndexRanges]
    delayed: IndexRanges

    def columns(self, first: int, end: int, count: int) -> Columns:
        """`[first, end)` in so many columns, fewer if it has fewer indexes."""
        columns = self.empty(first, end, count)
        for _ in self.fill(columns):
            pass
        return columns

    def empty(self, first: int, end: int, count: int) -> Columns:
        """The columns, not counted yet."""
        if not 0 <= first <= end or count < 1:
            raise InvalidRange(f"{count} columns of [{first}, {end})")
        width = min(count, end - first)
        return Columns(first, end, *([0] * width for _ in range(5)))

    def fill(self, columns: Columns) -> Iterator[None]:
        """Count, in steps of a few columns."""
        borders = [columns.border(column) for column in range(len(columns.acked) + 1)]
        yield from _count(columns, borders, self.ready, columns.ready)
        yield from _count(columns, borders, self.inflight, columns.inflight)
        yield from _count(columns, borders, [self.delayed], columns.delayed)
        backlogs = zip(columns.ready, columns.inflight, columns.delayed, strict=True)
        for column, backlog in enumerate(map(sum, backlogs)):
            begin, end = borders[column], borders[column + 1]
            there = end - begin
            if begin < self.first or end > self.end:  # in few of them
                there = max(min(end, self.end) - begin, 0)
                columns.trimmed[column] = max(min(end, self.first) - begin, 0)
            columns.acked[column] = there - columns.trimmed[column] - backlog
            if not column % STEP:
                yield

    def state_of(self, index: int) -> str:
        """The state of one index; empty for one that is not there yet."""
        if index < self.first:
            return "trimmed"
        if index >= self.end:
            return ""
        if index in self.delayed:
            return "delayed"
        if any(index in one for one in self.ready):
            return "ready"
        return "inflight" if any(index in one for one in self.inflight) else "acked"


def _count(
    columns: Columns, borders: Sequence[int], sets: Sequence[IndexRanges], counts: list[int]
) -> Iterator[None]:
    """Add what of the sets is in each column. Where there is nothing, columns are passed over; narrow ones
    are counted from the bits of many of them at once."""
    work = 0
    for indexes in sets:
        column = 0
        while column < len(counts):
            found = indexes.next_index(borders[column])
            if found is None or found >= columns.end:
                break
            column = columns.column_of(found)
            base = borders[column]
            behind = min(bisect_right(borders, base + BITS_MAX) - 1, column + STEP)
            if behind <= column:
                behind = column + 1
                counts[column] += indexes.count_within(base, borders[behind])
            else:
                bits = indexes.bits(base, borders[behind])
                for one in range(column, behind):
                    width = borders[one + 1] - borders[one]
                    counts[one] += (bits >> borders[one] - base & (1 << width) - 1).bit_count()
            work += behind - column
            column = behind
            if work >= STEP:
                work = 0
                yield
