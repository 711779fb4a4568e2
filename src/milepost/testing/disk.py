"""The disk model: what of a trace is durable, what is still volatile, what a crash may leave.

Owns the rules below and applies a `Trace` to them, operation by operation. Never chooses: the
caller says which volatile operations survive (`milepost.testing.crash` enumerates choices), and
`Disk.image` builds that disk.

Contents
  1. Appended bytes are volatile until a `sync` of that file stored them; a sync stores what had
     been appended when it was called, by whatever descriptor.
  2. Volatile appends survive a crash independently of each other, within one file and across files:
     a later one may be there and an earlier one not. There is no order but that made by a sync.
  3. An append that survives may survive in part: any subset of the 512-byte sectors it covers, a
     prefix that ends at any byte, or garbage or zeros in place of its bytes.
  4. A file ends where its last surviving byte ends. What is missing before that reads as zeros.
  5. Stored bytes never change by writing beside them, not even within one sector. (SQLite calls
     this powersafe overwrite.) Media damage is apart: `milepost.testing.damage`.
  6. A truncation is an operation like an append: volatile until a sync, surviving or not, whole.
  7. A failed sync makes the appends it covered doubtful: no later sync stores them, though it
     returns success, and at any later crash each may be there or not. Only a truncation takes them
     away, and what a later sync stored in their place.

Names
  8. Creations, deletions and renames are volatile until `sync_dir` stored the folder they happened
     in, and across folders both of them. Syncing a file does not store its name.
  9. Those of one file survive as a prefix of their order; those of different files independently.
     A rename is atomic: the new name holds the old file or the new one, never nothing.
 10. A folder is a name in its parent. If it is lost, so is everything in it.
 11. Names and contents are independent: a rename may survive the bytes it was meant to publish.
 12. A failed `sync_dir` stores nothing; a later one may.

This is weaker than any one of ext4, XFS or Btrfs (which keep names in order, and mostly write
contents before the size), and about what POSIX allows. Code that is correct here is correct there.

    disk = Disk(trace)
    disk.advance(12)                                    # the machine stops after 12 operations
    disk.image(names=(), writes={})                     # nothing volatile survived
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from milepost.testing.files import MemoryFiles
from milepost.testing.trace import (
    Append,
    Create,
    Damage,
    Delete,
    MakeFolder,
    Mark,
    Op,
    Rename,
    Sync,
    SyncDir,
    SyncEffect,
    Trace,
    Truncate,
    folder_of,
)

SECTOR_BYTES = 512

# What is left of one append: pieces and where they lie in the file. None of them: it is lost, but
# for a truncation, which survives whole.
Pieces = Iterable[tuple[int, bytes]]


@dataclass(slots=True)
class VolatileWrite:
    """An append or truncation that no sync has stored."""

    # Its place in the trace; names it in `Disk.image`.
    place: int
    op: Append | Truncate
    # True once a failed sync covered it (rule 7).
    doubtful: bool = False
    # What was stored in its place since, as pieces of the file.
    stored_over: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class VolatileName:
    """A creation, deletion, rename or new folder that no `sync_dir` has stored."""

    place: int
    op: Create | Delete | Rename | MakeFolder
    # Folders that must still be synced. Invariant: not empty.
    waits_for: set[str]


class Disk:
    """The state after some number of operations of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # Operations applied so far.
        self.point = 0
        # Facts marked so far, in order.
        self.marks: list[Mark] = []
        # Volatile name operations, in order of the trace.
        self.volatile_names: list[VolatileName] = []
        # Volatile writes of each node, in order of the trace. Invariant: no empty list.
        self._writes: dict[int, list[VolatileWrite]] = {}
        # What is durable: folders, name → node, node → content.
        self._folders = set(trace.folders)
        self._names = {path: node for node, path in enumerate(trace.contents)}
        self._contents = dict(enumerate(trace.contents.values()))

    @property
    def volatile_writes(self) -> list[VolatileWrite]:
        """In order of the trace, over all files."""
        return sorted((w for writes in self._writes.values() for w in writes), key=_place)

    def advance(self, point: int) -> None:
        """Apply operations until `point` of them are applied."""
        if not self.point <= point <= len(self.trace):
            raise ValueError(
                f"cannot go from operation {self.point} to {point} of {len(self.trace)}"
            )
        while self.point < point:
            self._apply(self.point, self.trace.ops[self.point])
            self.point += 1

    def _apply(self, place: int, op: Op) -> None:
        match op:
            case Append() | Truncate():
                self._writes.setdefault(op.node, []).append(VolatileWrite(place, op))
            case Sync():
                self._sync(op)
            case Create():
                self._contents[op.node] = b""
                self._volatile_name(place, op, folder_of(op.path))
            case Delete() | MakeFolder():
                self._volatile_name(place, op, folder_of(op.path))
            case Rename():
                self._volatile_name(place, op, folder_of(op.path), folder_of(op.new_path))
            case SyncDir():
                self._sync_dir(op)
            case Damage():
                self._contents[op.node] = op.content
                self._writes.pop(op.node, None)
            case Mark():
                self.marks.append(op)

    def _volatile_name(
        self, place: int, op: Create | Delete | Rename | MakeFolder, *folders: str
    ) -> None:
        self.volatile_names.append(VolatileName(place, op, set(folders)))

    def _sync(self, sync: Sync) -> None:
        writes = self._writes.pop(sync.node, [])
        left: list[VolatileWrite] = []
        content: bytearray | None = None
        for write in writes:
            if write.place >= sync.covers or sync.effect is SyncEffect.NOTHING:
                left.append(write)
            elif isinstance(write.op, Append) and (
                write.doubtful or sync.effect is SyncEffect.FAILED
            ):
                write.doubtful = True
                left.append(write)
            elif sync.effect is SyncEffect.FAILED:
                left.append(write)
            else:
                content = bytearray(self._contents[sync.node]) if content is None else content
                if isinstance(write.op, Truncate):
                    # Doubtful appends before it are cut too; those kept here all came before it.
                    left = _cut(left, write.op.size)
                else:
                    for before in left:
                        _note_stored(before, write.op)
                _put(content, write.op, _whole(write.op))
        if content is not None:
            self._contents[sync.node] = bytes(content)
        if left:
            self._writes[sync.node] = left

    def _sync_dir(self, sync: SyncDir) -> None:
        if sync.effect is not SyncEffect.STORED:
            return
        for name in self.volatile_names:
            name.waits_for.discard(sync.path)
        # A stored operation on a file's name implies those before it on the same file (rule 9).
        stored = {
            name.op.node: name.place
            for name in self.volatile_names
            if not name.waits_for and not isinstance(name.op, MakeFolder)
        }
        left: list[VolatileName] = []
        for name in self.volatile_names:
            node = None if isinstance(name.op, MakeFolder) else name.op.node
            if name.waits_for and (node is None or name.place > stored.get(node, -1)):
                left.append(name)
            else:
                _rename(self._names, self._folders, name.op)
        self.volatile_names = left

    def image(self, names: Collection[int], writes: Mapping[int, Pieces]) -> MemoryFiles:
        """The disk after a crash here, if of the volatile operations exactly these survived.

        `names` holds places of name operations; `writes` maps places of appends to what is left of
        them, and places of truncations to anything. Rules 4, 9 and 10 are applied to the choice.
        """
        surviving_names = dict(self._names)
        folders = set(self._folders)
        lost_nodes: set[int] = set()
        for name in self.volatile_names:
            node = None if isinstance(name.op, MakeFolder) else name.op.node
            if name.place in names and node not in lost_nodes:
                _rename(surviving_names, folders, name.op)
            elif node is not None:
                lost_nodes.add(node)
        reachable = {""}
        for folder in sorted(folders):  # a parent sorts before its children
            if folder_of(folder) in reachable:
                reachable.add(folder)
        return MemoryFiles(
            {
                path: self._content(node, writes)
                for path, node in surviving_names.items()
                if folder_of(path) in reachable
            },
            tuple(reachable - {""}),
        )

    def _content(self, node: int, writes: Mapping[int, Pieces]) -> bytes:
        durable = self._contents[node]
        surviving = [w for w in self._writes.get(node, ()) if w.place in writes]
        if not surviving:
            return durable  # shared by every image that has it
        content = bytearray(durable)
        for write in surviving:
            _put(content, write.op, writes[write.place])
            for offset, data in write.stored_over:
                content[offset : offset + len(data)] = data
        return bytes(content)


