"""Reads through a backlog entry by entry, beside live traffic. Reads what lies where, no payload.

A backlog may be a million entries with every second of them acked. So entries are looked at a stretch at a
time, where nothing or everything of a stretch is in the backlog not even that, and a caller that looks
through many rests in between.

    await entries_in(log, cursor.backlog_ranges(), slices, disk)           # 500000
    await nth_in_backlog(log, cursor.backlog_ranges(), 10, slices, disk)   # Located(position=1:18, …)

The indexes are a copy, taken at one moment; what is trimmed while others have their turn is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from milepost.broker.limits.time_slices import TimeSlices
from milepost.errors import IndexNotFound
from milepost.positions.ids import Position
from milepost.positions.ranges import IndexRanges
from milepost.storage.interface import Disk, Log
from milepost.storage.ledgers.log import Located
from milepost.storage.ledgers.stretch import Stretch

# Entries of a stretch: a third of a millisecond, if each has to be looked at.
STEP_ENTRIES: Final = 128

Take = Callable[[Stretch, int], bool]


async def walk(log: Log, indexes: IndexRanges, take: Take, slices: TimeSlices, disk: Disk) -> None:
    """Call `take` with each stretch that holds any of the indexes, in order, and how many of its
    entries do; until it says that it has enough."""
    index = 0

    def step() -> Stretch | None:
        found = indexes.next_index(max(index, log.first_index))
        return None if found is None else log.stretch(found, STEP_ENTRIES)

    while (stretch := await disk.look(step)) is not None:
        if take(stretch, stretch.count_in(indexes)):
            return
        index = stretch.end_index
        if slices.is_over:
            await slices.rest()


async def entries_in(log: Log, indexes: IndexRanges, slices: TimeSlices, disk: Disk) -> int:
    """How many entries hold any of these indexes."""
    total = 0

    def take(stretch: Stretch, count: int) -> bool:
        nonlocal total
        total += count
        return False

    await walk(log, indexes, take, slices, disk)
    return total


async def nth_in_backlog(
    log: Log, indexes: IndexRanges, number: int, slices: TimeSlices, disk: Disk
) -> Located:
    """The `number`-th entry, from 1, that holds any of these indexes."""
    left = number
    found: Position | None = None

    def take(stretch: Stretch, count: int) -> bool:
        nonlocal left, found
        if left > count:
            left -= count
            return False
        found = stretch.position(next(islice(stretch.held(indexes), left - 1, None)))
        return True

    await walk(log, indexes, take, slices, disk)
    if found is None:
        raise IndexNotFound(
            f"{log.name}: {number - left} entries in the backlog, no entry {number}"
        )
    at = found
    return await disk.look(lambda: log.at(at))
