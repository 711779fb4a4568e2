"""The file system: every byte that is stored or loaded passes through here.

`Files` is what the storage needs of a file system, no more; `RealFiles` is the machine's own.
`milepost.testing.files` has doubles that fail, tear, forget and fill up. Paths are relative to the
data directory and use `/`. Nothing here decides anything: errors come out as `OSError`.

Durability rules that callers rely on and doubles exploit:

- bytes written are volatile until `AppendFile.sync` returned;
- a file created, deleted or renamed is volatile until `sync_dir` of its folder returned;
- zeros that `lay` put behind the end of a file are durable when it returned; appends go over them;
- after a failed `sync` the unsynced bytes are lost or not, which cannot be known: the descriptor is closed
  and never synced again (rule 3 of the failure rules in docs/format.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from milepost.storage.descriptors import SPARE

Buffer = bytes | bytearray | memoryview


class NotAnswered(OSError):
    """What lies behind the files does not answer for now. The bytes may be as they should: ask again."""


# The kernel takes at most this many buffers in one vectored write (IOV_MAX on Linux).
BUFFERS_PER_WRITE_MAX = 1024


class AppendFile(Protocol):
    """A file that only grows. One owner, one descriptor."""

    size: int
    """Bytes appended, counting what is not yet synced, and not what was laid ahead of them."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all buffers behind what was appended before, or raise `OSError`: then an unknown
        part was written."""
        ...

    def sync(self) -> None:
        """Return when everything appended is on stable storage."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """What storage needs of a file system."""

    def create(self, path: str) -> AppendFile:
        """A new, empty file; `FileExistsError` if there is one."""
        ...

    def open_append(self, path: str, size: int) -> AppendFile:
        """An existing file cut to `size` bytes, to be continued there."""
        ...

    def lay(self, path: str, first: int, end: int) -> None:
        """Put zeros in [first, end) of an existing file, durably, beside appends before that.

        By a descriptor of its own: an error of the other one's must not be told here instead.
        """
        ...

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def size(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; empty if there is no such folder."""
        ...

    def make_folder(self, folder: str) -> None:
        """With its parents; nothing happens if it is there."""
        ...

    def delete(self, path: str) -> None:
        """Nothing happens if it is not there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` atomically."""
        ...

    def sync_dir(self, folder: str) -> None:
        """Make creations, deletions and renames in the folder durable."""
        ...


class RealAppendFile:
    """A descriptor, and where the next bytes go; files are readable by their owner only."""

    __slots__ = ("_fd", "path", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd

    def append(self, buffers: Sequence[Buffer]) -> None:
        if len(buffers) <= BUFFERS_PER_WRITE_MAX:
            self._append(buffers)
            return
        for start in range(0, len(buffers), BUFFERS_PER_WRITE_MAX):
            self._append(buffers[start : start + BUFFERS_PER_WRITE_MAX])

    def _append(self, buffers: Sequence[Buffer]) -> None:
        # A vectored write may stop anywhere (a signal, a full disk); go on behind what it took.
        written = os.pwritev(self._fd, buffers, self.size)
        self.size += written
        if written != sum(map(len, buffers)):
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                written = os.pwrite(self._fd, rest, self.size)
                self.size += written
                rest = rest[written:]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def detach(self) -> int:
        """Give the descriptor away, open."""
        fd, self._fd = self._fd, -1
        return fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self.detach())


class RealFiles:
    """The machine's file system below one folder."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else str(self.root)

    def create(self, path: str) -> RealAppendFile:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        return RealAppendFile(path, SPARE.open(self._at(path), flags, 0o600), 0)

    def open_append(self, path: str, size: int) -> RealAppendFile:
        fd = SPARE.open(self._at(path), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if os.fstat(fd).st_size != size:
            os.ftruncate(fd, size)
        return RealAppendFile(path, fd, size)

    def open_part(self, path: str, offset: int) -> RealAppendFile:
        """A file, made if there is none, to be written from an offset on. What lies before it stays."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return RealAppendFile(path, SPARE.open(self._at(path), flags, 0o600), offset)

    def lay(self, path: str, first: int, end: int) -> None:
        flags = os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = SPARE.open(self._at(path), flags)
        try:
            while first < end:
                first += os.pwrite(fd, bytes(end - first), first)
        finally:
            os.close(fd)

    def read(self, path: str, offset: int, size: int) -> bytes:
        fd = SPARE.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            data = os.pread(fd, size, offset)
            # One call gives at most 2 GiB; fewer bytes than asked for must mean the end of the file.
            while len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
                data += more
            return data
        finally:
            os.close(fd)

    def size(self, path: str) -> int:
        return os.stat(self._at(path)).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(folder)))
        except FileNotFoundError:
            return []

    def make_folder(self, folder: str) -> None:
        os.makedirs(self._at(folder), mode=0o700, exist_ok=True)

    def delete(self, path: str) -> None:
        try:
            os.unlink(self._at(path))
        except FileNotFoundError:
            return

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def sync_dir(self, folder: str) -> None:
        fd = SPARE.open(self._at(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