def _place(write: VolatileWrite) -> int:
    return write.place


def _note_stored(before: VolatileWrite, op: Append) -> None:
    """An append was stored that came later: what it has written over a doubtful one is gone for ever."""
    if isinstance(before.op, Append):
        first, end = max(before.op.offset, op.offset), min(before.op.end, op.end)
        if first < end:
            piece = op.data[first - op.offset : end - op.offset]
            before.stored_over.append((first, piece))


def _whole(op: Append | Truncate) -> Pieces:
    return ((op.offset, op.data),) if isinstance(op, Append) else ()


def _put(content: bytearray, op: Append | Truncate, pieces: Pieces) -> None:
    if isinstance(op, Truncate):
        del content[op.size :]
        content.extend(bytes(op.size - len(content)))
        return
    for offset, data in pieces:
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data


def _cut(writes: list[VolatileWrite], size: int) -> list[VolatileWrite]:
    left = []
    for write in writes:
        op = write.op
        if isinstance(op, Append) and op.end > size:
            if op.offset >= size:
                continue
            write.op = Append(op.path, op.node, op.offset, op.data[: size - op.offset])
            write.stored_over = [
                (at, piece[: size - at]) for at, piece in write.stored_over if at < size
            ]
        left.append(write)
    return left


def _rename(
    names: dict[str, int], folders: set[str], op: Create | Delete | Rename | MakeFolder
) -> None:
    match op:
        case Create():
            names[op.path] = op.node
        case Delete():
            # Another file may have the name by now, if this deletion comes from a choice.
            if names.get(op.path) == op.node:
                del names[op.path]
        case Rename():
            if names.get(op.path) == op.node:
                del names[op.path]
            names[op.new_path] = op.node
        case MakeFolder():
            folders.add(op.path)
