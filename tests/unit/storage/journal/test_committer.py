"""The committer: one turn, on the loop or with the thread, and answers in order on either way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from milepost.errors import PersistenceError
from milepost.storage.journal.committer import Committer
from milepost.storage.journal.journal import FOLDER, Journal, file_name
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.journal.records import FACT
from milepost.testing import ManualClock, MemoryFiles


class Decided(Shortcut):
    """A shortcut that is open or closed as a test wants it."""

    def __init__(self, is_open: bool) -> None:
        super().__init__()
        self.is_open = is_open
        self.closings = 0

    def allows(self, now: float, cpu_s: Callable[[], float], count: int, size: int) -> bool:
        return self.is_open

    def close(self, now: float) -> None:
        self.closings += 1


class Watched(Journal):
    """A journal that tells when the thread has looked whether anything waits, and found nothing."""

    on_nothing: Callable[[], None] | None = None

    @property
    def is_waiting(self) -> bool:
        found = super().is_waiting
        if not found and self.on_nothing and threading.current_thread().name == "journal":
            told, self.on_nothing = self.on_nothing, None
            told()
        return found


class Desk:
    """A journal on a disk in memory, its committer, and the answers that came."""

    def __init__(self, is_open: bool) -> None:
        self.files = MemoryFiles(folders=[FOLDER])
        self.shortcut = Decided(is_open)
        self.journal = Watched(
            self.files,
            bytes(16),
            previous_file=0,
            previous_size=0,
            file_number=1,
            next_sequence=1,
        )
        self.finished = 0
        self.aside: list[Callable[[], None]] = []
        self.committer = Committer(
            self.journal, ManualClock(), self.shortcut, self._count, self.aside.append
        )
        self.answers: list[tuple[str, PersistenceError | None]] = []
        self.threads: list[str] = []
        self.files.on_sync = lambda path: self.threads.append(threading.current_thread().name)

    def _count(self) -> None:
        self.finished += 1

    def submit(self, *names: str) -> None:
        for name in names:
            self.journal.submit(FACT, 7, (name.encode(),), self.done(name))

    def done(self, name: str) -> Callable[[PersistenceError | None], None]:
        return lambda error: self.answers.append((name, error))

    @property
    def stored(self) -> list[str]:
        return [name for name, error in self.answers if error is None]

    async def settle(self) -> PersistenceError | None:
        """Wait until everything submitted so far was answered; what was wrong with the last of it."""
        done: asyncio.Future[PersistenceError | None] = asyncio.get_running_loop().create_future()
        self.journal.barrier(done.set_result)
        return await asyncio.wait_for(done, 30)


def run(is_open: bool, test: Callable[[Desk], Awaitable[None]]) -> Desk:
    desks: list[Desk] = []

    async def on_loop() -> None:
        desk = Desk(is_open)
        desks.append(desk)
        try:
            await test(desk)
        finally:
            desk.committer.stop()
            desk.journal.close()

    asyncio.run(on_loop())
    return desks[0]


both_ways = pytest.mark.parametrize("is_open", [True, False], ids=["short", "thread"])


@both_ways
def test_what_a_turn_of_the_loop_submits_is_one_group(is_open: bool) -> None:
    async def test(desk: Desk) -> None:
        desk.submit("a", "b", "c")
        assert desk.answers == []
        await desk.settle()
        assert desk.stored == ["a", "b", "c"]

    desk = run(is_open, test)
    assert desk.journal.commits == 1
    assert len(desk.threads) == 1
    assert (desk.threads[0] == "journal") is not is_open
    assert desk.journal.commits_on_loop == (1 if is_open else 0)
    assert desk.finished == 1  # the barrier went with them


@both_ways
def test_what_submits_before_the_commit_is_part_of_its_group(is_open: bool) -> None:
    async def test(desk: Desk) -> None:
        desk.committer.before_commit(lambda: desk.submit("b"))
        desk.submit("a")
        desk.committer.before_commit(lambda: desk.committer.before_commit(lambda: desk.submit("c")))
        await asyncio.sleep(0)  # one turn, in which all of it happens that the loop does
        if not is_open:
            await desk.settle()
        assert desk.stored == ["a", "b", "c"]

    desk = run(is_open, test)
    assert desk.journal.commits == 1


def test_what_would_submit_before_a_commit_need_not_wait_for_the_thread() -> None:
    async def test(desk: Desk) -> None:
        synced = threading.Event()
        desk.files.on_sync = lambda path: synced.wait(30) and None
        desk.submit("a")
        await asyncio.sleep(0)  # now the thread has the turn
        desk.committer.before_commit(lambda: desk.submit("b"))
        await asyncio.sleep(0)
        assert desk.journal.is_waiting
        synced.set()
        await desk.settle()
        assert desk.stored == ["a", "b"]

    run(False, test)


def test_work_that_breaks_down_before_a_commit_keeps_none_from_it() -> None:
    async def test(desk: Desk) -> None:
        errors: list[str] = []
        desk.committer.on_error = lambda place, error: errors.append(f"{place}: {error!r}")
        desk.committer.before_commit(lambda: [][0])
        desk.committer.before_commit(lambda: desk.submit("a"))
        await asyncio.sleep(0)
        assert desk.stored == ["a"]
        assert errors == ["commit: IndexError('list index out of range')"]
        desk.submit("b")
        await asyncio.sleep(0)
        assert desk.stored == ["a", "b"]

    run(True, test)


@both_ways
def test_answers_may_submit_more(is_open: bool) -> None:
    async def test(desk: Desk) -> None:
        ended = asyncio.get_running_loop().create_future()

        def again(left: int) -> None:
            desk.answers.append((str(left), None))
            if left:
                desk.journal.submit(FACT, 7, (b"more",), lambda error: again(left - 1))
            else:
                ended.set_result(None)

        desk.journal.submit(FACT, 7, (b"first",), lambda error: again(20))
        await asyncio.wait_for(ended, 30)

    assert run(is_open, test).stored == [str(left) for left in range(20, -1, -1)]


@both_ways
def test_a_failed_sync_refuses_what_stood_behind_it_and_closes_the_way(is_open: bool) -> None:
    async def test(desk: Desk) -> None:
        desk.submit("before")
        await desk.settle()
        desk.files.faults.fail("sync")
        desk.submit("a", "b")
        assert await desk.settle() is not None
        desk.submit("after")
        await desk.settle()

    desk = run(is_open, test)
    assert desk.stored == ["before", "after"]
    assert [name for name, error in desk.answers if error is not None] == ["a", "b"]
    assert desk.shortcut.closings >= 1
    assert desk.files.violations == []
    assert desk.files.exists(file_name(2))


def test_a_new_file_is_begun_by_the_thread() -> None:
    async def test(desk: Desk) -> None:
        rolled = asyncio.get_running_loop().create_future()
        desk.submit("a")
        desk.journal.roll(rolled.set_result)
        await asyncio.wait_for(rolled, 30)

    desk = run(True, test)
    assert set(desk.threads) == {"journal"}
    assert desk.journal.commits_on_loop == 0


def test_the_loop_takes_no_turn_while_the_thread_has_it() -> None:
    gate = threading.Event()

    async def test(desk: Desk) -> None:
        loop = asyncio.get_running_loop()
        syncing = asyncio.Event()

        def wait(path: str) -> None:
            desk.threads.append(threading.current_thread().name)
            loop.call_soon_threadsafe(syncing.set)
            gate.wait()

        desk.files.on_sync = wait
        desk.submit("slow")
        await asyncio.wait_for(syncing.wait(), 30)
        desk.shortcut.is_open = True
        desk.submit("b", "c")
        for _ in range(5):
            await asyncio.sleep(0)
        assert desk.answers == []
        assert desk.threads == ["journal"]
        gate.set()
        await desk.settle()
        assert desk.stored == ["slow", "b", "c"]
        desk.submit("d")
        await desk.settle()

    try:
        desk = run(False, test)
    finally:
        gate.set()
    assert desk.stored == ["slow", "b", "c", "d"]
    assert desk.threads[-1] != "journal"


def test_what_comes_while_the_thread_gives_the_turn_back_is_not_forgotten() -> None:
    async def test(desk: Desk) -> None:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[PersistenceError | None] = loop.create_future()
        submitted = threading.Event()

        def late() -> None:
            desk.journal.submit(FACT, 7, (b"late",), answered.set_result)
            submitted.set()

        def nothing() -> None:
            loop.call_soon_threadsafe(late)
            assert submitted.wait(30)

        desk.journal.on_nothing = nothing
        desk.submit("a")
        assert await asyncio.wait_for(answered, 30) is None

    assert run(False, test).stored == ["a"]


@both_ways
def test_an_answer_that_breaks_down_keeps_nobody_waiting(is_open: bool) -> None:
    async def test(desk: Desk) -> None:
        failures: list[tuple[str, str]] = []
        desk.committer.on_error = lambda place, error: failures.append((place, str(error)))

        def broken(error: PersistenceError | None) -> None:
            raise ValueError("a mistake")

        desk.journal.submit(FACT, 7, (b"x",), broken)
        desk.submit("a")
        await desk.settle()
        desk.submit("b")
        await desk.settle()
        assert failures == [("commit", "a mistake")]

    assert run(is_open, test).stored == ["a", "b"]


def test_a_loop_that_is_gone_ends_the_thread() -> None:
    gate = threading.Event()

    async def test() -> Desk:
        desk = Desk(False)
        desk.files.on_sync = lambda path: gate.wait()
        desk.submit("a")
        await asyncio.sleep(0)
        return desk

    desk = asyncio.run(test())
    gate.set()
    desk.committer.stop()
    desk.journal.close()
    assert desk.answers == []
