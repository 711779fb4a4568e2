"""Where each entry of a ledger lies, its last index and its time: found by bisection.

One row an entry: byte offset, last index, time, flags; index → entry and time → entry by bisection.
The rows of a checkpointed ledger are read from its `.mileposts` file, a page at a time: of each page
only its first row (a *fence*) is kept in memory, so that ten million entries cost some 300 KiB and a
look-up costs one small read. Rows since the last checkpoint are four arrays. Rows are relative to
the ledger's own start, so 32 bits do:

    offset   from the start of the file      last index   minus the ledger's first index
    time     minus the ledger's first time    flags        of the entry

The file is a convenience: its checksum stands in the catalog, and when it is missing or does not
match, it is made again from the ledger. It is read, not mapped: a bad sector under a map would end
the process, and the kernel counts pages around a touched one as ours by the megabyte.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import google_crc32c

from milepost.errors import CorruptData
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE

ROW_SIZE = 16
_INDEX, _TIME = 1, 2  # columns of a row that can be looked for
_FLAGS = 3
# What 32 bits can tell: a ledger is rolled before it would outgrow its mileposts.
OFFSET_MAX = 2**32 - 1
RELATIVE_INDEX_MAX = 2**32 - 1
RELATIVE_TIME_MAX = 2**32 - 1
_MAX = 2**32 - 1

ROWS_PER_PAGE = 256
# The checksum is taken over this many rows at a time. Invariant: whole pages.
_ROWS_PER_CHECK = 256 * ROWS_PER_PAGE
_NOTHING = memoryview(b"").cast("I")


class Row(NamedTuple):
    offset: int
    last_index: int
    time_ms: int
    flags: int


class Bytes(Protocol):
    """Bytes that are there when a part of them is asked for."""

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


class FileBytes:
    """The bytes of a file, read through the seam."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def __getitem__(self, part: slice, /) -> bytes:
        data = self._files.read(self._path, part.start, part.stop - part.start)
        if len(data) != part.stop - part.start:
            raise CorruptData(f"{self._path}: ends at byte {part.start + len(data)}")
        return data


def _words(rows: bytes | memoryview) -> memoryview:
    """Rows as 32-bit numbers, four a row; they are little-endian on disk, on every machine."""
    if sys.byteorder == "little":
        return memoryview(rows).cast("I")
    words = array("I", bytes(rows))
    words.byteswap()
    return memoryview(words)


