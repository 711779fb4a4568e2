"""A file system in memory that can fail, fill up, forget and lie.

`MemoryFiles` implements `milepost.storage.files.Files` and behaves like `RealFiles` (one test suite
runs against both). Owns what a running process sees: names and contents, as through the page cache.
Never decides what a crash leaves: every change goes to `trace`, and `milepost.testing.crash` makes
disk images out of that.

    files = MemoryFiles()
    files.make_folder("journal")
    files.capacity = 4096                       # ENOSPC beyond that, until space is freed
    files.faults.fail("sync", 3)                # the third sync fails with EIO
    files.on_sync = lambda path: gate.wait()    # a slow disk, as slow as the test likes
    ...
    assert files.violations == []               # no failed descriptor was synced again

After a failed sync the pages are clean but maybe not stored, as on ext4: reads still show them, a
later sync succeeds without storing them, and only a crash tells. Calls are safe from any thread.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from milepost.storage.files import Buffer
from milepost.testing.faults import Call, Faults
from milepost.testing.trace import (
    Append,
    Create,
    Damage,
    Delete,
    MakeFolder,
    Rename,
    Sync,
    SyncDir,
    SyncEffect,
    Trace,
    Truncate,
    folder_of,
)


class _Node:
    """One file's content, whatever its name."""

    __slots__ = ("content", "number", "writers")

    def __init__(self, number: int, content: bytes) -> None:
        self.number = number
        # Bytes until the first write, so that a thousand disk images can share one buffer.
        self.content: bytes | bytearray = content
        # Open descriptors. Invariant: 1 at most, or a violation was recorded.
        self.writers = 0

    def writable(self) -> bytearray:
        if isinstance(self.content, bytes):
            self.content = bytearray(self.content)
        return self.content


class MemoryAppendFile:
    """A descriptor; implements `milepost.storage.files.AppendFile`."""

    __slots__ = ("_closed", "_files", "_node", "path", "size", "sync_failed")

    def __init__(self, files: MemoryFiles, path: str, node: _Node) -> None:
        self.path = path
        self.size = len(node.content)
        # True once a sync failed: from then on, syncing this descriptor again is a violation.
        self.sync_failed = False
        self._files = files
        self._node = node
        self._closed = False

    def append(self, buffers: Sequence[Buffer]) -> None:
        self._check_open()
        self._files._append(self, self._node, b"".join(buffers))

    def sync(self) -> None:
        self._check_open()
        if self.sync_failed:
            self._files.violations.append(
                f"sync after a failed sync on one descriptor: {self.path}"
            )
        try:
            self._files._sync(self.path, self._node)
        except OSError:
            self.sync_failed = True
            raise

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._files._close(self._node)

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


