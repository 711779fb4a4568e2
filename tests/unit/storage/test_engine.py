"""The engine: the store's steps on real threads, told back to the loop in order."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from stage.acksets import is_clean

from milepost.errors import (
    AlreadyExists,
    CorruptData,
    DataDirectoryLocked,
    DiskFull,
    PersistenceError,
    TopicNotFound,
)
from milepost.storage import engine as engine_module
from milepost.storage.catalog.catalog import Catalog, TopicRow
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.journal.journal import file_name
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.ledgers.entry import NewEntry
from milepost.storage.ledgers.ledger import ledger_path
from milepost.storage.ledgers.log import Log, RollPolicy
from milepost.storage.store import Store
from milepost.testing import ManualClock, MemoryFiles

NOW_MS = 1_700_000_000_000


class Bench:
    """An engine on a disk in memory."""

    def __init__(
        self, files: MemoryFiles, shortcut: Shortcut | None = None, ahead: int = 0
    ) -> None:
        self.files = files
        self.catalog = SqliteCatalog(None)
        self.store = Store(
            files,
            self.catalog,
            ManualClock(),
            roll_policy=RollPolicy(entries_max=2),
            tail_size_max=0,
            journal_ahead=ahead,
        )
        self.engine = StorageEngine(self.store, shortcut=shortcut)
        self.answers: list[PersistenceError | None] = []

    async def topic(self, name: str) -> tuple[TopicRow, Log]:
        row = await self.engine.catalog(lambda catalog: catalog.create_topic(name, {}))
        return row, self.store.log(row)

    def append(self, log: Log, count: int = 1) -> None:
        for _ in range(count):
            log.append([NewEntry(b"payload")], NOW_MS, self.answers.append)

    async def stored(self, log: Log, count: int = 1) -> None:
        self.append(log, count)
        await self.engine.flush()

    def reopened(self) -> Store:
        return Store(self.files, SqliteCatalog(None, image=self.catalog.image()), ManualClock())


def open_shortcut() -> Shortcut:
    """One that lets everything small pass, from the first commit on."""
    shortcut = Shortcut()
    for _ in range(20):
        shortcut.took(0.0, 0.0, on_loop=False)
    return shortcut


def run(
    test: Callable[[Bench], Awaitable[None]],
    files: MemoryFiles | None = None,
    shortcut: Shortcut | None = None,
    ahead: int = 0,
) -> Bench:
    """Run the test on an engine of its own; the bench, closed."""
    benches: list[Bench] = []

    async def on_loop() -> None:
        bench = Bench(files or MemoryFiles(), shortcut, ahead)
        bench.catalog.close = lambda: None  # type: ignore[method-assign]  # looked into below
        benches.append(bench)
        try:
            await test(bench)
        finally:
            bench.files.on_sync = None
            await bench.engine.close()

    asyncio.run(on_loop())
    return benches[0]


both_ways = pytest.mark.parametrize(
    "shortcut", [open_shortcut, lambda: Shortcut(0.0)], ids=["short", "thread"]
)


class TestJournal:
    @both_ways
    def test_a_runway_is_laid_beside_the_commits(self, shortcut: Callable[[], Shortcut]) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            async with asyncio.timeout(30):
                while not bench.files.faults.calls["lay"]:
                    await bench.stored(log)
            await bench.stored(log, 20)
            assert None in bench.answers
            assert set(bench.answers) == {None}
            reopened = bench.reopened()
            assert reopened.log(reopened.catalog.topics()[0]).end_index == len(bench.answers)
            assert reopened.report.cut_bytes == 0

        assert run(test, shortcut=shortcut(), ahead=1 << 18).files.violations == []

    @both_ways
    def test_what_is_answered_is_durable(self, shortcut: Callable[[], Shortcut]) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 5)
            assert bench.answers == [None] * 5
            assert log.end_index == 5

        bench = run(test, shortcut=shortcut())
        store = bench.reopened()
        assert is_clean(store.report)
        assert [store.log(topic).end_index for topic in store.catalog.topics()] == [5]
        assert bench.files.open_paths == [file_name(store.journal.number)]

    def test_nothing_is_answered_while_the_disk_takes_its_time(self) -> None:
        gate = threading.Event()

        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            syncing = asyncio.Event()
            loop = asyncio.get_running_loop()

            def wait(path: str) -> None:
                loop.call_soon_threadsafe(syncing.set)
                gate.wait()

            bench.files.on_sync = wait
            bench.append(log)
            await syncing.wait()
            bench.append(log, 3)
            await asyncio.sleep(0)
            assert (bench.answers, log.end_index, log.next_index) == ([], 0, 4)
            gate.set()
            await bench.engine.flush()
            assert (bench.answers, log.end_index) == ([None] * 4, 4)
            assert bench.store.journal.commits <= 4

        run(test, shortcut=Shortcut(0.0))

    @both_ways
    def test_a_failed_flush_says_so(self, shortcut: Callable[[], Shortcut]) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            bench.files.faults.fail("append")
            bench.append(log)
            with pytest.raises(PersistenceError, match="behind a write that failed"):
                await bench.engine.flush()
            assert len(bench.answers) == 1
            assert bench.answers[0] is not None
            await bench.stored(log)
            assert (bench.answers[-1], log.end_index) == (None, 1)

        run(test, shortcut=shortcut())


class TestCatalog:
    def test_what_waits_shares_a_transaction_and_fails_alone(self) -> None:
        async def test(bench: Bench) -> None:
            def create(name: str) -> Awaitable[TopicRow]:
                return bench.engine.catalog(lambda catalog: catalog.create_topic(name, {}))

            results = await asyncio.gather(
                create("a"), create("b"), create("a"), create("c"), return_exceptions=True
            )
            assert [type(result) for result in results] == [
                TopicRow,
                TopicRow,
                AlreadyExists,
                TopicRow,
            ]
            assert [topic.name for topic in bench.catalog.topics()] == ["a", "b", "c"]

        run(test)

    def test_a_mistake_is_told_and_the_next_is_served(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def test(bench: Bench) -> None:
            def broken() -> None:
                raise RuntimeError("a mistake")

            with monkeypatch.context() as patch:
                patch.setattr(bench.catalog, "transaction", broken)
                with pytest.raises(RuntimeError, match="a mistake"):
                    await bench.engine.catalog(lambda catalog: None)
            assert await bench.engine.catalog(lambda catalog: catalog.topics()) == []

        run(test)

    def test_one_that_is_given_up_happens_all_the_same(self) -> None:
        async def test(bench: Bench) -> None:
            entered, gate = threading.Event(), threading.Event()

            def slow(catalog: Catalog) -> None:
                entered.set()
                gate.wait()
                catalog.put_doc("f", "n", {})

            waiting = asyncio.create_task(bench.engine.catalog(slow))
            await asyncio.to_thread(entered.wait)
            waiting.cancel()
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await bench.engine.catalog(lambda catalog: catalog.doc("f", "n")) == {}

        run(test)


class TestReads:
    def test_from_memory_and_from_files(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 2)
            position = log.locate(0).position
            plan = log.plan_read(position)
            assert plan.data is not None
            assert len(await bench.engine.read(plan)) == 2
            await bench.engine.checkpoint()
            plan = log.plan_read(position)
            assert plan.data is None
            assert [bytes(e.payload) for e in await bench.engine.read(plan)] == [b"payload"] * 2

        run(test)


class TestTrimsAndDeletions:
    def test_a_trim_drops_rows_and_files(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 6)
            await bench.engine.checkpoint()
            assert len(bench.files.names("ledgers")) == 6
            assert await bench.engine.trim(log, 4) == 2
            assert (log.first_index, log.end_index) == (4, 6)
            assert len(bench.files.names("ledgers")) == 2
            assert await bench.engine.trim(log, 4) == 0

        bench = run(test)
        store = bench.reopened()
        assert store.log(store.catalog.topics()[0]).first_index == 4

    def test_two_trims_at_once_drop_no_more_than_either_asked_for(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 8)
            dropped = await asyncio.gather(bench.engine.trim(log, 4), bench.engine.trim(log, 4))
            assert (sum(dropped), log.first_index) == (2, 4)

        run(test)

    def test_a_trim_whose_caller_gave_up_is_whole(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 6)
            await bench.engine.checkpoint()
            trim = asyncio.create_task(bench.engine.trim(log, 4))
            await asyncio.sleep(0)
            trim.cancel()
            with pytest.raises(asyncio.CancelledError):
                await trim

        bench = run(test)
        assert len(bench.files.names("ledgers")) == 2
        assert len(bench.catalog.ledgers(1)) == 1

    def test_a_topic_takes_nothing_from_the_moment_its_deletion_begins(self) -> None:
        """What came behind its tombstone would be taken for damage at the next start."""

        async def test(bench: Bench) -> None:
            row, log = await bench.topic("a")
            _, other = await bench.topic("b")
            bench.append(log)
            deletion = asyncio.create_task(bench.engine.delete_topic(row, log))
            await asyncio.sleep(0)
            with pytest.raises(TopicNotFound, match="a is deleted"):
                bench.append(log)
            await deletion
            await bench.stored(other)
            await bench.engine.checkpoint()
            await bench.stored(other)

        bench = run(test)
        store = bench.reopened()
        assert [(t.name, store.log(t).end_index) for t in store.catalog.topics()] == [("b", 2)]

    def test_a_deletion_that_failed_leaves_the_topic_as_it_was(self) -> None:
        async def test(bench: Bench) -> None:
            row, log = await bench.topic("a")
            await bench.stored(log)
            missing = row._replace(topic_id=99)
            with pytest.raises(TopicNotFound):
                await bench.engine.delete_topic(missing, log)
            await bench.stored(log)
            assert log.end_index == 2

        run(test)


class TestCheckpoints:
    def test_one_begins_when_the_journal_has_grown(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            bench.store.journal_size_max = 1_000
            done = asyncio.Event()
            bench.engine.watch(on_checkpoint=done.set)
            await bench.stored(log, 20)
            await done.wait()
            assert bench.store.checkpoints >= 1

        assert not run(test).files.exists(file_name(1))

    def test_one_that_failed_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine_module, "CHECKPOINT_RETRY_S", 0.0)

        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            bench.files.faults.fail("create", 1, error=errno.ENOSPC, under="ledgers")
            bench.files.faults.fail("append", 1, error=errno.ENOSPC, under="ledgers")
            done = asyncio.Event()
            bench.engine.watch(on_checkpoint=done.set)
            await bench.stored(log)
            bench.engine._start_checkpoint()
            await done.wait()
            assert len(bench.files.faults.fired) == 2

        run(test)

    def test_one_whose_caller_gave_up_goes_on(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 3)
            waiting = asyncio.create_task(bench.engine.checkpoint())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await bench.stored(log)
            await bench.engine.checkpoint()
            assert bench.store.checkpoints == 2

        assert is_clean(run(test).reopened().report)

    def test_closing_on_a_full_disk_loses_nothing(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log, 3)
            bench.files.capacity = bench.files.used_bytes
            bench.append(log)
            with pytest.raises(PersistenceError):
                await bench.engine.flush()
            assert isinstance(bench.answers[-1], DiskFull)

        bench = run(test)
        bench.files.capacity = None
        store = bench.reopened()
        assert store.log(store.catalog.topics()[0]).end_index == 3
        assert not is_clean(store.report)


class TestOpening:
    def test_a_directory_is_made_used_and_given_back(self, tmp_path: Path) -> None:
        root = tmp_path / "new" / "data"

        async def use() -> None:
            engine = StorageEngine(*open_store(root, ManualClock()))
            row = await engine.catalog(lambda catalog: catalog.create_topic("a", {}))
            engine.store.log(row).append([NewEntry(b"x")], NOW_MS, lambda error: None)
            await engine.close()

        asyncio.run(use())
        assert root.stat().st_mode & 0o777 == 0o700
        store, lock = open_store(root, ManualClock())
        assert is_clean(store.report)
        assert store.log(store.catalog.topics()[0]).end_index == 1
        store.close()
        lock.release()

    def test_a_second_process_is_refused(self, tmp_path: Path) -> None:
        store, lock = open_store(tmp_path, ManualClock())
        script = (
            "import sys; from pathlib import Path; from milepost.clock import SystemClock\n"
            "from milepost.storage.engine import open_store\n"
            "open_store(Path(sys.argv[1]), SystemClock())"
        )
        second = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True
        )
        assert second.returncode != 0
        assert f"DataDirectoryLocked: data directory {tmp_path} is in use by process" in (
            second.stderr
        )
        assert f"process {os.getpid()}" in second.stderr
        with pytest.raises(DataDirectoryLocked):
            open_store(tmp_path, ManualClock())
        store.close()
        lock.release()

    def test_what_cannot_be_opened_is_given_back(self, tmp_path: Path) -> None:
        store, lock = open_store(tmp_path, ManualClock())
        store.close()
        lock.release()
        journal = tmp_path / file_name(store.journal.number)
        journal.rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(CorruptData, match="missing, recovery needs it"):
                open_store(tmp_path, ManualClock())
        (tmp_path / "away").rename(journal)
        store, lock = open_store(tmp_path, ManualClock())
        store.close()
        lock.release()


class TestLosses:
    def test_a_ledger_cut_while_the_broker_runs_costs_its_own_topic(self) -> None:
        async def test(bench: Bench) -> None:
            cut, well = [(await bench.topic(name))[1] for name in ("cut", "well")]
            for log in (cut, well):
                await bench.stored(log)
            await bench.engine.checkpoint()
            path = ledger_path(cut.ledgers[0].ledger_id)
            bench.files.damage(path, bench.files.contents()[path][:-1])
            for log in (cut, well):
                await bench.stored(log)
            done = asyncio.Semaphore(0)
            bench.engine.watch(on_checkpoint=done.release)
            await bench.engine.checkpoint()
            for _ in range(2):  # the second one comes by itself, and fills the place up
                await asyncio.wait_for(done.acquire(), 10)
            assert bench.engine.checkpoint_failure is None
            assert cut.loss is not None
            await bench.stored(well)
            await bench.engine.checkpoint()
            assert len(bench.files.names("journal")) == 1, "nothing waits for the damaged one"
            (loss,) = await bench.engine.accept_loss(cut.topic_id)
            assert (loss.first_index, loss.end_index) == (0, 1)
            await bench.stored(cut)
            assert cut.end_index == 3

        run(test)

    def test_a_checkpoint_that_fails_is_told_and_counted(self) -> None:
        async def test(bench: Bench) -> None:
            _, log = await bench.topic("a")
            await bench.stored(log)
            bench.files.faults.fail("create", error=errno.ENOSPC, under="ledgers")
            with pytest.raises(OSError, match="No space"):
                await bench.engine.checkpoint()
            assert "No space left" in str(bench.engine.checkpoint_failure)
            assert bench.engine.checkpoint_failures == 1
            await bench.engine.checkpoint()
            assert bench.engine.checkpoint_failure is None

        run(test)
