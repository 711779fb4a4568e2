"""The indexes that are delayed, and until when.

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

# A line of the timetable is one number: due time, first index and count, from the highest bits on. A third
# of what a tuple takes, and there may be millions.
_DUE_SHIFT = 96
_FIRST_SHIFT = 32
_FIRST_MASK = (1 << 64) - 1
_COUNT_MASK = (1 << 32) - 1
# Lines of what is gone that are skipped in one go: others have their turn.
_STALE_LINES_MAX = 100


class Delays:
    """A set of indexes with due times."""

    __slots__ = ("_timetable", "indexes")

    # The indexes that are not due yet.
    indexes: IndexRanges

    # A heap of lines. Invariant: each index of `indexes` is in exactly one line.
    _timetable: list[int]

    def __init__(self) -> None:
        self.indexes = IndexRanges()
        self._timetable = []

    def add(self, first: int, end: int, due_ms: int) -> None:
        """Delay indexes that are not delayed now."""
        added = self.indexes.add(first, end)
        assert added == end - first, f"part of [{first}, {end}) has a due time already"
        assert end - first <= _COUNT_MASK, f"[{first}, {end}) at once"
        heappush(self._timetable, due_ms << _DUE_SHIFT | first << _FIRST_SHIFT | end - first)

    def discard(self, first: int, end: int) -> int:
        """Drop indexes before their time; how many were delayed."""
        removed = self.indexes.discard(first, end)
        if not self.indexes.count:
            self._timetable.clear()
        return removed

    def take_due(self, now_ms: int | None, lines_max: int | None = None) -> list[Range]:
        """Remove and return what is due; with a limit, what stands in so many lines at most. None as
        the time: all, due or not."""
        if now_ms is None:
            due = list(self.indexes)
            self.clear()
            return due
        due = []
        timetable, indexes = self._timetable, self.indexes
        left = len(timetable) if lines_max is None else lines_max
        while left and timetable and timetable[0] >> _DUE_SHIFT <= now_ms:
            left -= 1
            first, end = _range(heappop(timetable))
            if end - first > 1:
                due += indexes.within(first, end)
                indexes.discard(first, end)
            elif indexes.discard(first, end):
                due.append((first, end))
        return due

    @property
    def next_due_ms(self) -> int | None:
        """When to look again, if anything is delayed. Where very many left before their time, that may
        be the time of one of them."""
        timetable = self._timetable
        for _ in range(_STALE_LINES_MAX):
            if not timetable or self.indexes.count_within(*_range(timetable[0])):
                break
            heappop(timetable)
        return timetable[0] >> _DUE_SHIFT if timetable else None

    def clear(self) -> None:
        """Forget all indexes and times."""
        self.indexes.clear()
        self._timetable.clear()

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        self.indexes.check()
        named = IndexRanges()
        for line in self._timetable:
            for piece in self.indexes.within(*_range(line)):
                assert named.add(*piece) == piece[1] - piece[0], f"{piece} twice"
        assert named == self.indexes, f"{self.indexes} delayed, {named} in the timetable"


def _range(line: int) -> Range:
    first = line >> _FIRST_SHIFT & _FIRST_MASK
    return first, first + (line & _COUNT_MASK)
