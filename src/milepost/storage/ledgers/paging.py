"""Stops a step that needs bytes from disk, reads them, and takes the step again.

The loop must not wait for a disk: everybody would wait with it. But what a command means is decided in plain
steps, and now and then a step finds that a milepost, or what ties a chunk to its message, is not in memory.
Then it raises `NotInMemory`, before it has changed anything. Its caller awaits what is missing, which a
file thread brings, and takes the step again:

    step ──▶ NotInMemory ──▶ await disk.bring(missing) ──▶ the same step ──▶ done

    index = await disk.look(lambda: log.index_at(time_ms))      # a caller that can wait
    with files.strictly(): ...                                  # one that catches `NotInMemory` itself

What several steps lack is read in one go (`bring_each`): a thread is asked once, not once for each of ten
thousand topics. If something cannot be brought, the step is taken a last time, in which a read that finds
nothing in memory raises why: so a step says itself what it answers then.

Outside of both, a read on the loop goes to the disk at once, as it does in tools; it is counted, and tests
forbid it.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from milepost.errors import MilepostError, TooManyRequests
from milepost.storage.files import AppendFile, Files
from milepost.storage.ledgers.not_in_memory import NotInMemory

T = TypeVar("T")

# Bytes are brought and kept in blocks: one of mileposts tells of four thousand entries.
BLOCK_SIZE: Final = 64 * 1024
BLOCKS_MAX: Final = 256
# A step that was stopped so often needs more at once than is kept: from then on nothing is dropped until it
# is done. One that is stopped many times more is refused.
LOOKS_MAX: Final = 100
LOOKS_LIMIT: Final = 10_000
# How a disk says that something cannot be read.
UNREADABLE: Final = (MilepostError, OSError)
Failure = MilepostError | OSError


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
        files = self.loop_files
        for _ in range(LOOKS_MAX):
            before, files.is_strict = files.is_strict, True
            try:  # what `strictly` does, for less: mostly everything is in memory
                return step()
            except NotInMemory as missing:
                lacks = missing
            finally:
                files.is_strict = before
            try:
                await self.bring(lacks)
            except UNREADABLE as error:
                with files.strictly(error):
                    return step()
        with files.keeping():
            return await self._look_on(step)

    async def _look_on(self, step: Callable[[], T]) -> T:
        """Go on with a step that needs very much."""
        for _ in range(LOOKS_LIMIT):
            try:
                with self.loop_files.strictly():
                    return step()
            except NotInMemory as missing:
                await self.bring(missing)
        raise TooManyRequests("this needs more of the disk at once than the broker reads")

    async def bring(self, missing: NotInMemory) -> None:
        if len(missing.brings) == 1:
            await missing.brings[0](self)
            return
        failure = next((one for one in await self.bring_each([missing]) if one is not None), None)
        if failure is not None:
            raise failure

    async def bring_each(self, missing: Sequence[NotInMemory]) -> list[Failure | None]:
        """Bring what several steps lacked, with one way to the disk for all that they need next; of each
        step why that cannot be read, or None."""
        together = _Together(self.loop_files)
        failures: list[Failure | None] = [None] * len(missing)
        # Of which step it is, what brings a part of it, and what was read for that last.
        under_way: list[tuple[int, Any, object]] = [
            (place, bring(together), None)
            for place, one in enumerate(missing)
            for bring in one.brings
        ]
        while under_way:
            asked: list[tuple[int, Any, Callable[[Files], object]]] = []
            for place, work, answer in under_way:
                try:
                    asked.append((place, work, _next_read(work, answer)))
                except StopIteration:
                    continue
                except UNREADABLE as error:
                    failures[place] = failures[place] or error
            if not asked:
                break
            reads = [read for _, _, read in asked]
            answers = await self.perform(partial(_read_all, reads))
            under_way = [
                (place, work, answer)
                for (place, work, _), answer in zip(asked, answers, strict=True)
            ]
        return failures


class _Together(LoopDisk):
    """Says what is to be read; `bring_each` reads it."""

    def __init__(self, files: LoopFiles) -> None:
        self._files = files

    @property
    def loop_files(self) -> LoopFiles:
        return self._files

    async def perform(self, work: Callable[[Files], T]) -> T:
        result: T = await _Asked(work)
        return result

    async def bring(self, missing: NotInMemory) -> None:
        for bring in missing.brings:
            await bring(self)


class _Asked:
    """Waits until something was read."""

    __slots__ = ("_work",)

    def __init__(self, work: Callable[[Files], Any]) -> None:
        self._work = work

    def __await__(self) -> Generator[Callable[[Files], Any], Any, Any]:
        return (yield self._work)


def _next_read(work: Any, answer: object) -> Callable[[Files], object]:
    """Tell work what was read for it; what it wants to be read next."""
    read: Callable[[Files], object]
    read = work.throw(answer) if isinstance(answer, Exception) else work.send(answer)
    return read


def _read_all(reads: Sequence[Callable[[Files], object]], files: Files) -> list[object]:
    """What each read gives, or why it fails."""
    answers: list[object] = []
    for read in reads:
        try:
            answers.append(read(files))
        except Exception as error:
            answers.append(error)
    return answers


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

    is_forbidden = False
    """Tests only: a read on the loop is an error."""

    def __init__(self, real: Files) -> None:
        self.real = real
        self.reads = 0
        """Reads that the loop waited for."""
        self.is_strict = False
        """Does the step that is taken say what it lacks, because its caller brings that?"""
        self.failure: Failure | None = None
        """Why what the step lacks cannot be brought."""
        self.may_block = False
        """The server stops, and no client waits for the loop any more: it may read what it needs."""
        self._keepers = 0
        self._thread = threading.get_ident()
        # Path and number of a block → its bytes; the one that was longest without use first.
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    @property
    def must_wait(self) -> bool:
        """Is this a step whose caller awaits what is missing?"""
        return self.is_strict and threading.get_ident() == self._thread

    @contextmanager
    def strictly(self, failure: Failure | None = None) -> Iterator[None]:
        """Let a step say what it lacks; or, where that could not be brought, raise why."""
        before = self.is_strict, self.failure
        self.is_strict, self.failure = True, failure
        try:
            yield
        finally:
            self.is_strict, self.failure = before

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Drop nothing that is brought meanwhile."""
        self._keepers += 1
        try:
            yield
        finally:
            self._keepers -= 1
            self._drop(BLOCKS_MAX)

    def lack(self, bring: Callable[[Disk], Awaitable[object]]) -> Exception:
        """What a step raises that lacks something."""
        return self.failure or NotInMemory(bring)

    def read(self, path: str, offset: int, size: int) -> bytes:
        if threading.get_ident() != self._thread:
            return self.real.read(path, offset, size)
        if self.is_strict:
            return self._from_memory(path, offset, size)
        self.reads += 1
        assert self.may_block or not self.is_forbidden, f"the loop reads {size} bytes of {path}"
        return self.real.read(path, offset, size)

    def _from_memory(self, path: str, offset: int, size: int) -> bytes:
        first, end = offset // BLOCK_SIZE, -(-(offset + size) // BLOCK_SIZE)
        found: list[bytes] = []
        for number in range(first, end):
            block = self._blocks.get((path, number))
            wanted = min(offset + size - number * BLOCK_SIZE, BLOCK_SIZE)
            if block is None or len(block) < wanted:  # the file may have grown since
                raise self.lack(_Blocks(self, path, first, end))
            self._blocks.move_to_end((path, number))
            found.append(block)
        at = offset - first * BLOCK_SIZE
        return b"".join(found)[at : at + size]

    async def bring(self, disk: Disk, path: str, first: int, end: int) -> None:
        """Bring some blocks of a file."""
        data = await disk.perform(
            lambda files: files.read(path, first * BLOCK_SIZE, (end - first) * BLOCK_SIZE)
        )
        for number in range(first, end):
            at = (number - first) * BLOCK_SIZE
            self._blocks[path, number] = data[at : at + BLOCK_SIZE]
            self._blocks.move_to_end((path, number))
        self._drop(max(BLOCKS_MAX, end - first))

    def _drop(self, count_max: int) -> None:
        while len(self._blocks) > count_max and not self._keepers:
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


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of a file that a step lacks. Two that are equal are brought once."""

    files: LoopFiles
    path: str
    first: int
    end: int

    def __call__(self, disk: Disk) -> Awaitable[None]:
        return self.files.bring(disk, self.path, self.first, self.end)


def must_bring(files: Files, bring: Callable[[Disk], Awaitable[object]]) -> None:
    """Raise what a step lacks, if its caller awaits that; else it is read at once."""
    if isinstance(files, LoopFiles) and files.must_wait:
        raise files.lack(bring)
