"""Mileposts of one ledger: where each entry lies, which index it ends with, when it came.

One row an entry: byte offset, last index, time, flags; index → entry and time → entry by bisection.
The rows of a checkpointed ledger are mapped from its `.mileposts` file and cost no memory of their
own; rows since then are four arrays. Rows are relative to the ledger's own start, so 32 bits do:

    offset   from the start of the file      last index   minus the ledger's first index
    time     minus the ledger's first time    flags        of the entry

The file is a convenience: its checksum stands in the catalog, and when it is missing or does not
match, it is made again from the ledger.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from mmap import MADV_DONTNEED, mmap
from typing import NamedTuple

import google_crc32c

from milepost.storage.header import HEADER_SIZE

ROW_SIZE = 16
# What 32 bits can tell: a ledger is rolled before it would outgrow its mileposts.
OFFSET_MAX = 2**32 - 1
RELATIVE_INDEX_MAX = 2**32 - 1
RELATIVE_TIME_MAX = 2**32 - 1

# Mapped pages that look-ups touched are handed back to the kernel after this many of them: they stay
# in its cache, but are not counted as ours. A bisection of a million rows touches about 8 new pages.
LOOKUPS_PER_RELEASE = 512


class Row(NamedTuple):
    offset: int
    last_index: int
    time_ms: int
    flags: int


def _native(rows: array[int]) -> array[int]:
    """Rows are little-endian on disk, on every machine."""
    if sys.byteorder == "big":
        rows = array("I", rows)
        rows.byteswap()
    return rows


class Mileposts:
    """The rows of one ledger: a mapped prefix and a tail in memory."""

    __slots__ = (
        "_flags",
        "_last_indexes",
        "_lookups",
        "_mapped",
        "_mapped_count",
        "_offsets",
        "_rows",
        "_times",
    )

    def __init__(self) -> None:
        self._mapped: memoryview | None = None  # the file's bytes, header included
        self._rows: memoryview | None = None  # the same as 32-bit words, four a row
        self._mapped_count = 0
        self._lookups = 0
        # The tail, a column each. Invariant: equally long; offsets and last indexes strictly grow,
        # times never fall, also from the mapped rows to these.
        self._offsets: array[int] = array("I")
        self._last_indexes: array[int] = array("I")
        self._times: array[int] = array("I")
        self._flags: array[int] = array("I")

    @property
    def count(self) -> int:
        return self._mapped_count + len(self._offsets)

    @property
    def mapped_count(self) -> int:
        return self._mapped_count

    def extend(
        self,
        first_offset: int,
        sizes: list[int],
        last_indexes: list[int],
        time: int,
        flags: list[int],
    ) -> None:
        """Rows for consecutive entries of `sizes` bytes that came at one time."""
        offset = first_offset
        offsets = self._offsets
        for size in sizes:
            offsets.append(offset)
            offset += size
        self._last_indexes.extend(last_indexes)
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
        assert self._rows is not None
        at = entry_id * 4
        offset, last_index, time, flags = self._rows[at : at + 4]
        self._touched()
        return Row(offset, last_index, time, flags)

    def rows(self, entry_id: int, end_id: int) -> list[Row]:
        """Rows of consecutive entries, in one go."""
        mapped_end = min(end_id, self._mapped_count)
        rows: list[Row] = []
        if entry_id < mapped_end:
            assert self._rows is not None
            words = iter(self._rows[entry_id * 4 : mapped_end * 4].tolist())
            rows += map(Row._make, zip(words, words, words, words, strict=True))
            self._touched()
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

    def entry_with(self, relative_index: int) -> int:
        """The entry that holds an index (given relative to the ledger's first)."""
        return self._find(relative_index, 1, self._last_indexes, before=True)

    def first_entry_from(self, relative_time: int) -> int:
        """The first entry not older than a time; `count` if all are."""
        return self._find(relative_time, 2, self._times, before=True)

    def first_entry_after(self, relative_time: int) -> int:
        """The first entry younger than a time; `count` if none is."""
        return self._find(relative_time, 2, self._times, before=False)

    def _find(self, value: int, column: int, tail: array[int], *, before: bool) -> int:
        bisect = bisect_left if before else bisect_right
        if self._rows is not None:
            words = self._rows
            # Is it among the mapped rows? Their last row says so without a search.
            last = words[(self._mapped_count - 1) * 4 + column]
            if value < last or (before and value == last):
                self._touched()
                return bisect(words[column::4], value)
        return self._mapped_count + bisect(tail, value)

    # -- the file ----------------------------------------------------------------------------------

    def tail_bytes(self, entry_id: int, end_id: int) -> bytes:
        """Rows that are in memory, as they go into the file."""
        assert self._mapped_count <= entry_id <= end_id <= self.count
        tail = slice(entry_id - self._mapped_count, end_id - self._mapped_count)
        rows = array("I", bytes(ROW_SIZE * (end_id - entry_id)))
        rows[0::4] = self._offsets[tail]
        rows[1::4] = self._last_indexes[tail]
        rows[2::4] = self._times[tail]
        rows[3::4] = self._flags[tail]
        return _native(rows).tobytes()

    def adopt(self, mapped: memoryview, count: int) -> None:
        """Use the file's first `count` rows from now on; forget them in memory."""
        drop = count - self._mapped_count
        assert 0 <= drop <= len(self._offsets), (count, self._mapped_count, len(self._offsets))
        self._map(mapped, count)
        for column in (self._offsets, self._last_indexes, self._times, self._flags):
            del column[:drop]

    def load(self, mapped: memoryview, count: int, crc: int) -> bool:
        """Map a file of `count` rows; False, and nothing changed, if its checksum does not match."""
        assert self.count == 0
        if google_crc32c.value(bytes(mapped[HEADER_SIZE : HEADER_SIZE + count * ROW_SIZE])) != crc:
            return False
        self._map(mapped, count)
        self._release()
        return True

    def _map(self, mapped: memoryview, count: int) -> None:
        self._mapped = mapped
        self._mapped_count = count
        rows = mapped[HEADER_SIZE : HEADER_SIZE + count * ROW_SIZE].cast("I")
        if sys.byteorder == "big":
            rows = memoryview(_native(array("I", rows)))
        self._rows = rows if count else None

    def _touched(self) -> None:
        self._lookups += 1
        if self._lookups >= LOOKUPS_PER_RELEASE:
            self._release()

    def _release(self) -> None:
        self._lookups = 0
        if self._mapped is not None and isinstance(self._mapped.obj, mmap):
            self._mapped.obj.madvise(MADV_DONTNEED)
