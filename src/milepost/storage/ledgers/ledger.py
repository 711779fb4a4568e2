"""One ledger: an append-only file of entries, written by checkpoints.

An entry becomes part of a ledger when the journal has made it durable, never before. Until the next
checkpoint its bytes are held in memory (and served from there); the checkpoint appends them to the
file, syncs it, and writes what the file now holds into the catalog. So the file may be trusted up to
the catalog's size and not one byte further: whatever lies behind is cut and replayed from the journal.

A ledger takes entry last + 1 and nothing else. A sealed one takes nothing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import google_crc32c

from milepost.errors import CorruptData, LedgerNotFound, OutOfOrderAppend, UnknownFormat
from milepost.positions.ids import Position
from milepost.positions.ranges import Range
from milepost.positions.spans import Span
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE, LEDGER, MILEPOSTS, FileHeader
from milepost.storage.ledgers.entry import Block, Entry, decode_entries
from milepost.storage.ledgers.heads import HEAD_SIZE, HeadPlace, HeadsPlan
from milepost.storage.ledgers.loss import Loss, Shortage
from milepost.storage.ledgers.mileposts import ROW_SIZE, FileBytes, Mileposts
from milepost.storage.ledgers.paging import Disk, must_bring
from milepost.storage.ledgers.rebuild import rebuild
from milepost.storage.ledgers.stored_run import PLAIN, RunLimits, StoredRun
from milepost.storage.ledgers.stretch import Stretch

logger = logging.getLogger(__name__)

FOLDER = "ledgers"
LEDGER_SUFFIX = ".ledger"
# A checkpoint joins smaller blocks into ones of this size: a ledger may hold a block for each message,
# and what is done for each of those on the loop would hold up everybody.
JOINED_SIZE = 16 * 1024
# The newest rows of a ledger that still grows stay in memory up to this many: they are asked for most.
_ROWS_HELD_MAX = 4096
# What is lost is filled up in pieces of this size.
_FILL_SIZE = 1024 * 1024


class LedgerRow(NamedTuple):
    """A ledger as the catalog knows it: what its file holds for certain."""

    ledger_id: int
    topic_id: int
    first_index: int
    first_time_ms: int
    entries: int = 0
    end_index: int = 0
    last_time_ms: int = 0
    size_bytes: int = 0
    mileposts_crc: int = 0
    sealed: bool = False


def ledger_path(ledger_id: int) -> str:
    return f"{FOLDER}/{ledger_id:016x}{LEDGER_SUFFIX}"


def mileposts_path(ledger_id: int) -> str:
    return f"{FOLDER}/{ledger_id:016x}.mileposts"


class Ledger:
    """One ledger: what is durable of it, wherever it lies."""

    __slots__ = (
        "_block_offsets",
        "_blocks",
        "_mileposts",
        "_newest_index",
        "_rows_stored",
        "end_index",
        "entries",
        "first_index",
        "first_time_ms",
        "is_gone",
        "is_struck",
        "last_time_ms",
        "ledger_id",
        "sealed",
        "size_bytes",
        "stored",
        "topic_id",
    )

    def __init__(self, row: LedgerRow) -> None:
        self.ledger_id = row.ledger_id
        self.topic_id = row.topic_id
        self.first_index = row.first_index
        self.first_time_ms = row.first_time_ms
        self.sealed = row.sealed
        self.is_gone = False
        """Trimmed, or deleted with its topic: its file may vanish at any moment."""
        self.is_struck = False
        """Entries were damaged in the journal: what is held in memory has to be checked, too."""
        self.stored = row
        """What the last checkpoint wrote. Invariant: never ahead of the file."""
        # Everything durable, stored or still in memory only. Invariant: never behind `stored`.
        self.entries = row.entries
        self.end_index = row.end_index if row.entries else row.first_index
        self.last_time_ms = row.last_time_ms if row.entries else row.first_time_ms
        self.size_bytes = row.size_bytes or HEADER_SIZE
        # The newest bytes. Invariant: contiguous, ending at size_bytes, covering all that is not
        # stored; blocks that are stored too stay for the consumers that are just behind.
        self._blocks: list[bytes] = []
        self._block_offsets: list[int] = []
        # The first index of the last of them, if it is still the block that was admitted last.
        self._newest_index: int | None = None
        self._mileposts: Mileposts | None = None if row.entries else Mileposts()
        # Rows that the file of mileposts holds. Invariant: all that are stored, or none because the
        # file was not intact and is to be written anew.
        self._rows_stored = row.entries

    def __repr__(self) -> str:
        return f"<Ledger {self.ledger_id}: {self.entries} entries, end index {self.end_index}>"

    # -- growing -----------------------------------------------------------------------------------

    def admit(self, block: Block, files: Files) -> None:
        """Take a block that the journal has made durable."""
        if self.sealed or block.ledger_id != self.ledger_id or block.first_entry_id != self.entries:
            raise OutOfOrderAppend(
                f"ledger {self.ledger_id} expected entry {self.entries}, got entry "
                f"{block.first_entry_id} of ledger {block.ledger_id}"
                + (" (it is sealed)" if self.sealed else "")
            )
        _, _, data, sizes, last_indexes, flags, time_ms = block
        if last_indexes[0] < self.end_index:
            raise CorruptData(
                f"ledger {self.ledger_id}: entry {self.entries} ends with index {last_indexes[0]}, "
                f"and index {self.end_index} is the next"
            )
        mileposts = self._mileposts or self.mileposts(files)
        offset, relative_ms = self.size_bytes, time_ms - self.first_time_ms
        mileposts.extend(offset, sizes, last_indexes, relative_ms, flags, self.first_index)
        self._blocks.append(data)
        self._block_offsets.append(offset)
        self._newest_index = self.end_index
        self.entries += len(sizes)
        self.end_index = last_indexes[-1] + 1
        self.last_time_ms = time_ms
        self.size_bytes = offset + len(data)

    @property
    def is_dirty(self) -> bool:
        """Does it hold anything that the catalog does not know yet?"""
        return self.entries != self.stored.entries or self.sealed != self.stored.sealed

    # -- looking up --------------------------------------------------------------------------------

    def mileposts(self, files: Files) -> Mileposts:
        """The rows, checked on first use and made again from the ledger if they are not intact."""
        if self._mileposts is None:
            must_bring(files, _MissingRows(self, files))
            self._keep_mileposts(*self._load_mileposts(files), files)
        assert self._mileposts is not None
        return self._mileposts

    async def bring_mileposts(self, disk: Disk, files: Files) -> None:
        """Bring the rows, checked, or made again from the ledger."""
        found = await disk.perform(self._load_mileposts)
        if self._mileposts is None:  # else they were brought for another step meanwhile
            self._keep_mileposts(*found, files)

    def _keep_mileposts(self, mileposts: Mileposts, is_rebuilt: bool, files: Files) -> None:
        self._mileposts = mileposts
        if is_rebuilt:
            self._rows_stored = 0
        else:
            mileposts.reopen(FileBytes(files, mileposts_path(self.ledger_id)))

    def span(self, entry_id: int, files: Files) -> Span:
        rows = self.mileposts(files).rows(max(entry_id - 1, 0), entry_id + 1)
        before = rows[0].last_index if entry_id else -1
        return Span(self.first_index + before + 1, rows[-1].last_index - before)

    def indexes(self, entry_id: int, files: Files) -> tuple[int, int, int]:
        """First index, end index and flags of an entry."""
        before, last, flags = self.mileposts(files).ends(entry_id)
        first = self.first_index
        return first + before + 1, first + last + 1, flags

    def entry_with(self, index: int, files: Files) -> int:
        return self.mileposts(files).entry_with(index - self.first_index)

    def stretch(self, index: int, count_max: int, files: Files) -> Stretch:
        """Up to so many entries, the first of them holding an index."""
        mileposts = self.mileposts(files)
        entry_id = mileposts.entry_with(index - self.first_index)
        end_id = min(entry_id + count_max, self.entries)
        before, _, _ = mileposts.ends(entry_id)
        last_indexes, flags = mileposts.columns(entry_id, end_id)
        first, base = self.first_index + before + 1, self.first_index
        return Stretch(self.ledger_id, entry_id, first, base, last_indexes, flags)

    def _load_mileposts(self, files: Files) -> tuple[Mileposts, bool]:
        """The rows that are stored, and whether they had to be made again."""
        self._check_header(files)
        stored, path = self.stored, mileposts_path(self.ledger_id)
        mileposts = Mileposts()
        try:
            FileHeader.decode(files.read(path, 0, HEADER_SIZE), path, MILEPOSTS)
            if mileposts.load(FileBytes(files, path), stored.entries, stored.mileposts_crc):
                return mileposts, False
        except UnknownFormat:
            raise
        except (OSError, CorruptData):
            pass  # missing, short or damaged
        logger.info("%s: missing or not intact, it is made again from the ledger", path)
        return rebuild(files, ledger_path(self.ledger_id), stored), True

    def _check_header(self, files: Files) -> None:
        """Refuse a ledger file of another format, or of another ledger. A header that is merely
        damaged costs nothing: entries vouch for themselves."""
        path = ledger_path(self.ledger_id)
        try:
            head = files.read(path, 0, HEADER_SIZE)
        except FileNotFoundError:
            if self.stored.entries:
                logger.error("%s is missing, with %d entries", path, self.stored.entries)
            return
        except OSError:
            return  # the first read of its bytes will raise
        if not FileHeader.is_whole(head):
            logger.warning("%s: its header is damaged", path)
            return
        found = FileHeader.decode(head, path, LEDGER)
        mine = (self.ledger_id, self.topic_id, self.first_index, self.first_time_ms)
        if found[2:] != mine:
            raise CorruptData(f"{path}: belongs to ledger {found[2:]}, expected {mine}")

    # -- reading -----------------------------------------------------------------------------------

    def plan_read(self, entry_id: int, end_id: int, size_max: int, files: Files) -> ReadPlan:
        """Up to `size_max` bytes of entries from `entry_id` on, at least one of them."""
        offsets, last_indexes = self.mileposts(files).places(entry_id, end_id)
        start = offsets[0]
        limit = start + size_max
        if not self._block_offsets or start < self._block_offsets[0]:
            limit = min(limit, self.stored.size_bytes)  # behind that a checkpoint may be writing
        end = self.offset_of(end_id, files)
        if end > limit:
            # The last one that begins within the limit may end behind it.
            count = max(bisect_right(offsets, limit) - 1, 1)
            end_id = entry_id + count
            end = self.offset_of(end_id, files)
            offsets, last_indexes = offsets[:count], last_indexes[:count]
        data = self._in_memory(start, end)
        return ReadPlan(self, entry_id, offsets, last_indexes, start, end, data)

    def plan_run(
        self, index: int, end_index: int, limits: RunLimits, files: Files
    ) -> StoredRun | None:
        """The plain entries that hold `[index, end_index)`, from its first index on, or fewer of them;
        None if there are not two. An entry that is inside the range in part is none of them."""
        mileposts = self.mileposts(files)
        entry_id = mileposts.entry_with(index - self.first_index)
        before, _, _ = mileposts.ends(entry_id)
        if self.first_index + before + 1 != index or self.is_struck:
            return None
        end_id = min(entry_id + limits.entries_max, self.entries)
        last_indexes, flags = mileposts.columns(entry_id, end_id)
        count = bisect_left(last_indexes, end_index - self.first_index)
        if not PLAIN.issuperset(flags[:count]):
            count = next(at for at, one in enumerate(flags) if one not in PLAIN)
        if count < 2:
            return None
        offsets, _ = mileposts.places(entry_id, entry_id + count)
        start, end = offsets[0], self.offset_of(entry_id + count, files)
        limit = start + limits.size_max
        if not self._block_offsets or start < self._block_offsets[0]:
            limit = min(limit, self.stored.size_bytes)  # behind that a checkpoint may be writing
        if end > limit:
            # The last one that begins within the limit may end behind it.
            count = bisect_right(offsets, limit) - 1
            if count < 2:
                return None
            end = offsets[count]
        data = self._in_memory(start, end)
        run_end = self.first_index + last_indexes[count - 1] + 1
        path = ledger_path(self.ledger_id)
        return StoredRun(self, path, entry_id, count, index, run_end, start, end, data)

    def plan_heads(self, entry_ids: Sequence[int], files: Files) -> HeadsPlan:
        """The heads of some entries, in order."""
        places: list[HeadPlace] = []
        for entry_id in entry_ids:
            row = self.mileposts(files).row(entry_id)
            end = self.offset_of(entry_id + 1, files)
            data = self._in_memory(row.offset, min(end, row.offset + HEAD_SIZE))
            last_index = self.first_index + row.last_index
            places.append(HeadPlace(entry_id, last_index, row.offset, end, data))
        return HeadsPlan(self, ledger_path(self.ledger_id), places)

    def newest(self, index: int, *, entries_max: int, size_max: int) -> list[Entry]:
        """The entries of the newest block, if that begins with this index and is no more than that:
        what consumers that keep up want, without looking for it. Else none."""
        if self.is_struck or index != self._newest_index or self.end_index - index > entries_max:
            return []
        if len(self._blocks[-1]) > size_max:
            return []
        return decode_entries(self._blocks[-1], "memory", check=False)

    def entries_in_memory(self, ranges: Sequence[Range], files: Files) -> list[Entry]:
        """The entries that hold these ranges, which ascend; those in front of the first whose bytes are
        not in memory. For ranges that are small and lie apart."""
        found: list[Entry] = []
        if self.is_struck:
            return found
        for entry_id, end_id in self._holding(ranges, files):
            start = self.offset_of(entry_id, files)
            data = self._in_memory(start, self.offset_of(end_id, files))
            if data is None:
                break
            found += decode_entries(data, "memory", check=False)
        return found

    def plan_reads(self, ranges: Sequence[Range], size_max: int, files: Files) -> list[ReadPlan]:
        """Reads of the entries that hold these ranges, in order, each of consecutive entries. No entry that
        holds one of them lies between two that are read."""
        plans: list[ReadPlan] = []
        for entry_id, end_id in self._holding(ranges, files):
            plan = self.plan_read(entry_id, end_id, size_max, files)
            plans.append(plan)
            size_max -= plan.end - plan.start
            if size_max <= 0 or len(plan.offsets) < end_id - entry_id:
                break
        return plans

    def _holding(self, ranges: Sequence[Range], files: Files) -> Iterator[tuple[int, int]]:
        """Which entries hold these ranges: the first and the one behind the last, each entry once."""
        mileposts, base, behind = self.mileposts(files), self.first_index, 0
        for first, end in ranges:
            if first >= self.end_index:
                break  # it is in the next ledger
            first_id = last_id = mileposts.entry_with(first - base)
            if end - first > 1:
                last_id = min(mileposts.entry_with(end - 1 - base), self.entries - 1)
            entry_id, behind = max(first_id, behind), last_id + 1
            if entry_id < behind:
                yield entry_id, behind

    def offset_of(self, entry_id: int, files: Files) -> int:
        """Where an entry begins; where the last one ends, for the entry behind it."""
        if entry_id == self.entries:
            return self.size_bytes
        return self.mileposts(files).offset(entry_id)

    def _in_memory(self, start: int, end: int) -> bytes | None:
        """Those bytes, if all are held in memory."""
        offsets = self._block_offsets
        if not offsets or start < offsets[0]:
            return None
        at = bisect_right(offsets, start) - 1
        if end <= offsets[at] + len(self._blocks[at]):
            return self._blocks[at][start - offsets[at] : end - offsets[at]]
        last = bisect_right(offsets, end - 1) - 1
        first_block = self._blocks[at][start - offsets[at] :]
        return b"".join(
            (
                first_block,
                *self._blocks[at + 1 : last],
                self._blocks[last][: end - offsets[last]],
            )
        )

    def _is_intact(self, entry_id: int, files: Files) -> bool:
        try:
            return bool(self.plan_read(entry_id, entry_id + 1, 1, files).perform(files))
        except CorruptData:
            return False

    # -- the checkpoint's side ---------------------------------------------------------------------

    def plan_flush(self, incarnation: bytes, *, fills: bool = False) -> Flush:
        """What to write so that the file holds everything that is durable now.

        `fills`: the file is known to be short, and zeros go where something is lost.
        """
        stored = self.stored
        rows_stored = self._rows_stored
        rows, crc = b"", stored.mileposts_crc
        if self._mileposts is not None:  # else no entry was added: it is being sealed
            rows = self._mileposts.tail_bytes(rows_stored, self.entries)
            crc = google_crc32c.extend(crc if rows_stored else 0, rows)
        start = stored.size_bytes or HEADER_SIZE
        blocks = []
        if self.entries > stored.entries:
            blocks = self._blocks[bisect_left(self._block_offsets, start) :]
        row = LedgerRow(
            self.ledger_id,
            self.topic_id,
            self.first_index,
            self.first_time_ms,
            self.entries,
            self.end_index,
            self.last_time_ms,
            self.size_bytes if self.entries else 0,
            crc,
            self.sealed,
        )
        return Flush(row, stored.size_bytes, blocks, rows_stored, rows, incarnation, fills)

    def loss(self, found: int, reason: str, now_ms: int, files: Files) -> Loss:
        """What is lost when the file has so many bytes left."""
        mileposts, stored = self.mileposts(files), self.stored
        first_id = 0
        if found > HEADER_SIZE:
            # The last entry that begins in what is left may end behind it.
            offsets, _ = mileposts.places(0, stored.entries)
            first_id = bisect_left([*offsets[1:], stored.size_bytes], found + 1)
        while first_id and not self._is_intact(first_id - 1, files):
            first_id -= 1  # mileposts that were made again may have guessed where it ends
        first_index = self.span(first_id, files).first_index
        return Loss(self.ledger_id, first_index, stored.end_index, reason, now_ms)

    def flushed(self, flush: Flush, files: Files) -> None:
        """The flush is in the catalog: from now on the file answers for those entries."""
        offsets = self._block_offsets
        flushed = slice(
            bisect_left(offsets, flush.from_size or HEADER_SIZE),
            bisect_left(offsets, flush.row.size_bytes),
        )
        self._newest_index = None
        self._blocks[flushed] = flush.blocks
        offsets[flushed] = flush.block_offsets()
        self.stored = flush.row
        count, mileposts = flush.row.entries, self._mileposts
        if flush.rows:
            self._rows_stored = count
        if mileposts is None or self._rows_stored != count:
            return
        if count - mileposts.mapped_count >= (1 if self.sealed else _ROWS_HELD_MAX):
            mileposts.adopt(FileBytes(files, mileposts_path(self.ledger_id)), count)

    def stored_blocks(self) -> int:
        """How many blocks in memory the file holds too."""
        return bisect_right(self._block_offsets, self.stored.size_bytes - 1)

    def drop_blocks(self, count: int) -> None:
        """Forget the oldest blocks in memory, which must be stored."""
        assert self.stored_blocks() >= count, self
        self._newest_index = None
        del self._block_offsets[:count]
        del self._blocks[:count]


@dataclass(frozen=True, slots=True)
class _MissingRows:
    """Mileposts that a step lacks. Two that are equal are brought once."""

    ledger: Ledger
    files: Files

    def __call__(self, disk: Disk) -> Awaitable[None]:
        return self.ledger.bring_mileposts(disk, self.files)


class ReadPlan(NamedTuple):
    """Entries to be read: planned on the loop, performed wherever the disk may block."""

    ledger: Ledger
    first_entry_id: int
    offsets: Sequence[int]
    """Where each of the entries begins in the file."""
    last_indexes: Sequence[int]
    """Of each of the entries, relative to the ledger's first index."""
    start: int
    end: int
    data: bytes | None
    """The bytes, if they were still in memory: then `perform` touches no file."""

    def perform(self, files: Files) -> list[Entry]:
        """The entries. Damage costs the damaged entry only: those before it are returned, and it
        is named when it comes first."""
        path, data = ledger_path(self.ledger.ledger_id), self.data
        if data is None:
            data = self._load(path, files)
        elif not self.ledger.is_struck:
            return decode_entries(data, "memory", check=False)
        if len(data) == self.end - self.start:
            try:
                entries = decode_entries(data, path)
            except CorruptData:
                pass
            else:
                if self._are_mine(entries):
                    return entries
        return self._salvage(data, path, files)

    def _load(self, path: str, files: Files) -> bytes:
        try:
            return files.read(path, self.start, self.end - self.start)
        except FileNotFoundError:
            if self.ledger.is_gone:
                raise LedgerNotFound(f"ledger {self.ledger.ledger_id} has been trimmed") from None
            return b""

    def _check_length(self, path: str, files: Files, entry: str) -> None:
        """Raise `Shortage` if the file has fewer bytes than were synced to it."""
        expected = self.ledger.stored.size_bytes
        found = files.size(path) if files.exists(path) else 0
        if found < expected and not self.ledger.is_gone:
            raise Shortage(path, found, expected, entry)

    def _are_mine(self, entries: list[Entry]) -> bool:
        wanted = self.first_entry_id
        return (
            len(entries) == len(self.offsets)
            and all(
                entry.entry_id == entry_id and entry.ledger_id == self.ledger.ledger_id
                for entry_id, entry in enumerate(entries, wanted)
            )
            and entries[-1].last_index == self.last_indexes[-1] + self.ledger.first_index
        )

    def _salvage(self, data: bytes, path: str, files: Files) -> list[Entry]:
        """Entry by entry, up to the first that is not intact."""
        good: list[Entry] = []
        ends = [*self.offsets[1:], self.end]
        for n, (offset, end) in enumerate(zip(self.offsets, ends, strict=True)):
            position = Position(self.ledger.ledger_id, self.first_entry_id + n)
            where = f"{path}: byte {offset}: entry {position}"
            try:
                one = decode_entries(data[offset - self.start : end - self.start], where)
            except CorruptData:
                one = []
            if len(one) != 1 or one[0].position != position:
                if good:
                    return good
                last_index = self.ledger.first_index + self.last_indexes[n]
                self._check_length(path, files, f"{where} (last index {last_index})")
                raise CorruptData(f"{where} (last index {last_index}) is damaged")
            good += one
        return good


