"""The feed of a subscription: reads entries where they lie and offers them. The async half of dispatch.

A feed runs when something may have changed (`wake`), many wakes in one turn of the loop being one run.
Entries in memory are offered at once; for others the feed waits for the disk and offers them under the
epoch in which the read began. A feed that has much to do lets others have their turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from milepost.broker.subscription import Subscription
from milepost.errors import CorruptData, NotFound
from milepost.storage.entry import Entry
from milepost.storage.ledger import ReadPlan

logger = logging.getLogger(__name__)

# After so many reads in one go others have their turn.
TURNS_MAX = 4


class Reading(Protocol):
    """What a feed needs of the storage engine and of the broker."""

    read_size_max: int

    async def read(self, plan: ReadPlan) -> list[Entry]: ...

    def perform(self, plan: ReadPlan) -> list[Entry]: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...


class Feed:
    def __init__(self, subscription: Subscription, reading: Reading) -> None:
        self._subscription = subscription
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        self._is_reading = False
        subscription.wake = self.wake
        if subscription.journal is not None:
            subscription.journal.schedule = self._schedule_flush

    def wake(self) -> None:
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
            if demand is None:
                return
            index, entries_max = demand
            log = subscription.topic.log
            try:
                plan = log.plan_read(
                    log.locate(index).position,
                    entries_max=entries_max,
                    size_max=self._reading.read_size_max,
                )
                if plan.data is None:
                    self._is_reading = True
                    self._reading.spawn(self._read(plan, subscription.cursor.epoch))
                    return
                subscription.offer(self._reading.perform(plan), subscription.cursor.epoch)
            except (NotFound, CorruptData) as error:
                self._skip(index, error)
        self.wake()

    async def _read(self, plan: ReadPlan, epoch: int) -> None:
        try:
            entries = await self._reading.read(plan)
        except (NotFound, CorruptData) as error:
            self._skip(plan.ledger.first_index + plan.rows[0].last_index, error)
        else:
            self._subscription.offer(entries, epoch)
        finally:
            self._is_reading = False
            self.wake()

    def _skip(self, index: int, error: Exception) -> None:
        """An entry cannot be read: say so and pass it over, so that it costs nobody else."""
        logger.error("%s: %s", self._subscription, error)
        self._subscription.pass_over_unreadable(index)
