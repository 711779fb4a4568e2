"""Arrays with a value for each message, which grow as messages come: eight bytes instead of an object."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort

# Grown by at least this many at once, or by an eighth.
STEP = 1024


class Column:
    """Whole numbers by message; 0 where none was put."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("q")

    def __getitem__(self, number: int) -> int:
        try:
            return self._values[number]
        except IndexError:
            return 0

    def __setitem__(self, number: int, value: int) -> None:
        try:
            self._values[number] = value
        except IndexError:
            missing = number - len(self._values) + 1
            more = max(missing, STEP, len(self._values) // 8)
            self._values.frombytes(bytes(more * self._values.itemsize))
            self._values[number] = value


class Sparse:
    """Numbers by index: an array while indexes are dense, a dictionary for those far away."""

    __slots__ = ("_far", "_far_sorted", "_near")

    def __init__(self) -> None:
        self._near = array("q")
        self._far: dict[int, int] = {}
        self._far_sorted: list[int] = []
        """The indexes of `_far`, ascending: a topic may begin far from 0, and have all of its there."""

    def get(self, index: int) -> int:
        """The number put for the index; -1 where none was."""
        if 0 <= index < len(self._near):
            return self._near[index] - 1
        return self._far.get(index, -1)

    def put(self, index: int, number: int) -> None:
        size = len(self._near)
        if index >= size:
            if index > 2 * size + STEP:
                if index not in self._far:
                    insort(self._far_sorted, index)
                self._far[index] = number
                return
            self._near.frombytes(bytes((max(index - size + 1, STEP, size // 8)) * 8))
            count = bisect_left(self._far_sorted, len(self._near))
            for far in self._far_sorted[:count]:
                self._near[far] = self._far.pop(far) + 1
            del self._far_sorted[:count]
        self._near[index] = number + 1

    def first_in(self, first: int, end: int) -> int | None:
        """The lowest index in the range that has a number."""
        near = self._near
        for index in range(max(first, 0), min(end, len(near))):
            if near[index]:
                return index
        at = bisect_left(self._far_sorted, first)
        found = self._far_sorted[at] if at < len(self._far_sorted) else end
        return found if found < end else None
