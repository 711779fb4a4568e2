"""A storage engine without threads: each of its three kinds of waiting can be held by a test.

It has the surface of `milepost.storage.engine.StorageEngine` that a broker uses. While nothing is held
it does at once what the threads would do soon.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from milepost.errors import PersistenceError
from milepost.storage.catalog.catalog import Catalog, TopicRow
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.engine import CatalogCall, StorageEngine, note_loss
from milepost.storage.files import Files
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import ReadPlan
from milepost.storage.ledgers.log import Log
from milepost.storage.ledgers.loss import Loss, Shortage
from milepost.storage.ledgers.paging import LoopDisk, LoopFiles
from milepost.storage.store import Store

T = TypeVar("T")


class HandEngine(LoopDisk):
    def __init__(self, store: Store) -> None:
        self.store = store
        self._files = store.files
        self._loop_files = store.files = LoopFiles(store.files)
        self.told_of_checkpoints: Callable[[], None] = lambda: None
        self.holds_journal = False
        """Nothing becomes durable."""
        self.holds_catalog = False
        """No change of the catalog is made."""
        self.holds_reads = False
        """Nothing comes from the disk; what is in memory is not read but there."""
        self.reads_held = 0
        """Reads that are under way now."""
        self.is_closed = False
        self.checkpoint_failure: str | None = None
        self.checkpoint_failures = 0
        self.failure: str | None = None
        self._loop = asyncio.get_running_loop()
        self._changes: deque[CatalogCall] = deque()
        self._reads: deque[asyncio.Future[None]] = deque()
        self._around: Callable[[Callable[[], None]], None] = lambda tell: tell()

    # -- what a broker needs -----------------------------------------------------------------------

    def watch(
        self,
        on_error: Callable[[str, BaseException], None] | None = None,
        on_fatal: Callable[[str], None] | None = None,
        on_checkpoint: Callable[[], None] | None = None,
        on_lapse: Callable[[], None] | None = None,
    ) -> None:
        """Nothing breaks down here."""
        self.told_of_checkpoints = on_checkpoint or self.told_of_checkpoints

    may_serve = True
    bucket = None

    async def prove_claim(self) -> None:
        """There is no other broker."""

    def before_commit(self, work: Callable[[], None]) -> None:
        self._loop.call_soon(work)

    def answer_within(self, around: Callable[[Callable[[], None]], None]) -> None:
        self._around = around

    async def catalog(
        self,
        change: Callable[[Any], Any],
        then: Callable[[Any], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> Any:
        call = CatalogCall(change, self._loop.create_future(), then, undo)
        self._changes.append(call)
        return await call.future

    async def flush(self) -> None:
        done = self._loop.create_future()

        def flushed(error: PersistenceError | None) -> None:
            if not done.done():
                done.set_exception(error) if error else done.set_result(None)

        self.store.journal.barrier(flushed)
        await done

    async def read(self, plan: ReadPlan) -> list[Entry]:
        if plan.data is not None:
            return plan.perform(self._files)
        try:
            return await self.perform(plan.perform)
        except Shortage as shortage:
            await note_loss(cast("StorageEngine", self), plan.ledger, shortage)
            raise

    @property
    def loop_files(self) -> LoopFiles:
        return self._loop_files

    async def perform(self, work: Callable[[Files], T]) -> T:
        gate: asyncio.Future[None] = self._loop.create_future()
        self._reads.append(gate)
        self.reads_held += 1
        await gate
        return work(self._files)

    async def checkpoint(self) -> None:
        planned: asyncio.Future[Checkpoint | PersistenceError] = self._loop.create_future()
        self.store.begin_checkpoint(planned.set_result)
        plan = await planned
        if isinstance(plan, PersistenceError):
            raise plan
        try:
            plan.flush(self.store.files)
            await self.catalog(plan.record)
        except BaseException as error:
            self.store.finish_checkpoint(plan, error)
            raise
        self.store.finish_checkpoint(plan, None)
        plan.drop_journal(self.store.files)

    async def trim(self, log: Log, before_index: int) -> int:
        await self.flush()
        return self.store.trim(log, before_index)

    async def delete_topic(
        self,
        topic: TopicRow,
        log: Log,
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        await self.delete_topics([(topic, log)], beside, then)

    async def delete_topics(
        self,
        topics: Sequence[tuple[TopicRow, Log]],
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        await self.flush()

        def delete(_: None) -> None:
            for topic, _log in topics:
                self.store.delete(topic)
            then()

        await self.catalog(beside, delete)

    async def accept_loss(self, topic_id: int) -> list[Loss]:
        await self.flush()
        self.store.checkpoint()
        assert topic_id not in self.store.unfilled
        return cast(
            "list[Loss]",
            await self.catalog(
                lambda catalog: catalog.accept_losses(topic_id),
                lambda _: self.store.losses_accepted(topic_id),
            ),
        )

    async def close(self) -> None:
        self.is_closed = True

    # -- what a test does --------------------------------------------------------------------------

    @contextmanager
    def here(self) -> Iterator[None]:
        """Let a step of the test itself read the disk, as no step of a broker may."""
        files, before = self._loop_files, self._loop_files.is_forbidden
        files.is_forbidden = False
        try:
            yield
        finally:
            files.is_forbidden = before

    def work(self) -> bool:
        """Do what is not held; whether there was anything."""
        return any([self._commit(), self._change(), self._read()])

    def _commit(self) -> bool:
        if self.holds_journal or not self.store.journal.is_waiting:
            return False
        commits = self.store.journal.commit()
        self._around(partial(self.store.journal.finish, commits))
        return bool(commits)

    def _change(self) -> bool:
        return not self.holds_catalog and self.change_one()

    def change_one(self) -> bool:
        """Make the oldest change of the catalog that waits; whether there was one."""
        if not self._changes:
            return False
        call = self._changes.popleft()
        try:
            with self.store.catalog.transaction():
                result = call.change(self.store.catalog)
        except Exception as error:
            self._loop.call_soon(call.settle, None, error)
        else:
            self._loop.call_soon(call.settle, result, None)
        return True

    def _read(self) -> bool:
        if self.holds_reads or not self._reads:
            return False
        return self.release_read()

    def release_read(self) -> bool:
        """Let the oldest read that is under way come back; whether there was one."""
        if not self._reads:
            return False
        gate = self._reads.popleft()
        self.reads_held -= 1
        if not gate.done():
            gate.set_result(None)
        return True