class Flush(NamedTuple):
    """One ledger's part of a checkpoint."""

    row: LedgerRow
    """The ledger as it will be when this is done."""
    from_size: int
    blocks: list[bytes]
    """What to append; `perform` joins small ones."""
    from_rows: int
    rows: bytes
    incarnation: bytes
    fills: bool = False
    """Put zeros where the file has lost something; else that is a `Shortage`."""

    def perform(self, files: Files) -> bool:
        """Write and sync; returns whether a file was begun, so that its name must be made durable
        too. Repeating it is harmless: what was written before without being told to the catalog is
        cut off again."""
        row = self.row
        if self.blocks or self.fills:
            self.blocks[:] = _joined(self.blocks)
            path = ledger_path(row.ledger_id)
            self._append(files, LEDGER, path, self.from_size, self.blocks, sync=True)
        if self.rows:
            from_size = HEADER_SIZE + self.from_rows * ROW_SIZE if self.from_rows else 0
            path = mileposts_path(row.ledger_id)
            # Not synced: it can be made again, and its checksum tells when it must be.
            self._append(files, MILEPOSTS, path, from_size, [self.rows], sync=False)
        # Whether the file was there already says nothing: an attempt that failed may have made it.
        return (bool(self.blocks) and self.from_size == 0) or self.fills

    def block_offsets(self) -> list[int]:
        """Where each block begins in the file."""
        sizes = (len(block) for block in self.blocks[:-1])
        return list(accumulate(sizes, initial=self.from_size or HEADER_SIZE)) if self.blocks else []

    def _append(
        self,
        files: Files,
        kind: bytes,
        path: str,
        from_size: int,
        buffers: list[bytes],
        *,
        sync: bool,
    ) -> None:
        row = self.row
        created = not files.exists(path)
        found = 0 if created else files.size(path)
        # Mileposts can be made again, which their checksum will ask for.
        if found < from_size and kind == LEDGER and not self.fills:
            raise Shortage(path, found, from_size)
        keeps = min(found, from_size) if found >= HEADER_SIZE else 0
        file = files.create(path) if created else files.open_append(path, keeps)
        try:
            if keeps < from_size:
                lost = from_size - max(keeps, HEADER_SIZE)
                zeros = [bytes(_FILL_SIZE)] * (lost // _FILL_SIZE) + [bytes(lost % _FILL_SIZE)]
                buffers = [*zeros, *buffers]
            if keeps == 0:
                header = FileHeader(
                    kind,
                    self.incarnation,
                    row.ledger_id,
                    row.topic_id,
                    row.first_index,
                    row.first_time_ms,
                )
                buffers = [header.encode(), *buffers]
            file.append(buffers)
            if sync:
                file.sync()
        except OSError:
            file.close()
            with suppress(OSError):  # on a full disk the journal needs the space more
                files.open_append(path, keeps).close()
            raise
        finally:
            file.close()


def _joined(blocks: list[bytes]) -> list[bytes]:
    """The same bytes in blocks of `JOINED_SIZE` or more; those that are as large are not copied."""
    joined: list[bytes] = []
    run: list[bytes] = []
    size = 0
    for block in blocks:
        if len(block) < JOINED_SIZE:
            run.append(block)
            size += len(block)
        if run and (size >= JOINED_SIZE or len(block) >= JOINED_SIZE):
            joined.append(b"".join(run))
            run.clear()
            size = 0
        if len(block) >= JOINED_SIZE:
            joined.append(block)
    if run:
        joined.append(b"".join(run))
    return joined
