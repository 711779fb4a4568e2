"""Delays: the indexes that are not due yet, and when each will be.

A delayed message is ready in every respect but one: its time has not come. The times are given from
outside, in milliseconds; nothing here asks a clock.

    >>> delays = Delays()
    >>> delays.add(0, 2, due_ms=500); delays.add(7, 8, due_ms=300)
    >>> delays.next_due_ms, delays.take_due(now_ms=400), delays.indexes.count
    (300, [(7, 8)], 2)

An index leaves before its time when it is acked or trimmed. Its line in the timetable stays behind
until then and is skipped: it cannot be mistaken for a newer one, since an index that was acked comes
back only by a seek, and a seek clears the timetable.
"""

from __future__ import annotations

from heapq import heappop, heappush

from milepost.positions.ranges import IndexRanges, Range


class Delays:
    """A set of indexes with due times."""

    __slots__ = ("_timetable", "indexes")

    # The indexes that are not due yet.
    indexes: IndexRanges

    # A heap of (due_ms, first, end). Invariant: each index of `indexes` is in exactly one line.
    _timetable: list[tuple[int, int, int]]

    def __init__(self) -> None:
        self.indexes = IndexRanges()
        self._timetable = []

    def add(self, first: int, end: int, due_ms: int) -> None:
        """Delay indexes that are not delayed now."""
        added = self.indexes.add(first, end)
        assert added == end - first, f"part of [{first}, {end}) has a due time already"
        heappush(self._timetable, (due_ms, first, end))

    def discard(self, first: int, end: int) -> int:
        """Drop indexes before their time; how many were delayed."""
        removed = self.indexes.discard(first, end)
        if not self.indexes.count:
            self._timetable.clear()
        return removed

    def take_due(self, now_ms: int) -> list[Range]:
        """Remove and return what is due."""
        due: list[Range] = []
        timetable = self._timetable
        while timetable and timetable[0][0] <= now_ms:
            _, first, end = heappop(timetable)
            due += self.indexes.within(first, end)
            self.indexes.discard(first, end)
        return due

    @property
    def next_due_ms(self) -> int | None:
        """When to look again, if anything is delayed."""
        timetable = self._timetable
        while timetable and not self.indexes.count_within(*timetable[0][1:]):
            heappop(timetable)
        return timetable[0][0] if timetable else None

    def clear(self) -> None:
        """Forget all indexes and times."""
        self.indexes.clear()
        self._timetable.clear()

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        self.indexes.check()
        named = IndexRanges()
        for due_ms, first, end in self._timetable:
            for piece in self.indexes.within(first, end):
                assert named.add(*piece) == piece[1] - piece[0], f"{piece} twice, at {due_ms} too"
        assert named == self.indexes, f"{self.indexes} delayed, {named} in the timetable"