class Mileposts:
    """The rows of one ledger: the first of them in a file, the last in memory."""

    __slots__ = (
        "_fences",
        "_file",
        "_flags",
        "_last_indexes",
        "_mapped_count",
        "_mapped_last",
        "_offsets",
        "_page",
        "_page_first",
        "_times",
    )

    def __init__(self) -> None:
        self._file: Bytes | None = None  # header included
        self._mapped_count = 0
        # By column, of the rows in the file: those at the beginning of a page, and the very last.
        self._fences = {_INDEX: array("I"), _TIME: array("I")}
        self._mapped_last = {_INDEX: 0, _TIME: 0}
        # The page read last, as words, and its first row. It begins one row early: an entry's first
        # index is told by the row before.
        self._page = _NOTHING
        self._page_first = 0
        # The tail, a column each. Invariant: equally long; offsets and last indexes strictly grow,
        # times never fall, also from the rows in the file to these.
        self._offsets: array[int] = array("I")
        self._last_indexes: array[int] = array("I")
        self._times: array[int] = array("I")
        self._flags: array[int] = array("I")

    @property
    def count(self) -> int:
        return self._mapped_count + len(self._offsets)

    @property
    def mapped_count(self) -> int:
        """How many rows are in the file, and in memory no more."""
        return self._mapped_count

    def extend(
        self,
        first_offset: int,
        sizes: list[int],
        last_indexes: list[int],
        time: int,
        flags: list[int],
        first_index: int = 0,
    ) -> None:
        """Rows for consecutive entries of `sizes` bytes that came at one time. The last indexes are
        given from 0 on, and kept from `first_index` on. Numbers that no row can tell are refused
        before any row is made."""
        if len(sizes) == 1:  # many topics, a message each: half the price
            last_index = last_indexes[0] - first_index
            if (
                0 <= last_index <= _MAX
                and 0 <= first_offset <= first_offset + sizes[0] <= _MAX
                and 0 <= time <= _MAX
            ):
                self._offsets.append(first_offset)
                self._last_indexes.append(last_index)
                self._times.append(time)
                self._flags.append(flags[0])
                return
        if (
            not 0 <= last_indexes[0] - first_index <= last_indexes[-1] - first_index <= _MAX
            or not 0 <= first_offset <= first_offset + sum(sizes) <= _MAX
            or not 0 <= time <= _MAX
        ):
            raise CorruptData(
                f"rows for indexes {last_indexes[0]} to {last_indexes[-1]} from {first_index} on, "
                f"{sum(sizes)} bytes from byte {first_offset} on, time {time}: 32 bits cannot tell"
            )
        offset = first_offset
        offsets = self._offsets
        for size in sizes:
            offsets.append(offset)
            offset += size
        self._last_indexes.extend([last - first_index for last in last_indexes])
        self._times.extend([time] * len(sizes))
        self._flags.extend(flags)

    def row(self, entry_id: int) -> Row:
        tail = entry_id - self._mapped_count
        if tail >= 0:
            return Row(
                self._offsets[tail],
                self._last_indexes[tail],
                self._times[tail],
                self._flags[tail],
            )
        words, first = self._page_of(entry_id)
        at = (entry_id - first) * 4
        return Row(words[at], words[at + 1], words[at + 2], words[at + 3])

    def offset(self, entry_id: int) -> int:
        """Where an entry begins in the ledger's file."""
        tail = entry_id - self._mapped_count
        return self._offsets[tail] if tail >= 0 else self.row(entry_id).offset

    def ends(self, entry_id: int) -> tuple[int, int, int]:
        """Last index of the entry before (-1 for the first), of the entry itself, and its flags."""
        tail = entry_id - self._mapped_count
        if tail > 0:
            lasts = self._last_indexes
            return lasts[tail - 1], lasts[tail], self._flags[tail]
        before = self.row(entry_id - 1).last_index if entry_id else -1
        row = self.row(entry_id)
        return before, row.last_index, row.flags

    def rows(self, entry_id: int, end_id: int) -> list[Row]:
        """Rows of consecutive entries, in one go."""
        mapped_end = min(end_id, self._mapped_count)
        rows: list[Row] = []
        if entry_id < mapped_end:
            # The last page first: it may be all, and the next read begins in it.
            words, first = self._page_of(mapped_end - 1)
            if entry_id < first:
                words, first = self._read(entry_id, mapped_end), entry_id
            numbers = iter(words[(entry_id - first) * 4 : (mapped_end - first) * 4].tolist())
            rows += map(Row._make, zip(numbers, numbers, numbers, numbers, strict=True))
        if end_id > self._mapped_count:
            tail = slice(max(entry_id - self._mapped_count, 0), end_id - self._mapped_count)
            rows += map(
                Row._make,
                zip(
                    self._offsets[tail],
                    self._last_indexes[tail],
                    self._times[tail],
                    self._flags[tail],
                    strict=True,
                ),
            )
        return rows

    def places(self, entry_id: int, end_id: int) -> tuple[Sequence[int], Sequence[int]]:
        """Offsets and last indexes of consecutive entries: two columns of `rows`, for the price of
        copying them."""
        if entry_id >= self._mapped_count:
            tail = slice(entry_id - self._mapped_count, end_id - self._mapped_count)
            return self._offsets[tail], self._last_indexes[tail]
        words = self._stored(entry_id, min(end_id, self._mapped_count))
        offsets, last_indexes = words[0::4].tolist(), words[_INDEX::4].tolist()
        if end_id > self._mapped_count:
            tail = slice(0, end_id - self._mapped_count)
            offsets += self._offsets[tail]
            last_indexes += self._last_indexes[tail]
        return offsets, last_indexes

    def columns(self, entry_id: int, end_id: int) -> tuple[list[int], list[int]]:
        """Last indexes and flags of consecutive entries, at least one."""
        last_indexes: list[int] = []
        flags: list[int] = []
        mapped_end = min(end_id, self._mapped_count)
        if entry_id < mapped_end:
            words = self._stored(entry_id, mapped_end)
            last_indexes, flags = words[_INDEX::4].tolist(), words[_FLAGS::4].tolist()
        if end_id > self._mapped_count:
            tail = slice(max(entry_id - self._mapped_count, 0), end_id - self._mapped_count)
            last_indexes += self._last_indexes[tail]
            flags += self._flags[tail]
        return last_indexes, flags

    def _stored(self, entry_id: int, end_id: int) -> memoryview:
        """The rows of consecutive entries that are in the file, as words."""
        words, first = self._page, self._page_first
        if entry_id < first or end_id - first > len(words) // 4:
            # The last page: it may be all, and the next read begins in it.
            words, first = self._page_of(end_id - 1)
        if entry_id < first:
            return self._read(entry_id, end_id)
        return words[(entry_id - first) * 4 : (end_id - first) * 4]

    def entry_with(self, relative_index: int) -> int:
        """The entry that holds an index (given relative to the ledger's first)."""
        return self._find(relative_index, _INDEX, self._last_indexes)

    def first_entry_from(self, relative_time: int) -> int:
        """The first entry not older than a time; `count` if all are."""
        return self._find(relative_time, _TIME, self._times)

    def _find(self, value: int, column: int, tail: array[int]) -> int:
        last = self._mapped_last[column]
        if self._mapped_count and value <= last:
            # The fence in front of the value begins the page that has it, or that it follows.
            page = max(bisect_left(self._fences[column], value) - 1, 0)
            words, first = self._page_of(page * ROWS_PER_PAGE)
            return first + bisect_left(words[column::4], value)
        return self._mapped_count + bisect_left(tail, value)

    def _page_of(self, entry_id: int) -> tuple[memoryview, int]:
        """The page with an entry's row, as words, and the number of its first row."""
        first = max(entry_id - entry_id % ROWS_PER_PAGE - 1, 0)
        if first != self._page_first or len(self._page) <= (entry_id - first) * 4:
            end = min(entry_id - entry_id % ROWS_PER_PAGE + ROWS_PER_PAGE, self._mapped_count)
            self._page = self._read(first, end)
            self._page_first = first
        return self._page, first

    def _read(self, entry_id: int, end_id: int) -> memoryview:
        assert self._file is not None
        return _words(
            self._file[HEADER_SIZE + entry_id * ROW_SIZE : HEADER_SIZE + end_id * ROW_SIZE]
        )

    # -- the file ----------------------------------------------------------------------------------

    def tail_bytes(self, entry_id: int, end_id: int) -> bytes:
        """Rows that are in memory, as they go into the file."""
        assert self._mapped_count <= entry_id <= end_id <= self.count
        tail = slice(entry_id - self._mapped_count, end_id - self._mapped_count)
        rows = array("I", (0,)) * (4 * (end_id - entry_id))
        rows[0::4] = self._offsets[tail]
        rows[1::4] = self._last_indexes[tail]
        rows[2::4] = self._times[tail]
        rows[3::4] = self._flags[tail]
        if sys.byteorder != "little":
            rows.byteswap()
        return rows.tobytes()

    def adopt(self, file: Bytes, count: int) -> None:
        """Use the file's first `count` rows from now on; forget them in memory."""
        drop = count - self._mapped_count
        assert 0 <= drop <= len(self._offsets), (count, self._mapped_count, len(self._offsets))
        self._file = file
        if not drop:
            return
        for column, tail in ((_INDEX, self._last_indexes), (_TIME, self._times)):
            fences = self._fences[column]
            fences.extend(
                tail[len(fences) * ROWS_PER_PAGE - self._mapped_count : drop : ROWS_PER_PAGE]
            )
            self._mapped_last[column] = tail[drop - 1]
        self._mapped_count = count
        self._page = _NOTHING  # it may have been the last one, and not full
        for tail in (self._offsets, self._last_indexes, self._times, self._flags):
            del tail[:drop]

    def reopen(self, file: Bytes) -> None:
        """Read the rows that are stored in another way from now on."""
        if self._file is not None:
            self._file = file

    def load(self, file: Bytes, count: int, crc: int) -> bool:
        """Use a file of `count` rows; False, and nothing changed, if its checksum does not match."""
        assert self.count == 0
        fences = {_INDEX: array("I"), _TIME: array("I")}
        last = {_INDEX: 0, _TIME: 0}
        found = 0
        for row in range(0, count, _ROWS_PER_CHECK):
            end = min(row + _ROWS_PER_CHECK, count)
            rows = bytes(file[HEADER_SIZE + row * ROW_SIZE : HEADER_SIZE + end * ROW_SIZE])
            found = google_crc32c.extend(found, rows)
            words = _words(rows)
            for column in (_INDEX, _TIME):
                fences[column].extend(words[column :: 4 * ROWS_PER_PAGE].tolist())
                last[column] = words[column - 4]
        if found != crc:
            return False
        self._file, self._mapped_count = file, count
        self._fences, self._mapped_last = fences, last
        return True
