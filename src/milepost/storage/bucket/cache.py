"""The local directory of a broker on a bucket: a cache of ledgers, brought block by block when they are read.

Everything below `Files` works on it as on a data directory. A file that an image names and that is not here
lies in the bucket; a read brings the blocks that it needs, on the thread that reads, and has the next ones
follow. The loop reads no files. What a checkpoint writes is here first, and in a pack before the catalog
counts on it; once the image names all of a ledger that grows no more, its copy here is part of the cache.

The cache is bounded: when the ledgers in it are larger than they may be, those that were read longest ago
are dropped, never one that is being read. Files that still grow, and mileposts, which the loop looks up, are
not dropped. Nothing here outlives the process: a start begins with an empty directory.

A cache may lose what it has: the disk is full, or a file was deleted or cut short by another program. The
bucket has the bytes, so a read finds out and asks for them again; what cannot be kept is read past the cache.
That holds for ledgers that grow too, as far as they are in packs; the rest is in memory until it is.
"""

from __future__ import annotations

import errno
import logging
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Final

from milepost.storage.bucket.image import Extent, Extents
from milepost.storage.bucket.objects import Objects
from milepost.storage.bucket.watched import CacheUse
from milepost.storage.files import Buffer, NotAnswered, RealAppendFile, RealFiles
from milepost.storage.header import HEADER_SIZE
from milepost.storage.ledgers.ledger import LEDGER_SUFFIX

logger = logging.getLogger(__name__)

# What is brought at a time.
BLOCK: Final = 4 * 1024 * 1024
# A read of a file that other programs delete or cut tries so often to have it here.
ATTEMPTS: Final = 3
# So many blocks behind those that are read are brought too.
AHEAD: Final = 4
# Blocks, and extents of one block, that are on their way at a time.
FETCHES: Final = 8
# How large the ledgers in the cache may be, unless the setting says otherwise.
SIZE_DEFAULT: Final = 4 * 1024 * 1024 * 1024


class CacheAppendFile(RealAppendFile):
    """A file that need not survive the machine."""

    __slots__ = ()

    def sync(self) -> None:
        """The bucket has what is to last."""


class NotKept(OSError):
    """A block came, and the local disk does not take it."""


