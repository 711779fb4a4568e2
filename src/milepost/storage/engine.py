"""The store on real threads: what the broker awaits.

The broker's loop decides; three kinds of threads perform: the journal's own (committer.py), which commits
groups; one for the catalog, which puts everything that waits into one transaction; and a few for files
(catch-up reads, checkpoints). Results come back to the loop in the order in which they were decided.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.clock import Clock
from milepost.errors import CorruptData, PersistenceError
from milepost.storage import interface
from milepost.storage.catalog.catalog import Catalog, TopicRow
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.files import Files, RealFiles
from milepost.storage.journal.committer import AnyCommitter, Committer, told
from milepost.storage.journal.journal import Journal
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import Ledger, ReadPlan
from milepost.storage.ledgers.log import Log
from milepost.storage.ledgers.loss import Loss, Shortage
from milepost.storage.ledgers.paging import LoopDisk, LoopFiles
from milepost.storage.lock import DirectoryLock, make_directory
from milepost.storage.store import Store

if TYPE_CHECKING:
    from milepost.storage.bucket.watched import WatchedObjects

logger = logging.getLogger(__name__)
T = TypeVar("T")

FILE_THREADS = 4
# How long a checkpoint may be put off when little is written.
CHECKPOINT_INTERVAL_S = 60.0
# After a checkpoint failed (a full disk, say), wait this long before the next attempt.
CHECKPOINT_RETRY_S = 5.0


def open_store(root: Path, clock: Clock, **options: Any) -> tuple[Store, DirectoryLock]:
    """Lock a data directory, made if need be, and recover what is in it. Blocks."""
    make_directory(root)
    lock = DirectoryLock(root)
    try:
        catalog = SqliteCatalog(root / CATALOG_FILE)
        try:
            return Store(RealFiles(root), catalog, clock, **options), lock
        except BaseException:
            catalog.close()
            raise
    except BaseException:
        lock.release()
        raise


class StorageEngine(LoopDisk):
    """A store, its threads, and the loop they report to. Made and used on that loop."""

    _folds_at_close = True
    """Is a checkpoint made at the end, so that the next start has nothing to replay?"""
    _file_thread_count = FILE_THREADS

    def __init__(
        self, store: Store, lock: DirectoryLock | None = None, shortcut: Shortcut | None = None
    ) -> None:
        """`shortcut` says when the loop may commit by itself."""
        self.store = store
        self._files = store.files
        self._loop_files = store.files = LoopFiles(store.files)
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._file_threads = ThreadPoolExecutor(self._file_thread_count, thread_name_prefix="files")
        # The newest one. Invariant: at most one runs, and it is never cancelled: threads cannot be
        # called back, and two that write to one file would cut each other off.
        self._checkpoint: asyncio.Task[None] | None = None
        self._on_checkpoint: Callable[[], None] = lambda: None
        self._retry: asyncio.TimerHandle | None = None
        self._is_closing = False
        self.checkpoint_failure: str | None = None
        """Why the last checkpoint failed as a whole; None if it did not."""
        self.checkpoint_failures = 0
        # Changes that run to their end even if their caller gives up.
        self._changes: set[asyncio.Task[Any]] = set()
        self._ticker = self._loop.call_later(CHECKPOINT_INTERVAL_S, self._tick)
        self._catalog_queue: SimpleQueue[CatalogCall | None] = SimpleQueue()
        self._catalog_thread = threading.Thread(
            target=self._serve_catalog, name="catalog", daemon=True
        )
        self._catalog_thread.start()
        self._failure: str | None = None
        self._on_fatal: Callable[[str], None] = lambda reason: None
        self._on_error: Callable[[str, BaseException], None] = told
        self._on_lapse: Callable[[], None] = lambda: None
        self.committer = self._begin_committing(shortcut or Shortcut())

    # -- the journal -------------------------------------------------------------------------------

    def _begin_committing(self, shortcut: Shortcut) -> AnyCommitter:
        journal = self.store.journal
        assert isinstance(journal, Journal), f"{journal} is of another storage"
        return Committer(journal, self.store.clock, shortcut, self._committed, self._aside)

    def before_commit(self, work: Callable[[], None]) -> None:
        """Call `work`, which submits something, at the end of this turn of the loop."""
        self.committer.before_commit(work)

    @property
    def failure(self) -> str | None:
        """Why the storage cannot go on in this process; None while it can."""
        return self.committer.failure or self._failure

    def watch(
        self,
        on_error: Callable[[str, BaseException], None] | None = None,
        on_fatal: Callable[[str], None] | None = None,
        on_checkpoint: Callable[[], None] | None = None,
        on_lapse: Callable[[], None] | None = None,
    ) -> None:
        """Tell of errors that no code foresaw: with their place if they cost nothing else, or with the
        reason why the storage cannot go on. Tell of each checkpoint: memory held for it is free. And
        tell when clients may not be served any more."""
        if on_checkpoint is not None:
            self._on_checkpoint = on_checkpoint
        if on_lapse is not None:
            self._on_lapse = on_lapse
        if on_error is not None:
            self._on_error = self.committer.on_error = on_error
        if on_fatal is not None:
            self._on_fatal = self.committer.on_fatal = on_fatal
            if self.failure is not None:
                on_fatal(self.failure)

    @property
    def idle_s(self) -> float:
        return 0.0

    @property
    def epoch(self) -> int:
        return 0

    @property
    def may_serve(self) -> bool:
        return True

    async def prove_claim(self) -> None:
        """No other broker can have the directory: it is locked."""

    @property
    def bucket(self) -> WatchedObjects | None:
        return None

    def _committed(self) -> None:
        if self.store.checkpoint_is_due:
            self._start_checkpoint()

    def answer_within(self, around: Callable[[Callable[[], None]], None]) -> None:
        """Let `around` be called with what answers a commit; it does that, and more if it likes."""
        self.committer.around = around

    def _aside(self, work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the threads are gone, the last commits go without
            self._file_threads.submit(self._laid, work)

    def _laid(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_error, "runway", error)

    async def flush(self) -> None:
        """Return when everything submitted so far is durable."""
        if self.failure is not None:
            raise PersistenceError(self.failure)
        done = self._loop.create_future()

        def rolled(error: PersistenceError | None) -> None:
            if not done.done():
                done.set_exception(error) if error else done.set_result(None)

        self.store.barrier(rolled)
        await done

    # -- the catalog's thread ----------------------------------------------------------------------

    async def catalog(
        self,
        change: Callable[[Catalog], T],
        then: Callable[[T], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> T:
        """Run `change` in a transaction of its own; durable when this returns (`ChangeCatalog`)."""
        if self._failure is not None:
            raise PersistenceError(self._failure)
        call = CatalogCall(change, self._loop.create_future(), then, undo)
        self._catalog_queue.put(call)
        result: T = await call.future
        return result

    def _serve_catalog(self) -> None:
        while (call := self._catalog_queue.get()) is not None:
            calls = [call]
            while not self._catalog_queue.empty():
                more = self._catalog_queue.get()
                if more is None:
                    self._catalog_queue.put(None)
                    break
                calls.append(more)
            try:
                self._change_catalog(calls)
            except BaseException as error:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._break, calls, error)
                return

    def _break(self, calls: list[CatalogCall], error: BaseException) -> None:
        """Without the catalog's thread no request would be answered again."""
        reason = self._give_up("the catalog cannot go on", error)
        settle([(call, None, PersistenceError(reason)) for call in calls])

    def _give_up(self, what: str, error: BaseException) -> str:
        self._failure = f"{what}: {type(error).__name__}: {error}"
        logger.critical(self._failure, exc_info=error)
        self._on_fatal(self._failure)
        return self._failure

    def _change_catalog(self, calls: list[CatalogCall]) -> None:
        catalog = self.store.catalog
        outcomes: list[CatalogOutcome] = []
        try:
            with catalog.transaction():
                for call in calls:
                    try:
                        with catalog.transaction():
                            result = call.change(catalog)
                    except Exception as error:
                        outcomes.append((call, None, error))
                    else:
                        outcomes.append((call, result, None))
        except Exception as error:
            # Whatever it is: without this thread no call would be answered again.
            outcomes = [(call, None, error) for call in calls]
        self._tell(outcomes)

    def _tell(self, outcomes: list[CatalogOutcome]) -> None:
        """Answer the callers of a transaction that is over. On the catalog's thread."""
        with suppress(RuntimeError):  # the loop is gone, and with it the callers
            self._loop.call_soon_threadsafe(settle, outcomes)

    # -- files -------------------------------------------------------------------------------------

    async def read(self, plan: ReadPlan) -> list[Entry]:
        """Perform a read; at once if the bytes are in memory."""
        if plan.data is not None:
            return plan.perform(self._files)
        try:
            return await self.perform(plan.perform)
        except Shortage as shortage:
            await self._undisturbed(note_loss(self, plan.ledger, shortage))
            raise

    @property
    def loop_files(self) -> LoopFiles:
        return self._loop_files

    async def perform(self, work: Callable[[Files], T]) -> T:
        return await self._loop.run_in_executor(self._file_threads, work, self._files)

    async def trim(self, log: interface.Log, before_index: int) -> int:
        """Drop ledgers that lie wholly before an index; returns how many."""
        assert isinstance(log, Log), f"{log} is of another storage"
        return await self._undisturbed(self._trim(log, before_index))

    async def _trim(self, log: Log, before_index: int) -> int:
        ledgers = list(log.trimmable(before_index))
        if ledgers:
            ids = [ledger.ledger_id for ledger in ledgers]
            sequence = self.store.journal.last_sequence
            await self.catalog(lambda catalog: catalog.delete_ledgers(ids, sequence))
            # Another trim may have come first with some of them, or with all and more.
            ledgers = [ledger for ledger in ledgers if not ledger.is_gone]
            self.store.trimmed(log, ledgers)
            await self._loop.run_in_executor(self._file_threads, self.store.delete_files, ledgers)
        return len(ledgers)

    async def delete_topic(
        self,
        topic: TopicRow,
        log: interface.Log,
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Delete a topic with its ledgers and states. `beside` changes the catalog with it; `then` is called
        when that is durable, also if the caller is gone.

        The caller must not submit facts of its states any more: behind the tombstones they would be
        taken for damage. The log sees to that itself.
        """
        await self.delete_topics([(topic, log)], beside, then)

    async def delete_topics(
        self,
        topics: Sequence[tuple[TopicRow, interface.Log]],
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        going: list[tuple[int, Log]] = []
        for topic, log in topics:
            assert isinstance(log, Log), f"{log} is of another storage"
            log.is_deleted = True
            going.append((topic.topic_id, log))
        sequence = self.store.journal.last_sequence
        await self._undisturbed(self._delete_topics(going, sequence, beside, then))

    async def _delete_topics(
        self,
        topics: Sequence[tuple[int, Log]],
        sequence: int,
        beside: Callable[[Catalog], None],
        then: Callable[[], None],
    ) -> None:
        doomed = [(topic_id, log.ledger_ids) for topic_id, log in topics]

        def change(catalog: Catalog) -> list[list[int]]:
            states = []
            for topic_id, ledger_ids in doomed:
                states.append([state.state_id for state in catalog.states(topic_id)])
                catalog.delete_topic(topic_id, sequence, ledger_ids)
            beside(catalog)
            return states

        try:
            states = await self.catalog(change, lambda _: then())
        except BaseException:
            for _, log in topics:
                log.is_deleted = False
            raise
        ledgers = [ledger for _, log in topics for ledger in log.ledgers]
        for (_, log), of_topic in zip(topics, states, strict=True):
            self.store.deleted(log, of_topic)
        await self._loop.run_in_executor(self._file_threads, self.store.delete_files, ledgers)

    async def accept_loss(self, topic_id: int) -> list[Loss]:
        """Let a topic go on without what it has lost; what that is.

        The files are filled up first: the next start would take a short one for a new loss.
        """
        await self.checkpoint()
        if topic_id in self.store.unfilled:
            raise PersistenceError(
                f"the ledgers of topic {topic_id} cannot be written: "
                f"{self.store.unfilled[topic_id]}"
            )
        return await self.catalog(
            lambda catalog: catalog.accept_losses(topic_id),
            lambda _: self.store.losses_accepted(topic_id),
        )

    async def _undisturbed(self, change: Coroutine[Any, Any, T]) -> T:
        """Run a change to its end even if the caller is cancelled: half a change is worse than none."""
        task = self._loop.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    # -- checkpoints -------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(CHECKPOINT_INTERVAL_S, self._tick)
        if self._has_news:
            self._start_checkpoint()

    @property
    def _has_news(self) -> bool:
        """Is there something for a checkpoint to write?"""
        return self.store.is_dirty

    def _start_checkpoint(self) -> None:
        if self.failure is not None:
            return
        if self._retry is None and (self._checkpoint is None or self._checkpoint.done()):
            self._checkpoint = self._loop.create_task(self._try_checkpoint())

    async def _try_checkpoint(self) -> None:
        try:
            await self._fold()
        except Exception as error:
            # Nothing is lost: the journal has it all, and grows until a checkpoint succeeds.
            logger.warning("checkpoint failed, will be tried again: %s", error)
            self._retry_after(CHECKPOINT_RETRY_S)

    def _retry_after(self, seconds: float) -> None:
        if self._retry is None and not self._is_closing:
            self._retry = self._loop.call_later(seconds, self._retry_checkpoint)

    def _retry_checkpoint(self) -> None:
        self._retry = None
        self._start_checkpoint()

    async def checkpoint(self) -> None:
        """Fold the journal into ledgers and catalog. It goes on if the caller gives up."""
        while self._checkpoint is not None and not self._checkpoint.done():
            await asyncio.wait([self._checkpoint])
        self._checkpoint = self._loop.create_task(self._fold())
        await asyncio.shield(self._checkpoint)

    async def _fold(self) -> None:
        try:
            plan = await self._perform()
            await self._recorded()
        except Exception as error:
            self.checkpoint_failure = f"{type(error).__name__}: {error}"
            self.checkpoint_failures += 1
            raise
        self.checkpoint_failure = None
        self._on_checkpoint()
        await self.perform(plan.drop_journal)
        if plan.losses:
            self._retry_after(0)  # they are recorded now: what is lost can be filled up
        elif plan.keeps_journal:
            self._retry_after(CHECKPOINT_RETRY_S)

    async def _perform(self) -> Checkpoint:
        store = self.store
        planned: asyncio.Future[Checkpoint | PersistenceError] = self._loop.create_future()
        store.begin_checkpoint(planned.set_result)
        plan = await planned
        if isinstance(plan, PersistenceError):
            raise plan
        try:
            # Before a file is touched: is the outcome of the last one certain?
            await self.catalog(lambda catalog: None)
            await self.perform(plan.flush)
            await self._flushed(plan)
            await self.catalog(partial(self._record, plan))
        except BaseException as error:
            store.finish_checkpoint(plan, error)
            raise
        try:
            store.finish_checkpoint(plan, None)
        except Exception as error:
            # Trying it again would cut ledgers that the catalog counts on now.
            self._give_up("a checkpoint is recorded and cannot be finished", error)
            raise
        return plan

    async def _flushed(self, plan: Checkpoint) -> None:
        """The files of a checkpoint are written; the catalog does not count on them yet."""

    def _record(self, plan: Checkpoint, catalog: Catalog) -> None:
        plan.record(catalog)

    async def _recorded(self) -> None:
        """A checkpoint has happened; the journal that it makes superfluous is still there."""

    async def close(self) -> None:
        """Fold everything in, stop the threads, give the directory back."""
        self._is_closing = True
        self._ticker.cancel()
        if self._retry is not None:
            self._retry.cancel()
        try:
            if self.failure is not None:
                raise PersistenceError(self.failure)
            await self.flush()
            if self._changes:
                await asyncio.wait(self._changes)
            if self._checkpoint is not None:
                await asyncio.wait([self._checkpoint])
            if self.store.is_dirty and self._folds_at_close:
                await self.checkpoint()
        except (PersistenceError, OSError) as error:
            logger.warning("closing without a checkpoint, the next start replays: %s", error)
        finally:
            self._catalog_queue.put(None)
            self._file_threads.shutdown()
            self._catalog_thread.join()
            self.committer.stop()
            self.store.journal.close()
            self.store.catalog.close()
            if self._lock is not None:
                self._lock.release()


async def note_loss(engine: StorageEngine, ledger: Ledger, shortage: Shortage) -> None:
    """A read met a file that has lost bytes: remember what is gone, so that the topic takes no messages
    until an operator accepts it."""
    store = engine.store
    if store.is_known_short(ledger):
        return
    # What the catalog knows of it, for a thread of its own: the loop goes on with its rows.
    row, now_ms = ledger.stored, store.clock.wall_ms()
    try:
        loss = await engine.perform(
            lambda files: Ledger(row).loss(shortage.found, shortage.reason, now_ms, files)
        )
    except (CorruptData, OSError) as error:  # it cannot be told from where on
        reason = f"{shortage.reason}; {error}"
        loss = Loss(row.ledger_id, row.first_index, row.end_index, reason, now_ms)
    if store.is_known_short(ledger):
        return  # another read met it too
    await engine.catalog(
        lambda catalog: catalog.put_loss(row.topic_id, loss),
        lambda _: None if store.is_known_short(ledger) else store.lost(row.topic_id, loss),
    )


class CatalogCall:
    __slots__ = ("change", "future", "then", "undo")

    def __init__(
        self,
        change: Callable[[Catalog], Any],
        future: asyncio.Future[Any],
        then: Callable[[Any], None] | None,
        undo: Callable[[], None] | None,
    ) -> None:
        self.change = change
        self.future = future
        self.then = then
        self.undo = undo

    def settle(self, result: Any, error: BaseException | None) -> None:
        """Tell what came of it."""
        try:
            if error is None and self.then is not None:
                self.then(result)
            elif error is not None and self.undo is not None:
                self.undo()
        except Exception as failure:  # the others are told all the same
            error = error or failure
        if self.future.done():  # cancelled by the caller; the change has happened all the same
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


CatalogOutcome = tuple[CatalogCall, Any, BaseException | None]
"""A call, its result, or the error that ended it."""


def settle(outcomes: list[CatalogOutcome]) -> None:
    """Tell the callers, in order, what came of their changes."""
    for call, result, error in outcomes:
        call.settle(result, error)
