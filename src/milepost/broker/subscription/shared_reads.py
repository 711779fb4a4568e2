"""Shares what one subscription read with others that read the same entries.

A hundred members of a broadcast group, and other subscriptions that keep up, want the same entries within a
short time, each from the index it has come to. Who comes while they are read waits for that read; who
comes soon after finds them here. So the disk is read once for all of them, however their permits differ.

    reads.find(log, 500, 700)                   # entries that a read loop has read, or nothing
    await reads.read(log, plan, (500, 700))     # from the disk, or from a read that is under way

Of memory it holds what was read last, and of the disk so many bytes.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from milepost.errors import CorruptData, NotFound
from milepost.positions.ranges import Range
from milepost.storage.interface import Log
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import ReadPlan

# Trimmed meanwhile, damaged, or the disk gives an error for it.
UNREADABLE = (NotFound, CorruptData, OSError)
# Of what came from the disk. The newest read is kept whatever its size.
KEPT_SIZE_MAX: Final = 16 * 1024 * 1024
# … and of reads: a read loop that finds nothing has looked at each, and small ones would be very many.
KEPT_RUNS_MAX: Final = 64

_LAST_INDEX = itemgetter(2)  # of an `Entry`


class Disk(Protocol):
    """What performs reads: the storage engine."""

    async def read(self, plan: ReadPlan) -> list[Entry]: ...


class _Run(NamedTuple):
    """Consecutive entries of a log. Invariant: at least one."""

    log: Log
    entries: Sequence[Entry]
    size: int

    def within(self, log: Log, first: int, end: int) -> Sequence[Entry]:
        """The entries that hold `[first, end)`, or as many of them from the first on as are here; none
        if that one is not."""
        entries = self.entries
        if (
            log is not self.log
            or first > entries[-1].last_index
            or first <= entries[0].last_index - entries[0].count
        ):
            return ()
        at = bisect_left(entries, first, key=_LAST_INDEX)
        return entries[at : bisect_left(entries, end - 1, at, key=_LAST_INDEX) + 1]


class _UnderWay(NamedTuple):
    """A read that is being performed, of the entries that hold `[first, end)`."""

    log: Log
    first: int
    end: int
    entries: asyncio.Task[list[Entry]]


class SharedReads:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._newest: _Run | None = None
        # What came from the disk, oldest first.  Invariant: `_kept_size` is the sum of their sizes.
        self._kept: deque[_Run] = deque()
        self._kept_size = 0
        self._under_way: list[_UnderWay] = []

    def find(self, log: Log, first: int, end: int) -> Sequence[Entry]:
        """Entries from the one that holds `first` on, of those that hold `[first, end)`; none if that
        one was not read of late."""
        if self._newest is not None and (entries := self._newest.within(log, first, end)):
            return entries
        for run in reversed(self._kept):
            if entries := run.within(log, first, end):
                return entries
        return ()

    def keep(self, log: Log, entries: Sequence[Entry]) -> None:
        """These were in memory: only the last of such reads is kept."""
        self._newest = _Run(log, entries, 0)

    async def read(self, log: Log, plan: ReadPlan, demand: Range) -> Sequence[Entry]:
        """Entries from the disk, from the one that holds the demand's first index on; or what was wrong
        with that one."""
        first, end = demand
        for one in self._under_way:
            if one.log is log and one.first <= first < one.end:
                if found := await self._join(one, first, end):
                    return found
                break  # the other read failed; this one may succeed
        task = asyncio.get_running_loop().create_task(self._disk.read(plan))
        last_index = plan.ledger.first_index + plan.last_indexes[-1]
        under_way = _UnderWay(log, first, last_index + 1, task)
        self._under_way.append(under_way)
        try:
            entries = await asyncio.shield(task)
        finally:
            self._under_way.remove(under_way)
        self._keep_from_disk(log, entries)
        return entries

    async def _join(self, other: _UnderWay, first: int, end: int) -> Sequence[Entry]:
        """What another read brings of `[first, end)`; nothing if it fails."""
        try:
            entries = await asyncio.shield(other.entries)
        except UNREADABLE:
            return ()
        return _Run(other.log, entries, 0).within(other.log, first, end)

    def _keep_from_disk(self, log: Log, entries: Sequence[Entry]) -> None:
        run = _Run(log, entries, sum([len(entry.payload) for entry in entries]))
        self._kept.append(run)
        self._kept_size += run.size
        while len(self._kept) > 1 and (
            self._kept_size > KEPT_SIZE_MAX or len(self._kept) > KEPT_RUNS_MAX
        ):
            self._kept_size -= self._kept.popleft().size