class Cached:
    """A file that the bucket has, and the blocks of it that are here. Changed under the cache's lock."""

    __slots__ = ("_ends", "coming", "extents", "head", "here", "readers", "size")

    def __init__(self, extents: Sequence[Extent]) -> None:
        self.relocate(extents)
        self.here: set[int] = set()
        self.coming: dict[int, Future[None]] = {}
        self.readers = 0
        self.head: bytes | None = None
        """The header, if that alone was read."""

    def relocate(self, extents: Sequence[Extent]) -> None:
        """The same bytes lie elsewhere in the bucket."""
        self.extents = extents
        self._ends = list(accumulate(one.size for one in extents))
        self.size = self._ends[-1] if extents else 0

    @property
    def blocks(self) -> range:
        return range(-(-self.size // BLOCK))

    def block_size(self, block: int) -> int:
        return min(BLOCK, self.size - block * BLOCK)

    @property
    def size_here(self) -> int:
        return sum(map(self.block_size, self.here))

    @property
    def is_idle(self) -> bool:
        return not self.readers and not self.coming

    def stretches(self, first: int, end: int) -> list[Extent]:
        """Where the bytes from one to another lie.

        >>> Cached([Extent("p", 7, 10), Extent("q", 0, 5)]).stretches(8, 12)
        [Extent(pack='p', start=15, size=2), Extent(pack='q', start=0, size=2)]
        """
        found: list[Extent] = []
        at = bisect_right(self._ends, first)
        while first < end:
            pack, start, size = self.extents[at]
            skipped = first - (self._ends[at] - size)
            taken = min(size - skipped, end - first)
            found.append(Extent(pack, start + skipped, taken))
            first += taken
            at += 1
        return found


class CacheFiles(RealFiles):
    """The files of a local directory, and those that only the bucket has."""

    def __init__(
        self,
        root: Path,
        objects: Objects,
        extents: Extents,
        size_max: int = SIZE_DEFAULT,
        use: CacheUse | None = None,
    ) -> None:
        """`use`: where it is counted."""
        super().__init__(root)
        self._objects = objects
        self._size_max = size_max
        self.use = CacheUse() if use is None else use
        self._lock = threading.Lock()
        # Files that the bucket has as they are, the one that was read last at the end. Changed under the
        # lock only.
        self._cached: dict[str, Cached] = {path: Cached(rows) for path, rows in extents.items()}
        # Ledgers that grow here, and what the bucket has of them. Changed under the lock only.
        self._growing: dict[str, Cached] = {}
        # Held while one of them is mended.
        self._mending = threading.Lock()
        # Two, so that a thread that waits for extents does not take the place of one that reads them.
        self._bringing = ThreadPoolExecutor(FETCHES, thread_name_prefix="bring")
        self._reading = ThreadPoolExecutor(FETCHES, thread_name_prefix="extent")
        # Said once, until a block is kept again.
        self._is_refused = False

    # -- bringing ------------------------------------------------------------------------------------

    def bring(self, paths: Sequence[str]) -> None:
        """Fetch several files whole, side by side."""
        coming = [one for path in paths for one in self._begin_whole(path)]
        for future in coming:
            future.result()

    def bring_heads(self, paths: Sequence[str]) -> None:
        """Fetch the headers of several files side by side: opening a ledger must not bring a block of it."""
        list(self._bringing.map(lambda path: self.read(path, 0, HEADER_SIZE), self._known(paths)))

    def _known(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if path in self._cached]

    def _begin_whole(self, path: str) -> list[Future[None]]:
        with self._lock:
            cached = self._cached.get(path)
            return [] if cached is None else self._begin(path, cached, cached.blocks)

    def _begin(self, path: str, cached: Cached, blocks: Iterable[int]) -> list[Future[None]]:
        """Have blocks brought that are not here. Under the lock."""
        for block in blocks:
            if block not in cached.here and block not in cached.coming:
                cached.coming[block] = self._bringing.submit(self._fetch, path, cached, block)
        return [cached.coming[block] for block in blocks if block in cached.coming]

    def _fetch(self, path: str, cached: Cached, block: int) -> None:
        """Bring one block; `NotKept` if the disk does not take it."""
        is_written = False
        try:
            first = block * BLOCK
            data = self._read_now(cached, first, first + cached.block_size(block))
            self._write_block(path, cached, first, data)
            is_written = True
        finally:
            with self._lock:
                del cached.coming[block]
                if is_written and self._cached.get(path) is cached:
                    cached.here.add(block)
                    self._count(path, cached.block_size(block))
                    self._drop_oldest(path)

    def _write_block(self, path: str, cached: Cached, first: int, data: Sequence[Buffer]) -> None:
        try:
            with self._lock:
                if self._cached.get(path) is not cached:
                    return  # it was deleted meanwhile
                if cached.here and not RealFiles.exists(self, path):
                    self._lost(
                        path, cached
                    )  # else the file would have holes in place of its blocks
                file = self.open_part(path, first)
            try:
                file.append(data)
            finally:
                file.close()
        except OSError as error:
            self._refused(path, error)
            raise NotKept(error.errno, error.strerror, path) from error
        self._is_refused = False

    def _refused(self, path: str, error: OSError) -> None:
        """The disk does not take a block. Growing ledgers need its room more than the cache does."""
        with self._lock:
            for other, cached in list(self._cached.items()):
                is_ledger = other.endswith(LEDGER_SUFFIX)
                if is_ledger and other != path and cached.here and cached.is_idle:
                    self._drop(other, cached)
            is_news, self._is_refused = not self._is_refused, True
        if is_news:
            logger.warning(
                "the cache cannot keep %s: %s; what it cannot keep is read from the bucket again and again",
                path,
                error.strerror or error,
            )

    def _lost(self, path: str, cached: Cached) -> None:
        """Another program has deleted or cut a file. Under the lock."""
        logger.warning("%s in the cache was deleted or cut short: it is brought again", path)
        self._count(path, -cached.size_here)
        cached.here.clear()

    def _read_now(self, cached: Cached, first: int, end: int) -> Sequence[Buffer]:
        """Bytes of a file, also if its packs are merged meanwhile."""
        while True:
            extents = cached.extents
            stretches = cached.stretches(first, end)
            try:
                return self._read(stretches)
            except OSError:
                if cached.extents is extents:
                    raise

    def _read(self, stretches: Sequence[Extent]) -> Sequence[Buffer]:
        if len(stretches) == 1:
            data = [self._objects.read(*stretches[0])]
        else:
            data = list(self._reading.map(lambda one: self._objects.read(*one), stretches))
        for one, found in zip(stretches, data, strict=True):
            if len(found) != one.size:
                raise OSError(
                    errno.EIO, f"{one.pack}: {len(found)} bytes at {one.start}, not {one.size}"
                )
        self.use.fetched_bytes += sum(map(len, data))
        return data

    # -- the bound -----------------------------------------------------------------------------------

    def _count(self, path: str, size: int) -> None:
        if path.endswith(LEDGER_SUFFIX):
            self.use.size += size

    def _drop_oldest(self, kept: str) -> None:
        """Drop ledgers until the others fit, the one that was read longest ago first. Under the lock."""
        if self.use.size <= self._size_max:
            return
        for path, cached in list(self._cached.items()):
            if self.use.size <= self._size_max:
                return
            is_ledger = path.endswith(LEDGER_SUFFIX)
            if is_ledger and path != kept and cached.here and cached.is_idle:
                self._drop(path, cached)

    def _drop(self, path: str, cached: Cached) -> None:
        size = cached.size_here
        cached.here.clear()
        super().delete(path)
        self._count(path, -size)
        self.use.dropped_bytes += size

    def relocate(self, extents: Extents) -> None:
        """Packs were merged: files lie elsewhere in the bucket now."""
        with self._lock:
            for path in self._cached.keys() & extents.keys():
                self._cached[path].relocate(extents[path])
            self._grown(extents)

    def grown(self, extents: Extents) -> None:
        """Packs have more of the ledgers that grow."""
        with self._lock:
            self._grown(extents)

    def _grown(self, extents: Extents) -> None:
        for path, rows in extents.items():
            if path.endswith(LEDGER_SUFFIX) and path not in self._cached:
                self._growing[path] = Cached(rows)

    def recorded(self, extents: Extents, complete: Collection[str]) -> None:
        """An image names the extents; the `complete` files of it grow no more: their copies here are part
        of the cache from now on."""
        with self._lock:
            for path in complete:
                if path not in self._cached and RealFiles.exists(self, path):
                    cached = self._cached[path] = Cached(extents[path])
                    self._growing.pop(path, None)
                    cached.here.update(cached.blocks)
                    self._count(path, cached.size)
            self._drop_oldest("")

    def give_back(self, path: str) -> None:
        """Delete what is here of a file that the bucket has; the next read brings it again."""
        with self._lock:
            if (cached := self._cached.get(path)) is not None and cached.is_idle:
                self._drop(path, cached)

    # -- Files -------------------------------------------------------------------------------------

    def create(self, path: str) -> RealAppendFile:
        if path in self._cached:
            raise FileExistsError(path)
        return CacheAppendFile(path, super().create(path).detach(), 0)

    def open_append(self, path: str, size: int) -> RealAppendFile:
        with self._lock:
            cached = self._cached.get(path)
            if cached is not None:
                cached.readers += 1  # it is not dropped meanwhile
                if cached.here and not self._is_whole(path, cached):
                    self._lost(path, cached)
        if cached is not None:
            try:
                self.bring([path])
            finally:
                with self._lock:
                    cached.readers -= 1
                    if len(cached.here) == len(cached.blocks):
                        self._forget(path)  # it grows: soon the bucket does not have it as it is
                        self._grown({path: cached.extents})
        else:
            self._mend(path, size)
        return CacheAppendFile(path, super().open_append(path, size).detach(), size)

    def _forget(self, path: str) -> None:
        """The bucket does not have the file as it is here. Under the lock."""
        self._growing.pop(path, None)
        if (cached := self._cached.pop(path, None)) is not None:
            self._count(path, -cached.size_here)

    def _mend(self, path: str, size: int) -> None:
        """Bring the bytes below `size` again that a growing ledger here has lost, as far as packs have
        them."""
        with self._mending:
            grown = self._growing.get(path)
            found = RealFiles.size(self, path) if RealFiles.exists(self, path) else 0
            if grown is None or found >= min(size, grown.size):
                return
            logger.warning("%s in the cache was deleted or cut short: it is brought again", path)
            data = self._read_now(grown, found, grown.size)
            file = self.open_part(path, found)
            try:
                file.append(data)
            finally:
                file.close()

    def _read_grown(self, path: str, offset: int, size: int) -> bytes:
        """Bytes of a file that the bucket does not have as it is."""
        found = self._read_here(path, offset, size)
        grown = self._growing.get(path)
        if found is None and grown is not None and offset < grown.size:
            try:
                self._mend(path, offset + size)
            except NotAnswered:
                raise
            except OSError:  # the disk does not take it
                if offset + size <= grown.size:
                    return b"".join(self._read_now(grown, offset, offset + size))
        return super().read(path, offset, size) if found is None else found

    def read(self, path: str, offset: int, size: int) -> bytes:
        while True:
            with self._lock:
                cached = self._cached.get(path)
                if cached is not None:
                    cached.readers += 1
                    self._cached[path] = self._cached.pop(path)  # the last to be dropped
            try:
                if cached is not None:
                    return self._read_cached(path, cached, offset, size)
                return self._read_grown(path, offset, size)
            except FileNotFoundError:
                if cached is not None or path not in self._cached:
                    raise
                # It became part of the cache meanwhile, and was dropped from it.
            finally:
                if cached is not None:
                    with self._lock:
                        cached.readers -= 1
                        self._drop_oldest(path)  # what could not be dropped while it was read

    def _read_cached(self, path: str, cached: Cached, offset: int, size: int) -> bytes:
        end = min(offset + size, cached.size)
        if offset >= end:
            return b""
        if end <= HEADER_SIZE and 0 not in cached.here:
            if cached.head is None:
                cached.head = b"".join(self._read_now(cached, 0, min(cached.size, HEADER_SIZE)))
            return cached.head[offset:end]
        for _ in range(ATTEMPTS):
            try:
                self._bring_blocks(path, cached, offset // BLOCK, (end - 1) // BLOCK)
            except NotKept:
                break
            data = self._read_here(path, offset, end - offset)
            if data is not None:
                return data
            with self._lock:
                if cached.here:
                    self._lost(path, cached)
        return b"".join(self._read_now(cached, offset, end))

    def _bring_blocks(self, path: str, cached: Cached, first: int, last: int) -> None:
        with self._lock:
            coming = self._begin(path, cached, range(first, last + 1))
            if first and first - 1 in cached.here:
                # A reader that goes on, perhaps: what it reads next is brought meanwhile.
                ahead = range(last + 1, min(last + 1 + AHEAD, len(cached.blocks)))
                self._begin(path, cached, ahead)
        for future in coming:
            future.result()

    def _read_here(self, path: str, offset: int, size: int) -> bytes | None:
        """Bytes that should be here; None if they are not."""
        try:
            data = super().read(path, offset, size)
        except FileNotFoundError:
            return None
        return data if len(data) == size else None

    def _is_whole(self, path: str, cached: Cached) -> bool:
        """Is the file there, and long enough for its blocks?"""
        last = max(cached.here)
        try:
            return RealFiles.size(self, path) >= last * BLOCK + cached.block_size(last)
        except FileNotFoundError:
            return False

    def size(self, path: str) -> int:
        cached = self._cached.get(path)
        if cached is not None:
            return cached.size
        grown = self._growing.get(path)
        try:
            size = super().size(path)
        except FileNotFoundError:
            grown = self._cached.get(path, grown)  # it became part of the cache meanwhile
            if grown is None:
                raise
            return grown.size
        return size if grown is None else max(size, grown.size)

    def exists(self, path: str) -> bool:
        return path in self._cached or path in self._growing or super().exists(path)

    def names(self, folder: str) -> list[str]:
        with self._lock:
            cached = {
                path.rpartition("/")[2] for path in self._cached if path.startswith(f"{folder}/")
            }
        return sorted(cached.union(super().names(folder)))

    def delete(self, path: str) -> None:
        with self._lock:
            self._forget(path)
            super().delete(path)

    def sync_dir(self, folder: str) -> None:
        """Nothing here has to survive the machine."""

    def close(self) -> None:
        self._bringing.shutdown(wait=False)
        self._reading.shutdown(wait=False)
