"""The I/O trace: everything that a workload did to its disk, in order.

Owns the vocabulary of operations and the list of them. Never interprets it: what survives a crash
is decided by `milepost.testing.disk`.

A file is known by its `node` number, as by an inode: it keeps it through renames, and a path that
is deleted and created again gets a new one. `Mark` is not an operation on the disk but a moment
beside it: a fact that became durable elsewhere at once (a catalog transaction), or a promise given
to a client (a receipt), so that a check can ask what had been promised when the machine stopped.

    trace = files.trace
    journal.append([entry]); journal.sync()
    trace.mark("receipt", 17)       # from here on, losing message 17 is a broken promise
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class SyncEffect(enum.Enum):
    """What a call of `sync` or `sync_dir` did, whatever it returned."""

    STORED = "stored"
    FAILED = "failed"  # the caller got an error; pages are clean in memory and maybe not on disk
    NOTHING = "nothing"  # a planted lie: the caller was told yes, nothing was stored


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    node: int

    def __str__(self) -> str:
        return f"create {self.path}"


@dataclass(frozen=True, slots=True)
class Append:
    path: str
    node: int
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def __str__(self) -> str:
        return f"append {self.path} [{self.offset}, {self.end})"


@dataclass(frozen=True, slots=True)
class Truncate:
    """The file was cut to `size`, or grown to it with zeros."""

    path: str
    node: int
    size: int

    def __str__(self) -> str:
        return f"truncate {self.path} to {self.size}"


@dataclass(frozen=True, slots=True)
class Sync:
    path: str
    node: int
    # Only operations before this place in the trace are stored by the sync: those that were there
    # when it was called. What other threads appended while it ran has to wait for the next one.
    covers: int
    effect: SyncEffect

    def __str__(self) -> str:
        return f"sync {self.path}{_suffix(self.effect)}"


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    node: int

    def __str__(self) -> str:
        return f"delete {self.path}"


@dataclass(frozen=True, slots=True)
class Rename:
    path: str
    new_path: str
    node: int

    def __str__(self) -> str:
        return f"rename {self.path} to {self.new_path}"


@dataclass(frozen=True, slots=True)
class MakeFolder:
    path: str

    def __str__(self) -> str:
        return f"make folder {self.path}"


@dataclass(frozen=True, slots=True)
class SyncDir:
    path: str
    effect: SyncEffect

    def __str__(self) -> str:
        return f"sync folder {self.path or '.'}{_suffix(self.effect)}"


@dataclass(frozen=True, slots=True)
class Damage:
    """The medium changed by itself: the file now holds `content`, durably."""

    path: str
    node: int
    content: bytes

    def __str__(self) -> str:
        return f"damage {self.path}"


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    payload: Any

    def __str__(self) -> str:
        return f"mark {self.name} {self.payload!r:.60}"


Op = Create | Append | Truncate | Sync | Delete | Rename | MakeFolder | SyncDir | Damage | Mark


@dataclass(slots=True)
class Trace:
    """What the disk held at first, and what was done to it since."""

    # path → content, all durable, with node numbers 0, 1, 2, … in the order of the mapping.
    contents: Mapping[str, bytes] = field(default_factory=dict)
    # Folders that were there at first, parents before children; the root is not listed.
    folders: tuple[str, ...] = ()
    # Invariant: only grows.
    ops: list[Op] = field(default_factory=list)

    def mark(self, name: str, payload: Any = None) -> None:
        """Note a moment: durable elsewhere, or promised to a client.

        The payload is kept as it is, so give a value that is never changed afterwards.
        """
        self.ops.append(Mark(name, payload))

    def __len__(self) -> int:
        return len(self.ops)


def folder_of(path: str) -> str:
    """The folder that holds the path's name; the root is the empty string."""
    return path.rpartition("/")[0]


def _suffix(effect: SyncEffect) -> str:
    return "" if effect is SyncEffect.STORED else f" ({effect.value})"
