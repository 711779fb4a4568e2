"""Analyses the backlog of a subscription (upstream's analyze-backlog). Reads, and changes nothing.

Upstream counts the messages of every entry of which anything is not acked; here only those messages count
that are not acked, so the number is the backlog's own.

    found = await scan(cursor, log, 0, slices, disk)    # Scan(entries=3, messages=30, markers=0, …)
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.backlog_walk import walk
from milepost.cursor.cursor import Cursor
from milepost.positions.ids import Position
from milepost.positions.ranges import IndexRanges
from milepost.storage.interface import Disk, Log
from milepost.storage.ledgers.entry import MARKER
from milepost.storage.ledgers.stretch import Stretch


class Scan(NamedTuple):
    entries: int = 0
    messages: int = 0
    """Without system messages."""
    markers: int = 0
    first: Position | None = None
    last: Position | None = None


async def scan(cursor: Cursor, log: Log, from_index: int, slices: TimeSlices, disk: Disk) -> Scan:
    """What is not acked at this moment, from an index on."""
    backlog = cursor.backlog_ranges()
    backlog.discard(0, from_index)
    entries = messages = markers = 0
    first = last = None

    def take(stretch: Stretch, count: int) -> bool:
        nonlocal entries, messages, markers, first, last
        first, last = first or stretch, stretch
        entries += count
        messages += backlog.count_within(stretch.first_index, stretch.end_index)
        if any(flags & MARKER for flags in stretch.flags):
            markers += _markers(stretch, backlog)
        return False

    await walk(log, backlog, take, slices, disk)
    if first is None or last is None:
        return Scan()
    *_, last_id = last.held(backlog)
    return Scan(
        entries,
        messages - markers,
        markers,
        first.position(next(first.held(backlog))),
        last.position(last_id),
    )


def _markers(stretch: Stretch, backlog: IndexRanges) -> int:
    """How many indexes of the backlog are system messages."""
    return sum(
        backlog.count_within(*stretch.indexes_of(entry_id))
        for entry_id in stretch.held(backlog)
        if stretch.flags[entry_id - stretch.first_entry_id] & MARKER
    )
