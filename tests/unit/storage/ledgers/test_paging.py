"""Paging: a step says what it lacks, that is brought, and the step is taken again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from milepost.errors import TooManyRequests
from milepost.storage.files import Files
from milepost.storage.ledgers.not_in_memory import NotInMemory, taken_together
from milepost.storage.ledgers.paging import (
    BLOCK_SIZE,
    BLOCKS_MAX,
    Disk,
    Here,
    LoopDisk,
    LoopFiles,
    at_once,
    must_bring,
)
from milepost.testing.files import MemoryFiles

T = TypeVar("T")

CONTENT = bytes(range(256)) * (BLOCK_SIZE // 64)  # four blocks


class Threads(LoopDisk):
    """A disk whose threads are done at once, and that counts what they did."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self._loop_files = LoopFiles(files)
        self.performed = 0

    @property
    def loop_files(self) -> LoopFiles:
        return self._loop_files

    async def perform(self, work: Callable[[Files], T]) -> T:
        self.performed += 1
        return work(self._files)


@pytest.fixture
def disk() -> Threads:
    files = MemoryFiles({"f": CONTENT}, {""})
    return Threads(files)


def test_a_step_that_lacks_something_is_taken_again(disk: Threads) -> None:
    files = disk.loop_files
    steps = 0

    def step() -> bytes:
        nonlocal steps
        steps += 1
        return files.read("f", BLOCK_SIZE - 2, 4) + files.read("f", 3 * BLOCK_SIZE, 2)

    wanted = CONTENT[BLOCK_SIZE - 2 : BLOCK_SIZE + 2] + CONTENT[3 * BLOCK_SIZE :][:2]
    assert at_once(disk.look(step)) == wanted
    assert (steps, disk.performed) == (3, 2)
    assert at_once(disk.look(step)) == wanted
    assert (steps, disk.performed, files.reads) == (4, 2, 0)


def test_a_file_that_has_grown_is_read_again(disk: Threads) -> None:
    files = disk.loop_files
    end = len(CONTENT)
    assert at_once(disk.look(lambda: files.read("f", end - 2, 2))) == CONTENT[-2:]
    file = files.open_append("f", end)
    file.append([b"more"])
    file.close()
    assert at_once(disk.look(lambda: files.read("f", end, 4))) == b"more"


def test_memory_is_bounded(disk: Threads) -> None:
    files = disk.loop_files
    for number in range(BLOCKS_MAX + 10):
        at_once(disk.look(lambda at=number: files.read("f", at % 4 * BLOCK_SIZE, 1)))  # type: ignore[misc]
    assert len(files._blocks) <= BLOCKS_MAX


def test_a_step_that_never_has_enough_is_refused(disk: Threads) -> None:
    """What is brought does not help; the loop never reads it by itself."""
    files = disk.loop_files

    async def nothing(disk: object) -> None:
        """Bring nothing."""

    with pytest.raises(TooManyRequests, match="more of the disk at once"):
        at_once(disk.look(lambda: must_bring(files, nothing)))
    assert files.reads == 0


def test_a_step_that_needs_more_than_is_kept_gets_it_all() -> None:
    count = BLOCKS_MAX + 50
    disk = Threads(MemoryFiles({"f": bytes(count * BLOCK_SIZE)}, {""}))
    files = disk.loop_files

    def step() -> int:
        return sum(len(files.read("f", number * BLOCK_SIZE, 1)) for number in range(count))

    assert at_once(disk.look(step)) == count
    assert files.reads == 0
    assert len(files._blocks) == BLOCKS_MAX


def test_a_step_is_told_what_cannot_be_brought(disk: Threads) -> None:
    """And says itself what it answers then, without a read on the loop."""
    files = disk.loop_files

    def step() -> str:
        try:
            files.read("missing", 0, 1)
        except OSError as error:
            return type(error).__name__
        return "read"

    assert at_once(disk.look(step)) == "FileNotFoundError"
    with pytest.raises(FileNotFoundError):
        at_once(disk.look(lambda: files.read("missing", 0, 1)))


def test_outside_of_a_step_the_disk_is_read_and_counted(disk: Threads) -> None:
    files = disk.loop_files
    files.is_forbidden = False
    assert files.read("f", 1, 2) == CONTENT[1:3]
    assert files.reads == 1
    files.is_forbidden = True
    with pytest.raises(AssertionError, match="the loop reads 2 bytes of f"):
        files.read("f", 1, 2)


def test_threads_read_what_they_like(disk: Threads) -> None:
    files = disk.loop_files
    files.is_strict = True
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(files.read("f", 0, 2)))
    thread.start()
    thread.join()
    assert read == [CONTENT[:2]]
    assert files.must_wait


def test_what_several_steps_lack_is_brought_together(disk: Threads) -> None:
    files = disk.loop_files
    missing = []
    for number in range(2):
        with files.strictly(), pytest.raises(NotInMemory) as caught:
            files.read("f", number * BLOCK_SIZE, 1)
        missing.append(caught.value)
    at_once(disk.bring(NotInMemory.all_of([*missing, missing[0]])))
    assert disk.performed == 1
    with files.strictly():
        assert files.read("f", 0, BLOCK_SIZE + 1) == CONTENT[: BLOCK_SIZE + 1]


def test_each_step_is_told_what_it_lacks_in_vain(disk: Threads) -> None:
    """One way to the disk for the next read of all of them; what fails for one is not the others' matter."""
    files = disk.loop_files

    async def two_reads(disk: Disk) -> None:
        for number in range(2):
            await disk.perform(lambda real, at=number: real.read("f", at, 1))  # type: ignore[misc]

    async def broken(disk: Disk) -> None:
        await disk.perform(lambda real: real.read("missing", 0, 1))

    async def later(disk: Disk) -> None:
        await disk.look(lambda: files.read("f", 2 * BLOCK_SIZE, 1))

    missing = [NotInMemory(two_reads), NotInMemory(broken, later), NotInMemory(later)]
    first, second, third = at_once(disk.bring_each(missing))
    assert (first, type(second), third) == (None, FileNotFoundError, None)
    assert disk.performed == 2
    with files.strictly():
        assert files.read("f", 2 * BLOCK_SIZE, 1) == CONTENT[2 * BLOCK_SIZE :][:1]


def test_a_mistake_in_what_brings_is_not_hidden(disk: Threads) -> None:
    async def wrong(disk: Disk) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        at_once(disk.bring_each([NotInMemory(wrong)]))


def test_what_several_steps_answer_or_lack() -> None:
    async def nothing(disk: object) -> None:
        """Bring nothing."""

    def lacks() -> int:
        raise NotInMemory(nothing)

    assert taken_together([lambda: 1, lambda: 2]) == [1, 2]
    with pytest.raises(NotInMemory) as caught:
        taken_together([lambda: 1, lacks, lacks])
    assert caught.value.brings == (nothing,)


def test_a_disk_that_is_here_waits_for_nothing() -> None:
    files = MemoryFiles({"f": CONTENT}, {""})
    here = Here(files)
    assert at_once(here.look(lambda: files.read("f", 0, 1))) == CONTENT[:1]
    assert at_once(here.perform(lambda real: real.read("f", 1, 1))) == CONTENT[1:2]
