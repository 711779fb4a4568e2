"""The feed of a subscription: reads entries where they lie and offers them. The async half of dispatch.

A feed runs when something may have changed (`wake`), many wakes in one turn of the loop being one run.
Entries in memory are offered at once; for others the feed waits for the disk and offers them under the
epoch in which the read began. A feed that has much to do lets others have their turn. What was read
last is kept for the other subscriptions of its topic: those that keep up want the same, right behind.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Coroutine, Sequence
from operator import itemgetter
from typing import Any, Protocol

from milepost.broker import ending
from milepost.broker.subscription import Subscription
from milepost.errors import CorruptData, NotFound
from milepost.positions.ranges import Range
from milepost.storage.entry import Entry
from milepost.storage.ledger import ReadPlan
from milepost.storage.log import Log

logger = logging.getLogger(__name__)

# After so many reads in one go others have their turn.
TURNS_MAX = 4
# Trimmed meanwhile, damaged, or the disk gives an error for it.
UNREADABLE = (NotFound, CorruptData, OSError)

_LAST_INDEX = itemgetter(2)  # of an `Entry`


class Reading(Protocol):
    """What a feed needs of the storage engine and of the broker."""

    read_entries_max: int
    read_size_max: int
    last_read: LastRead

    async def read(self, plan: ReadPlan) -> list[Entry]: ...

    def perform(self, plan: ReadPlan) -> list[Entry]: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...


class LastRead:
    """What any feed of a broker read last."""

    def __init__(self) -> None:
        self._log: Log | None = None
        # Invariant: consecutive entries of that log.
        self._entries: Sequence[Entry] = ()

    def keep(self, log: Log, entries: Sequence[Entry]) -> None:
        self._log, self._entries = log, entries

    def find(self, log: Log, index: int, end_index: int) -> Sequence[Entry]:
        """The entries that hold `[index, end_index)`, or as many of them from the first on as were
        read; none if that one was not."""
        entries = self._entries
        if log is not self._log or not entries or index <= entries[0].last_index - entries[0].count:
            return ()
        at = bisect_left(entries, index, key=_LAST_INDEX)
        return entries[at : bisect_left(entries, end_index - 1, at, key=_LAST_INDEX) + 1]


class Feed:
    def __init__(self, subscription: Subscription, reading: Reading) -> None:
        self._subscription = subscription
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        self._is_reading = False
        # What was offered last and nobody could take: offered again when something changes.
        self._in_vain: Range | None = None
        self._timer: asyncio.TimerHandle | None = None
        subscription.wake = self.wake
        subscription.wake_after = self._wake_after
        if subscription.journal is not None:
            subscription.journal.schedule = self._schedule_flush

    def wake(self) -> None:
        """Something changed."""
        self._in_vain = None
        self._go_on()

    def _wake_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self.wake()

    def _go_on(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _schedule_flush(self) -> None:
        self._loop.call_soon(self._subscription.flush_acks)

    def _run(self) -> None:
        self._is_scheduled = False
        if self._is_reading:
            return
        subscription = self._subscription
        for _ in range(TURNS_MAX):
            demand = subscription.demand()
            if demand is None or demand == self._in_vain:
                if demand is None and subscription.topic.is_terminated:
                    ending.tell(subscription)
                return
            index, end_index = demand
            log = subscription.topic.log
            entries = self._reading.last_read.find(log, index, end_index)
            if not entries:
                try:
                    plan = log.plan_read_from(
                        index,
                        end_index,
                        entries_max=self._reading.read_entries_max,
                        size_max=self._reading.read_size_max,
                    )
                    if plan.data is None:
                        self._is_reading = True
                        self._reading.spawn(self._read(plan, subscription.cursor.epoch, demand))
                        return
                    entries = self._reading.perform(plan)
                except UNREADABLE as error:
                    self._skip(index, error)
                    continue
                self._reading.last_read.keep(log, entries)
            # Before the offer: what changes meanwhile says so itself.
            self._in_vain = demand
            subscription.offer(entries, subscription.cursor.epoch)
        self._go_on()

    async def _read(self, plan: ReadPlan, epoch: int, demand: Range) -> None:
        try:
            entries = await self._reading.read(plan)
        except UNREADABLE as error:
            self._skip(plan.ledger.first_index + plan.last_indexes[0], error)
        else:
            self._reading.last_read.keep(self._subscription.topic.log, entries)
            if epoch == self._subscription.cursor.epoch:
                self._in_vain = demand
            self._subscription.offer(entries, epoch)
        finally:
            self._is_reading = False
            self._go_on()

    def _skip(self, index: int, error: Exception) -> None:
        """An entry cannot be read: say so and pass it over, so that it costs nobody else."""
        logger.error("%s: %s", self._subscription, error)
        self._subscription.pass_over_unreadable(index)