class MemoryFiles:
    """Files and folders in memory, with a trace of everything done to them."""

    def __init__(
        self,
        contents: Mapping[str, bytes] | None = None,
        folders: Sequence[str] = (),
        *,
        capacity: int | None = None,
        sync_lies: bool = False,
        sync_dir_lies: bool = False,
    ) -> None:
        """A disk that holds `contents`, all of it durable; missing folders are made.

        `sync_lies` and `sync_dir_lies` plant the oldest bug of all: the call returns and nothing
        became durable. A crash test that does not notice them tests nothing.
        """
        contents = {path: bytes(content) for path, content in (contents or {}).items()}
        known = dict.fromkeys(folders)
        for path in contents:
            known |= dict.fromkeys(_parents(path))
        ordered = sorted(known)  # a parent sorts before its children
        self.trace = Trace(contents, tuple(ordered))
        self.faults = Faults()
        # What the caller did that storage must never do, one sentence each.
        self.violations: list[str] = []
        # Bytes that all files together may hold, None for no limit. May change at any time.
        self.capacity = capacity
        # Called with the path before a sync stores anything, outside every lock: may wait.
        self.on_sync: Callable[[str], None] | None = None
        self._sync_effect = SyncEffect.NOTHING if sync_lies else SyncEffect.STORED
        self._sync_dir_effect = SyncEffect.NOTHING if sync_dir_lies else SyncEffect.STORED
        self._lock = threading.RLock()
        self._folders: set[str] = {"", *ordered}
        self._names: dict[str, _Node] = {
            path: _Node(number, content) for number, (path, content) in enumerate(contents.items())
        }
        self._node_count = len(self._names)
        # Deleted or replaced while they were open: no name, but they take space.
        self._unnamed: set[_Node] = set()

    # The protocol of milepost.storage.files.Files.

    def create(self, path: str) -> MemoryAppendFile:
        with self._call("create", path):
            if path in self._names or path in self._folders:
                raise _error(errno.EEXIST, path)
            self._require_folder(folder_of(path), path)
            node = self._names[path] = _Node(self._node_count, b"")
            self._node_count += 1
            self.trace.ops.append(Create(path, node.number))
            return self._open(path, node)

    def open_append(self, path: str, size: int) -> MemoryAppendFile:
        with self._call("open", path):
            node = self._node(path)
            length = len(node.content)
            if size != length:
                content = node.writable()
                if size < length:
                    del content[size:]
                else:
                    content.extend(bytes(size - length))
                self.trace.ops.append(Truncate(path, node.number, size))
            return self._open(path, node)

    def lay(self, path: str, first: int, end: int) -> None:
        with self._lock:
            node = self._node(path)
            fault = self.faults.due("lay", path)
            wanted = end - first if fault is None else min(fault.keep, end - first)
            laid = self._write(path, node, first, bytes(wanted))
            if fault is not None:
                raise fault.os_error(path)
            if laid < wanted:
                raise _error(errno.ENOSPC, path)
        self._sync(path, node)

    def read(self, path: str, offset: int, size: int) -> bytes:
        with self._call("read", path):
            return bytes(self._node(path).content[offset : offset + size])

    def size(self, path: str) -> int:
        with self._call("read", path):
            return len(self._node(path).content)

    def exists(self, path: str) -> bool:
        with self._lock:
            return path in self._names or path in self._folders

    def names(self, folder: str) -> list[str]:
        with self._call("read", folder):
            if folder in self._names:
                raise _error(errno.ENOTDIR, folder)
            return sorted(
                path.rpartition("/")[2]
                for path in (*self._names, *self._folders)
                if path and folder_of(path) == folder
            )

    def make_folder(self, folder: str) -> None:
        with self._call("make_folder", folder):
            for path in _parents(f"{folder}/"):
                if path in self._names:
                    raise _error(errno.EEXIST if path == folder else errno.ENOTDIR, folder)
                if path not in self._folders:
                    self._folders.add(path)
                    self.trace.ops.append(MakeFolder(path))

    def delete(self, path: str) -> None:
        with self._call("delete", path):
            if path in self._folders:
                raise _error(errno.EISDIR, path)
            node = self._names.pop(path, None)
            if node is not None:
                self._orphan(node)
                self.trace.ops.append(Delete(path, node.number))

    def rename(self, old: str, new: str) -> None:
        with self._call("rename", old):
            node = self._node(old)
            if new in self._folders:
                raise _error(errno.EISDIR, new)
            self._require_folder(folder_of(new), new)
            if new == old:
                return
            replaced = self._names.get(new)
            if replaced is not None:
                self._orphan(replaced)
            del self._names[old]
            self._names[new] = node
            self.trace.ops.append(Rename(old, new, node.number))

    def sync_dir(self, folder: str) -> None:
        with self._lock:
            self._require_folder(folder, folder)
            fault = self.faults.due("sync_dir", folder)
            effect = SyncEffect.FAILED if fault else self._sync_dir_effect
            self.trace.ops.append(SyncDir(folder, effect))
        if fault:
            raise fault.os_error(folder)

    # For tests and harnesses.

    def contents(self) -> dict[str, bytes]:
        """Every file as a reader sees it now, by path in order: equal contents, equal disks."""
        with self._lock:
            return {path: bytes(self._names[path].content) for path in sorted(self._names)}

    def folders(self) -> list[str]:
        """Every folder but the root, sorted."""
        with self._lock:
            return sorted(self._folders - {""})

    @property
    def used_bytes(self) -> int:
        """What counts against `capacity`: named files, and deleted ones still open."""
        with self._lock:
            return sum(len(node.content) for node in (*self._names.values(), *self._unnamed))

    @property
    def open_paths(self) -> list[str]:
        """Named files with an open descriptor, sorted: what a clean close must leave empty."""
        with self._lock:
            return sorted(path for path, node in self._names.items() if node.writers)

    def damage(self, path: str, content: bytes) -> None:
        """Let the medium hold something else, durably; see `milepost.testing.damage`."""
        with self._lock:
            node = self._node(path)
            node.content = content
            self.trace.ops.append(Damage(path, node.number, content))

    # What descriptors call.

    def _append(self, file: MemoryAppendFile, node: _Node, data: bytes) -> None:
        with self._lock:
            fault = self.faults.due("append", file.path)
            taken = len(data) if fault is None else min(fault.keep, len(data))
            written = self._write(file.path, node, file.size, data[:taken])
            file.size += written
            if fault is not None:
                raise fault.os_error(file.path)
            if written < len(data):
                raise _error(errno.ENOSPC, file.path)

    def _write(self, path: str, node: _Node, offset: int, data: bytes) -> int:
        """As many of the bytes as there is room for; how many. Only zeros may be there before."""
        content = node.writable()
        if any(content[offset : offset + len(data)]):
            self.violations.append(f"bytes written over others, at {offset} of {path}")
        if self.capacity is not None:
            room = max(self.capacity - self.used_bytes, 0) + len(content)
            data = data[: max(room - offset, 0)]
        if data:
            self.trace.ops.append(Append(path, node.number, offset, data))
            content.extend(bytes(max(offset - len(content), 0)))
            content[offset : offset + len(data)] = data
        return len(data)

    def _sync(self, path: str, node: _Node) -> None:
        with self._lock:
            covers = len(self.trace.ops)
            fault = self.faults.due("sync", path)
        if self.on_sync is not None:
            self.on_sync(path)
        with self._lock:
            effect = SyncEffect.FAILED if fault else self._sync_effect
            self.trace.ops.append(Sync(path, node.number, covers, effect))
        if fault:
            raise fault.os_error(path)

    def _close(self, node: _Node) -> None:
        with self._lock:
            node.writers -= 1
            if not node.writers:
                self._unnamed.discard(node)

    # Helpers; the lock is held.

    def _call(self, call: Call, path: str) -> threading.RLock:
        """Count the call and fail it if that is planned; else the lock, to be held while it works."""
        with self._lock:
            fault = self.faults.due(call, path)
        if fault is not None:
            raise fault.os_error(path)
        return self._lock

    def _node(self, path: str) -> _Node:
        node = self._names.get(path)
        if node is None:
            raise _error(errno.EISDIR if path in self._folders else errno.ENOENT, path)
        return node

    def _require_folder(self, folder: str, path: str) -> None:
        if folder not in self._folders:
            raise _error(errno.ENOTDIR if folder in self._names else errno.ENOENT, path)

    def _open(self, path: str, node: _Node) -> MemoryAppendFile:
        if node.writers:
            self.violations.append(f"opened for appending twice at the same time: {path}")
        node.writers += 1
        return MemoryAppendFile(self, path, node)

    def _orphan(self, node: _Node) -> None:
        if node.writers:
            self._unnamed.add(node)


def _parents(path: str) -> list[str]:
    """Folders on the way to a path, outermost first: a/b/c → a, a/b."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts)) if parts[depth]]


def _error(number: int, path: str) -> OSError:
    # OSError picks the subclass by number: FileNotFoundError, FileExistsError, …
    return OSError(number, os.strerror(number), path)
