"""A bucket in a folder of this machine (`file://`): for tests, and for one machine with a shared disk.

It has the conditions of a real bucket, for processes of one machine: an object is created by a hard link,
which fails if the name is taken, and replaced under a lock. What was answered is synced.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from milepost.storage.bucket.objects import (
    Absent,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    Listed,
    Put,
    Refused,
    Replace,
    Reply,
    Request,
    Scan,
)

THREADS = 8
_DRAFTS = ".drafts"
_LOCK = ".lock"


class FolderObjects:
    """`Objects` in a folder."""

    def __init__(self, root: Path, *, only_reads: bool = False) -> None:
        """Make the folder if it is to be written."""
        self._root = root
        # Is there as long as the bucket is; not in the empty folder below a file system that was mounted.
        self._sign = root if only_reads else root / _DRAFTS
        if not only_reads:
            os.makedirs(root / _DRAFTS, mode=0o700, exist_ok=True)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="folder")

    async def answer(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._answer, request)
        except PermissionError as error:
            return Failed(str(error), is_denied=True)
        except OSError as error:
            return Failed(str(error))

    def read(self, key: str, start: int, size: int) -> bytes:
        fd = os.open(self._root / key, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, start)
        finally:
            os.close(fd)

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _answer(self, request: Request) -> Reply:
        match request:
            case Get(key):
                data = self._data(key)
                if data is None:
                    self._check_there()
                    return Absent()
                return Found(data, _tag(data))
            case Create(key, data):
                with self._draft(key, data) as draft:
                    try:
                        os.link(draft, self._root / key)
                    except FileExistsError:
                        return Refused()
                self._sync_folder(key)
                return Done(_tag(data))
            case Replace(key, data, tag):
                with self._locked():
                    before = self._data(key)
                    if before is None or _tag(before) != tag:
                        return Refused()
                    return self._put(key, data)
            case Put(key, data):
                return self._put(key, data)
            case Delete(key):
                self._check_there()
                (self._root / key).unlink(missing_ok=True)
                return Done()
            case Scan(prefix):
                found = sorted(self._scan(prefix))
                if not found:
                    self._check_there()
                return Listed(found)
        return Done()

    def _check_there(self) -> None:
        """`FileNotFoundError` if the bucket itself is gone: nothing is known of its objects then."""
        if not self._sign.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "the folder of the bucket is gone", str(self._root)
            )

    def _data(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None

    def _put(self, key: str, data: bytes) -> Done:
        with self._draft(key, data) as draft:
            os.replace(draft, self._root / key)
        self._sync_folder(key)
        return Done(_tag(data))

    @contextmanager
    def _draft(self, key: str, data: bytes) -> Iterator[Path]:
        """A synced file with the data, in the same file system; gone afterwards."""
        draft = self._root / _DRAFTS / uuid4().hex
        fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                os.fdatasync(fd)
            finally:
                os.close(fd)
            # Not before: a bucket whose folder is gone must not be made again.
            (self._root / key).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield draft
        finally:
            draft.unlink(missing_ok=True)

    def _sync_folder(self, key: str) -> None:
        fd = os.open((self._root / key).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _scan(self, prefix: str) -> Iterator[tuple[str, int]]:
        def failed(error: OSError) -> None:
            """An empty list would say that there is nothing."""
            if not isinstance(error, FileNotFoundError):
                raise error

        for folder, folders, names in os.walk(self._root / prefix, onerror=failed):
            if Path(folder) == self._root:
                folders[:] = [name for name in folders if name != _DRAFTS]
                names = [name for name in names if name != _LOCK]
            for name in names:
                path = Path(folder) / name
                try:
                    size = path.stat().st_size
                except FileNotFoundError:  # deleted meanwhile
                    continue
                yield path.relative_to(self._root).as_posix(), size


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
