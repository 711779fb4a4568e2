"""Reads entries for a subscription, from memory or disk, and offers them to its consumers.

The async half of dispatch.

A read loop runs when something may have changed (`wake`), many wakes in one turn of the loop being one run.
Entries in memory are offered at once; for others the read loop waits for the disk and offers them under the
epoch in which the read began. A read loop that has much to do lets others have their turn. What is read is
shared with the other subscriptions of its topic: those that keep up want the same (`shared_reads.py`).

An entry that the disk cannot give is passed over, so that consumers get those behind it. A bucket that does
not answer has not lost anything: the read loop waits for it, and passes nothing over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from milepost.broker.limits.time_slices import REST_S
from milepost.broker.subscription import notices, stored_runs
from milepost.broker.subscription.flush_round import FlushRound
from milepost.broker.subscription.shared_reads import UNREADABLE, SharedReads
from milepost.broker.subscription.subscription import Subscription
from milepost.cursor.cursor import Cursor
from milepost.errors import CorruptData, NotFound
from milepost.positions.ranges import Range
from milepost.storage.files import Files, NotAnswered
from milepost.storage.interface import Engine
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import ReadPlan
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.storage.ledgers.stored_run import RunLimits, StoredRun

logger = logging.getLogger(__name__)

# After so many reads, or entries, in one go others have their turn: about half a millisecond.
TURNS_MAX = 4
ENTRIES_MAX = 150
# A demand of so few messages is looked up with those behind it, of so many messages in all, which takes a
# quarter of a millisecond. Then others have their turn.
SMALL_DEMAND = 8
SCATTERED_MAX = 16
# A store that does not answer is asked again after so long.
ASK_AGAIN_S = 1.0
# Of entries that are sent as they are stored, which costs next to nothing for each.
RUN_LIMITS = RunLimits(entries_max=8192, size_max=512 * 1024)


class Reading(Protocol):
    """What a read loop needs of the storage engine and of the broker."""

    read_entries_max: int
    read_size_max: int
    reads: SharedReads
    round: FlushRound

    @property
    def engine(self) -> Engine: ...

    def perform(self, plan: ReadPlan) -> list[Entry]: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...


class ReadLoop:
    """The read loop of one subscription (`host.Waker`)."""

    def __init__(
        self, subscription: Subscription, reading: Reading, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._subscription = subscription
        self._reading = reading
        self._loop = loop
        self._is_scheduled = False
        self._is_reading = False
        # The range that was offered last, and that no consumer could take. `wake` clears it.
        self._in_vain: Range | None = None
        # Below this index entries are read one by one, though the consumer takes runs.
        self._runs_from = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_resting = False

    def wake(self) -> None:
        """Something changed."""
        self._in_vain = None
        self._go_on()

    def wake_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self.wake()

    def rest(self) -> None:
        self._rest(REST_S)

    def _rest(self, seconds: float) -> None:
        self._is_resting = True
        self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._is_resting = False
        self.wake()

    def _go_on(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._reading.round.dispatch(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        subscription = self._subscription
        if self._is_reading or self._is_resting or subscription.seeks:
            return
        offered_count = 0
        for _ in range(TURNS_MAX):
            demand = subscription.demand()
            if demand is None or demand == self._in_vain:
                if demand is None and subscription.topic.is_terminated:
                    notices.tell_end(subscription)
                return
            index, end_index = demand
            assert subscription.dispatcher is not None, "it has a demand"
            if subscription.dispatcher.run_consumer() and index >= self._runs_from:
                if (is_sent := self._offer_run(demand)) is None:
                    return
                if is_sent:
                    break
            log, reading = subscription.topic.log, self._reading
            entries_max, size_max = reading.read_entries_max, reading.read_size_max
            at_once = min(entries_max, ENTRIES_MAX)
            scattered = self._scattered(demand)
            entries = scattered or reading.reads.find(log, index, end_index)
            if not entries:
                entries = log.newest(index, end_index, entries_max=at_once, size_max=size_max)
                if entries:
                    reading.reads.keep(log, entries)
            if not entries:
                try:
                    with reading.engine.loop_files.strictly():
                        plan = log.plan_read_from(
                            index, end_index, entries_max=at_once, size_max=size_max
                        )
                        if plan.data is None:  # from the disk, where one large read is cheaper
                            plan = log.plan_read_from(
                                index, end_index, entries_max=entries_max, size_max=size_max
                            )
                    if plan.data is None:
                        self._begin_read(plan, demand)
                        return
                    entries = reading.perform(plan)
                except NotInMemory as missing:
                    self._is_reading = True
                    reading.spawn(self._bring(missing, index))
                    return
                except UNREADABLE as error:
                    self._skip(index, index, error)
                    continue
                reading.reads.keep(log, entries)
            # Set before the offer: a change during the offer wakes the loop, which clears it.
            self._in_vain = demand
            entries = entries[: ENTRIES_MAX - offered_count]
            is_enough = subscription.offer(entries, subscription.cursor.epoch, at_once=True)
            if self._is_resting:
                return
            offered_count += len(entries)
            if is_enough or scattered or offered_count >= ENTRIES_MAX:
                break
        self._go_on()

    def _with_those_behind(self, demand: Range) -> list[Range]:
        """A small demand, and the ranges behind it that could be delivered with it, of a few messages in
        all."""
        subscription, (first, end) = self._subscription, demand
        ranges, cursor, dispatcher = [demand], subscription.cursor, subscription.dispatcher
        if (
            end - first > SMALL_DEMAND
            or end == cursor.end
            or dispatcher is None
            or subscription.handovers
            or subscription.throttles
            or subscription.reads_compacted
            or cursor.aside_count
        ):
            return ranges
        left = min(dispatcher.room(), SCATTERED_MAX) - (end - first)
        while left > 0 and (ready := cursor.next_ready(end, left)) is not None:
            ranges.append(ready)
            left -= ready[1] - ready[0]
            end = ready[1]
        return ranges

    def _scattered(self, demand: Range) -> Sequence[Entry]:
        """The entries of a small demand and of those behind it that are in memory, if there are several:
        delayed messages become due in no order, and acks leave holes. Each would be looked for, and
        offered, by itself."""
        ranges = self._with_those_behind(demand)
        if len(ranges) == 1:
            return ()
        try:
            with self._reading.engine.loop_files.strictly():
                return self._subscription.topic.log.entries_in_memory(ranges)
        except (NotInMemory, *UNREADABLE):
            return ()  # the read of the first meets it again, and sees to it

    def _begin_read(self, plan: ReadPlan, demand: Range) -> None:
        """Read what a demand wants from the disk. If it is small, those behind it are read with it."""
        self._is_reading = True
        reading, epoch = self._reading, self._subscription.cursor.epoch
        plans: list[ReadPlan] = []
        if len(ranges := self._with_those_behind(demand)) > 1:
            with suppress(NotInMemory, *UNREADABLE), reading.engine.loop_files.strictly():
                log = self._subscription.topic.log
                plans = log.plan_reads(ranges, size_max=reading.read_size_max)
        if len(plans) > 1:
            reading.spawn(self._read_scattered(plans, plan, epoch, demand))
        else:
            reading.spawn(self._read(plan, epoch, demand))

    def _offer_run(self, demand: Range) -> bool | None:
        """Send entries as they are stored. None: a file is being read for that, and the feed goes on
        behind it; False: there are none that could be sent so."""
        subscription, reading = self._subscription, self._reading
        log, epoch = subscription.topic.log, subscription.cursor.epoch
        try:
            with reading.engine.loop_files.strictly():
                run = log.plan_run(*demand, RUN_LIMITS)
        except NotInMemory as missing:
            self._is_reading = True
            reading.spawn(self._bring(missing, demand[0]))
            return None
        except UNREADABLE:
            return False  # the read of single entries meets it again, and says what is wrong
        if run is None:
            return False
        if run.data is not None:
            return stored_runs.offer(subscription, run, run.data, epoch)
        self._is_reading = True
        reading.spawn(self._read_run(run, epoch))
        return None

    async def _read_run(self, run: StoredRun, epoch: int) -> None:
        goes_on = False
        try:
            data = await self._reading.engine.perform(run.perform)
        except NotAnswered:
            self._rest(ASK_AGAIN_S)
            goes_on = True
        except UNREADABLE:
            pass  # the read of single entries meets it again, and says what is wrong
        else:
            goes_on = stored_runs.offer(self._subscription, run, data, epoch)
        finally:
            if not goes_on:
                # One by one, which passes damage over and knows what was released before.
                self._runs_from = run.end_index
            self._is_reading = False
            self._go_on()

    async def _read(self, plan: ReadPlan, epoch: int, demand: Range) -> None:
        try:
            log = self._subscription.topic.log
            entries = await self._reading.reads.read(log, plan, demand)
        except NotAnswered:
            self._rest(ASK_AGAIN_S)
        except UNREADABLE as error:
            self._skip(demand[0], plan.ledger.first_index + plan.last_indexes[0], error)
        else:
            if epoch == self._subscription.cursor.epoch:
                self._in_vain = demand
            # The rest of the read is kept for the turns to come (`SharedReads.find`).
            self._subscription.offer(entries[:ENTRIES_MAX], epoch)
        finally:
            self._is_reading = False
            self._go_on()

    async def _read_scattered(
        self, plans: Sequence[ReadPlan], first: ReadPlan, epoch: int, demand: Range
    ) -> None:
        """Perform reads in one go. Where the first of them fails, it is tried by itself, as `first`."""
        entries: Sequence[Entry] = ()
        try:
            with suppress(NotAnswered, *UNREADABLE):
                entries = await self._reading.engine.perform(partial(_performed, plans))
            if not entries:
                await self._read(first, epoch, demand)
            else:
                if epoch == self._subscription.cursor.epoch:
                    self._in_vain = demand
                self._subscription.offer(_up_to_news(entries, self._subscription.cursor), epoch)
        finally:
            self._is_reading = False
            self._go_on()

    async def _bring(self, missing: NotInMemory, index: int) -> None:
        """What says where entries lie was not in memory."""
        try:
            await self._reading.engine.bring(missing)
        except NotAnswered:
            self._rest(ASK_AGAIN_S)
        except CorruptData as error:  # no entry of the ledger can be found
            log = self._subscription.topic.log
            self._skip(index, max(log.ledger_with(index).end_index - 1, index), error)
        except UNREADABLE as error:
            self._skip(index, index, error)
        finally:
            self._is_reading = False
            self._go_on()

    def _skip(self, first: int, last: int, error: Exception) -> None:
        """Log that an entry cannot be read, and pass it over, so that consumers get the entries behind it."""
        if not isinstance(error, NotFound):  # else it was trimmed while it was looked for
            logger.error("%s: %s", self._subscription, error)
        self._subscription.pass_over_unreadable(first, last, error)


def _performed(plans: Sequence[ReadPlan], files: Files) -> list[Entry]:
    """The entries of all reads, in order, up to the first that fails."""
    entries: list[Entry] = []
    for plan in plans:
        try:
            found = plan.perform(files)
        except (NotAnswered, *UNREADABLE):
            if entries:
                break
            raise
        entries += found
        if len(found) < len(plan.offsets):
            break  # the one behind them is damaged
    return entries


def _up_to_news(entries: Sequence[Entry], cursor: Cursor) -> Sequence[Entry]:
    """The entries up to the first that something ready lies before now, which was not when they were read:
    a message that was released, say."""
    for at in range(1, len(entries)):
        ready = cursor.next_ready(entries[at - 1].last_index + 1, 1)
        if ready is not None and ready[0] <= entries[at].last_index - entries[at].count:
            return entries[:at]
    return entries
