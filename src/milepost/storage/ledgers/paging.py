"""Stops a step that needs bytes from disk, reads them, and takes the step again.

The loop must not wait for a disk: everybody would wait with it. But what a command means is decided in plain
steps, and now and then a step finds that a milepost, or what ties a chunk to its message, is not in memory.
Then it raises `NotInMemory`, before it has changed anything. Its caller awaits what is missing, which a
file thread brings, and takes the step again:

    step ──▶ NotInMemory ──▶ await disk.bring(missing) ──▶ the same step ──▶ done

    index = await disk.look(lambda: log.index_at(time_ms))      # a caller that can wait
    with files.strictly(): ...                                  # one that catches `NotInMemory` itself

Outside of both, a read on the loop goes to the disk at once, as it does in tools; it is counted, and tests
can forbid it.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from milepost.storage.files import AppendFile, Files
from milepost.storage.ledgers.not_in_memory import NotInMemory

T = TypeVar("T")

# Bytes are brought and kept in blocks: one of mileposts tells of four thousand entries.
BLOCK_SIZE: Final = 64 * 1024
BLOCKS_MAX: Final = 256
# A step that was stopped so often needs more at once than is kept; it is let go to the disk.
LOOKS_MAX: Final = 100


class Disk(Protocol):
    """Where files are read while the loop does something else."""

    @abstractmethod
    async def perform(self, work: Callable[[Files], T]) -> T:
        """Do something that may block, beside the loop."""

    @abstractmethod
    async def look(self, step: Callable[[], T]) -> T:
        """Take a step, bringing what it lacks."""

    async def bring(self, missing: NotInMemory) -> None:
        """Bring what a step lacked."""
        for bring in missing.brings:
            await bring(self)


class LoopDisk(Disk):
    """The disk of a store that runs."""

    @property
    @abstractmethod
    def loop_files(self) -> LoopFiles:
        """The files as steps on the loop see them."""

    async def look(self, step: Callable[[], T]) -> T:
        for _ in range(LOOKS_MAX):
            try:
                with self.loop_files.strictly():
                    return step()
            except NotInMemory as missing:
                await self.bring(missing)
        return step()


class Here(Disk):
    """A disk that is read at once, for tools and for steps that cannot wait."""

    def __init__(self, files: Files) -> None:
        self._files = files

    async def perform(self, work: Callable[[Files], T]) -> T:
        return work(self._files)

    async def look(self, step: Callable[[], T]) -> T:
        return step()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that waits for nothing but a disk that is `Here`."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("it waits for something else than a disk")


class LoopFiles:
    """The files of a store that runs, as its loop sees them; threads see them as they are."""

    def __init__(self, real: Files) -> None:
        self.real = real
        self.is_forbidden = False
        """Tests only: a read on the loop is an error."""
        self.reads = 0
        """Reads that the loop waited for."""
        self.is_strict = False
        """Does the step that is taken say what it lacks, because its caller brings that?"""
        self._thread = threading.get_ident()
        # Path and number of a block → its bytes; the one that was longest without use first.
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    @property
    def must_wait(self) -> bool:
        """Is this a step whose caller awaits what is missing?"""
        return self.is_strict and threading.get_ident() == self._thread

    @contextmanager
    def strictly(self) -> Iterator[None]:
        before, self.is_strict = self.is_strict, True
        try:
            yield
        finally:
            self.is_strict = before

    def read(self, path: str, offset: int, size: int) -> bytes:
        if threading.get_ident() != self._thread:
            return self.real.read(path, offset, size)
        if self.is_strict:
            return self._from_memory(path, offset, size)
        self.reads += 1
        assert not self.is_forbidden, f"the loop reads {size} bytes of {path}"
        return self.real.read(path, offset, size)

    def _from_memory(self, path: str, offset: int, size: int) -> bytes:
        first, end = offset // BLOCK_SIZE, -(-(offset + size) // BLOCK_SIZE)
        found: list[bytes] = []
        for number in range(first, end):
            block = self._blocks.get((path, number))
            wanted = min(offset + size - number * BLOCK_SIZE, BLOCK_SIZE)
            if block is None or len(block) < wanted:  # the file may have grown since
                raise NotInMemory(lambda disk: self._bring(disk, path, first, end))
            self._blocks.move_to_end((path, number))
            found.append(block)
        at = offset - first * BLOCK_SIZE
        return b"".join(found)[at : at + size]

    async def _bring(self, disk: Disk, path: str, first: int, end: int) -> None:
        data = await disk.perform(
            lambda files: files.read(path, first * BLOCK_SIZE, (end - first) * BLOCK_SIZE)
        )
        for number in range(first, end):
            at = (number - first) * BLOCK_SIZE
            self._blocks[path, number] = data[at : at + BLOCK_SIZE]
            self._blocks.move_to_end((path, number))
        while len(self._blocks) > max(BLOCKS_MAX, end - first):
            self._blocks.popitem(last=False)

    # -- the rest is as it is ------------------------------------------------------------------------

    def create(self, path: str) -> AppendFile:
        return self.real.create(path)

    def open_append(self, path: str, size: int) -> AppendFile:
        return self.real.open_append(path, size)

    def lay(self, path: str, first: int, end: int) -> None:
        self.real.lay(path, first, end)

    def size(self, path: str) -> int:
        return self.real.size(path)

    def exists(self, path: str) -> bool:
        return self.real.exists(path)

    def names(self, folder: str) -> list[str]:
        return self.real.names(folder)

    def make_folder(self, folder: str) -> None:
        self.real.make_folder(folder)

    def delete(self, path: str) -> None:
        self.real.delete(path)

    def rename(self, old: str, new: str) -> None:
        self.real.rename(old, new)

    def sync_dir(self, folder: str) -> None:
        self.real.sync_dir(folder)


def must_wait(files: Files) -> bool:
    """Must a step that finds something missing say so, and not read it?"""
    return isinstance(files, LoopFiles) and files.must_wait
