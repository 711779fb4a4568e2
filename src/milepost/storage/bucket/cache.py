"""The local directory of a broker on a bucket: a cache of ledgers, brought when they are first read.

Everything below `Files` works on it as on a data directory. A ledger that an image names and that is not
here is fetched whole by the first read, on the thread that reads; the loop reads no files. What a
checkpoint writes is here first, and in a pack before the catalog counts on it. Nothing here outlives the
process: a start begins with an empty directory.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from milepost.storage.bucket.image import Extent, Extents, size_of
from milepost.storage.bucket.objects import Objects
from milepost.storage.files import RealAppendFile, RealFiles
from milepost.storage.header import HEADER_SIZE

# Extents of one file that are fetched at a time.
FETCHES: Final = 8
_DRAFT = ".part"


class CacheAppendFile(RealAppendFile):
    """A file that need not survive the machine."""

    __slots__ = ()

    def sync(self) -> None:
        """The bucket has what is to last."""


class CacheFiles(RealFiles):
    """The files of a local directory, and those that only the bucket has."""

    def __init__(self, root: Path, objects: Objects, extents: Extents) -> None:
        super().__init__(root)
        self._objects = objects
        # Files that are in the bucket and not here. Invariant: changed under the lock only.
        self._remote: dict[str, Sequence[Extent]] = dict(extents)
        self._lock = threading.Lock()
        self._fetching: dict[str, threading.Lock] = {}
        # Two, so that a thread that waits for extents does not take the place of one that reads them.
        self._bringing = ThreadPoolExecutor(FETCHES, thread_name_prefix="bring")
        self._reading = ThreadPoolExecutor(FETCHES, thread_name_prefix="extent")
        self._heads: dict[str, bytes] = {}  # headers of files that are not here
        self.fetched_bytes = 0
        """Bytes of ledgers brought from the bucket."""

    def bring(self, paths: Sequence[str]) -> None:
        """Fetch several files side by side."""
        list(self._bringing.map(self._bring, paths))

    def bring_heads(self, paths: Sequence[str]) -> None:
        """Fetch the headers of several files side by side."""
        list(self._bringing.map(self._head, paths))

    def _head(self, path: str) -> bytes | None:
        """The header of a file that is not here: opening a ledger must not bring all of it."""
        extents = self._remote.get(path)
        if not extents:
            return None
        if path not in self._heads:
            pack, start, size = extents[0]
            self._heads[path] = self._objects.read(pack, start, min(size, HEADER_SIZE))
        return self._heads[path]

    def _bring(self, path: str) -> None:
        """Make a file local if the bucket has it."""
        if path not in self._remote:
            return
        with self._lock:
            turn = self._fetching.setdefault(path, threading.Lock())
        with turn:
            extents = self._remote.get(path)
            if extents is None:
                return  # another thread was first, or it was deleted
            draft = path + _DRAFT
            super().delete(draft)
            file = super().create(draft)
            try:
                for data in self._read_now(path, extents):
                    file.append([data])
                    self.fetched_bytes += len(data)
            finally:
                file.close()
            with self._lock:
                self._heads.pop(path, None)
                if self._remote.pop(path, None) is None:
                    super().delete(draft)
                else:
                    super().rename(draft, path)
                self._fetching.pop(path, None)

    def relocate(self, extents: Extents) -> None:
        """Packs were merged: files that are not here lie elsewhere in the bucket now."""
        with self._lock:
            for path in self._remote.keys() & extents.keys():
                self._remote[path] = extents[path]

    def give_back(self, path: str, extents: Sequence[Extent]) -> None:
        """Delete the local copy of a file that the bucket has; the next read brings it again."""
        super().delete(path)
        with self._lock:
            self._remote[path] = extents

    def _read_now(self, path: str, extents: Sequence[Extent]) -> list[bytes]:
        """The bytes of a file, also if its packs are merged meanwhile."""
        while True:
            try:
                return self._read(extents)
            except OSError:
                now = self._remote.get(path)
                if now is None or now == extents:
                    raise
                extents = now

    def _read(self, extents: Sequence[Extent]) -> list[bytes]:
        if len(extents) == 1:
            return [self._objects.read(*extents[0])]
        return list(self._reading.map(lambda one: self._objects.read(*one), extents))

    # -- Files -------------------------------------------------------------------------------------

    def create(self, path: str) -> RealAppendFile:
        if path in self._remote:
            raise FileExistsError(path)
        return CacheAppendFile(path, super().create(path).detach(), 0)

    def open_append(self, path: str, size: int) -> RealAppendFile:
        self._bring(path)
        return CacheAppendFile(path, super().open_append(path, size).detach(), size)

    def read(self, path: str, offset: int, size: int) -> bytes:
        if offset + size <= HEADER_SIZE and (head := self._head(path)) is not None:
            return head[offset : offset + size]
        self._bring(path)
        return super().read(path, offset, size)

    def size(self, path: str) -> int:
        extents = self._remote.get(path)
        return super().size(path) if extents is None else size_of(extents)

    def exists(self, path: str) -> bool:
        return path in self._remote or super().exists(path)

    def names(self, folder: str) -> list[str]:
        with self._lock:
            remote = {
                path.rpartition("/")[2] for path in self._remote if path.startswith(f"{folder}/")
            }
        local = {name for name in super().names(folder) if not name.endswith(_DRAFT)}
        return sorted(remote | local)

    def delete(self, path: str) -> None:
        with self._lock:
            self._remote.pop(path, None)
        super().delete(path)

    def sync_dir(self, folder: str) -> None:
        """Nothing here has to survive the machine."""

    def close(self) -> None:
        self._bringing.shutdown(wait=False)
        self._reading.shutdown(wait=False)
