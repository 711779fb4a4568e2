"""Paging: a step says what it lacks, that is brought, and the step is taken again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from milepost.storage.files import Files
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.storage.ledgers.paging import (
    BLOCK_SIZE,
    BLOCKS_MAX,
    LOOKS_MAX,
    Here,
    LoopDisk,
    LoopFiles,
    at_once,
    must_wait,
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
    files.is_forbidden = True
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


def test_a_step_that_never_has_enough_is_let_go_to_the_disk(disk: Threads) -> None:
    files = disk.loop_files
    stopped = 0

    async def nothing(disk: object) -> None:
        """What is brought does not help."""

    def step() -> str:
        nonlocal stopped
        if must_wait(files):
            stopped += 1
            raise NotInMemory(nothing)
        return "read"

    assert at_once(disk.look(step)) == "read"
    assert stopped == LOOKS_MAX


def test_outside_of_a_step_the_disk_is_read_and_counted(disk: Threads) -> None:
    files = disk.loop_files
    assert files.read("f", 1, 2) == CONTENT[1:3]
    assert files.reads == 1
    files.is_forbidden = True
    with pytest.raises(AssertionError, match="the loop reads 2 bytes of f"):
        files.read("f", 1, 2)


def test_threads_read_what_they_like(disk: Threads) -> None:
    files = disk.loop_files
    files.is_forbidden = files.is_strict = True
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(files.read("f", 0, 2)))
    thread.start()
    thread.join()
    assert read == [CONTENT[:2]]
    assert must_wait(files)
    assert not must_wait(files.real)


def test_what_several_steps_lack_is_brought_together(disk: Threads) -> None:
    files = disk.loop_files
    missing = []
    for number in range(2):
        with files.strictly(), pytest.raises(NotInMemory) as caught:
            files.read("f", number * BLOCK_SIZE, 1)
        missing.append(caught.value)
    at_once(disk.bring(NotInMemory.all_of(missing)))
    with files.strictly():
        assert files.read("f", 0, BLOCK_SIZE + 1) == CONTENT[: BLOCK_SIZE + 1]


def test_a_disk_that_is_here_waits_for_nothing() -> None:
    files = MemoryFiles({"f": CONTENT}, {""})
    here = Here(files)
    assert at_once(here.look(lambda: files.read("f", 0, 1))) == CONTENT[:1]
    assert at_once(here.perform(lambda real: real.read("f", 1, 1))) == CONTENT[1:2]
