"""Entries that no consumer could take yet, by what each waits for.

Others must not wait with them, and must not look at them again and again either. The cursor sets their
indexes aside; here stands what lets them go: room at one consumer, or a slot that another consumer still
holds. So a step of dispatch costs the same however many wait.

    wait_for(holder, …)       it goes when that consumer has room
    wait_for_slot(slot, …)    it goes when the slot is free
    freed(slot, holder)       the slot is free: now they wait for its owner
    first_for(holders)        the entry to look at next, if one of these consumers has room
    take(holder, room)        the entries to call back for a consumer

An entry that was acked meanwhile stays in its line; the cursor says so when it is called back.

    >>> passed_over = PassedOver()
    >>> passed_over.wait_for(1, 4, 5); passed_over.wait_for(1, 7, 9); passed_over.wait_for_slot(11, 2, 3)
    >>> passed_over.first_for([2]), passed_over.first_for([2, 1])
    (None, 1)
    >>> passed_over.take(1, room=2), passed_over.freed(11, 1), passed_over.take(1, room=2)
    ([(4, 5), (7, 9)], None, [(2, 3)])
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from milepost.positions.ranges import Range

# Entries that are called back in one go.
CALLED_MAX: Final = 64


class PassedOver:
    """What waits, in lines: one for each consumer, and one for each slot that is not free."""

    __slots__ = ("_by_holder", "_by_slot")

    # Heaps of entries, as the ranges of their indexes.  Invariant: none is empty, no entry is in two.
    _by_holder: dict[int, list[Range]]
    _by_slot: dict[int, list[Range]]

    def __init__(self) -> None:
        self._by_holder = {}
        self._by_slot = {}

    def __bool__(self) -> bool:
        return bool(self._by_holder or self._by_slot)

    def wait_for(self, holder: int, first: int, end: int) -> None:
        heappush(self._by_holder.setdefault(holder, []), (first, end))

    def wait_for_slot(self, slot: int, first: int, end: int) -> None:
        heappush(self._by_slot.setdefault(slot, []), (first, end))

    def freed(self, slot: int, holder: int) -> None:
        """What waited for a slot waits for this consumer now."""
        line = self._by_slot.pop(slot, None)
        if line is None:
            return
        into = self._by_holder.get(holder, line)
        if into is not line:
            # The shorter one goes into the longer one: very many slots may be freed, one after the other.
            if len(into) < len(line):
                into, line = line, into
            for one in line:
                heappush(into, one)
        self._by_holder[holder] = into

    def first_for(self, holders: Iterable[int]) -> int | None:
        """Whose line has the oldest entry, of the consumers that are named; None if none has any."""
        best: int | None = None
        best_first = 0
        for holder in holders:
            line = self._by_holder.get(holder)
            if line is not None and (best is None or line[0][0] < best_first):
                best, best_first = holder, line[0][0]
        return best

    def first_index(self, holder: int) -> int:
        """Where the oldest entry in a consumer's line begins."""
        return self._by_holder[holder][0][0]

    def take(self, holder: int, room: int) -> list[Range]:
        """The oldest entries in a consumer's line, as many as it has room for: at least one."""
        line = self._by_holder[holder]
        taken: list[Range] = []
        while line and room > 0 and len(taken) < CALLED_MAX:
            first, end = heappop(line)
            taken.append((first, end))
            room -= end - first
        if not line:
            del self._by_holder[holder]
        return taken

    def clear(self) -> None:
        self._by_holder.clear()
        self._by_slot.clear()
