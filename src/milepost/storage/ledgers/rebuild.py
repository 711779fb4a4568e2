"""Makes the mileposts of a ledger again when their file is missing or damaged.

Every stored entry is read and its checksum verified: a row that is wrong would send readers to the
wrong place. An entry that is damaged gets a row all the same, so that it costs only itself: it ends
where the next intact one begins, which also tells the index it ends with. Of several damaged ones in a
row only the outer bounds are known; their inner ones are made up, and a reader there is told.

It is slow (a ledger is read from end to end) and needed only after a power loss or damage.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from milepost.errors import CorruptData
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE as FILE_HEADER_SIZE
from milepost.storage.ledgers.entry import HEADER, HEADER_SIZE, Entry, decode_entries
from milepost.storage.ledgers.mileposts import Mileposts

if TYPE_CHECKING:
    from milepost.storage.ledgers.ledger import LedgerRow

READ_SIZE = 4 * 1024 * 1024
_LEDGER_ID = Struct("<Q")
_LEDGER_ID_AT = 8  # in an entry's header


def rebuild(files: Files, path: str, row: LedgerRow) -> Mileposts:
    """The mileposts of the ledger file at `path`, which holds what `row` says."""
    return _Rebuild(files, path, row).run()


class _Rebuild:
    def __init__(self, files: Files, path: str, row: LedgerRow) -> None:
        self._files = files
        self._path = path
        self._row = row
        self._mileposts = Mileposts()
        self._last_index = row.first_index - 1
        self._time_ms = row.first_time_ms
        # Bytes of the file that were read last, and where they begin.
        self._window = b""
        self._window_at = 0

    def run(self) -> Mileposts:
        at, entry_id = FILE_HEADER_SIZE, 0
        while entry_id < self._row.entries:
            entry = self._entry(at)
            if entry is not None and self._continues(entry, entry_id, entry_id):
                self._add(at, entry.last_index, entry.timestamp_ms, entry.flags)
                at += HEADER_SIZE + len(entry.beside) + len(entry.payload)
                entry_id += 1
            else:
                at, entry_id = self._pass_over(at, entry_id)
        return self._mileposts

    def _add(self, at: int, last_index: int, time_ms: int, flags: int) -> None:
        first_index, first_time_ms = self._row.first_index, self._row.first_time_ms
        self._mileposts.extend(
            at, [0], [last_index - first_index], time_ms - first_time_ms, [flags]
        )
        self._last_index, self._time_ms = last_index, time_ms

    def _continues(self, entry: Entry, from_id: int, to_id: int) -> bool:
        """Can it be entry `to_id`, when entries from `from_id` on are not known?"""
        first_index = entry.last_index - entry.count + 1
        unknown = to_id - from_id
        return (
            (entry.ledger_id, entry.entry_id) == (self._row.ledger_id, to_id)
            and first_index >= self._last_index + 1 + unknown
            and (unknown > 0 or first_index == self._last_index + 1)
            and entry.last_index < self._row.end_index
            and self._time_ms <= entry.timestamp_ms <= self._row.last_time_ms
        )

    def _pass_over(self, at: int, entry_id: int) -> tuple[int, int]:
        """Give rows to entries that are damaged; where the next intact one is, and which it is."""
        end, end_id, last_index = self._next_intact(at, entry_id)
        for lost_id in range(entry_id, end_id):
            is_last = lost_id == end_id - 1
            index = last_index if is_last else self._last_index + 1
            self._add(at + lost_id - entry_id, index, self._time_ms, 0)
        return end, end_id

    def _next_intact(self, at: int, entry_id: int) -> tuple[int, int, int]:
        """Byte and id of the next intact entry, and the last index in front of it."""
        row = self._row
        wanted = _LEDGER_ID.pack(row.ledger_id)
        place = at + 1 + _LEDGER_ID_AT
        while (place := self._find(wanted, place)) >= 0:
            entry = self._entry(place - _LEDGER_ID_AT)
            if (
                entry is not None
                and entry_id < entry.entry_id < row.entries
                and self._continues(entry, entry_id, entry.entry_id)
            ):
                return place - _LEDGER_ID_AT, entry.entry_id, entry.last_index - entry.count
            place += 1
        return row.size_bytes, row.entries, row.end_index - 1

    def _entry(self, at: int) -> Entry | None:
        """The entry that begins at a byte, if one does and is intact."""
        head = self._bytes(at, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        size, *_, beside = HEADER.unpack(head)
        whole = HEADER_SIZE + beside + size
        if at + whole > self._row.size_bytes:
            return None
        try:
            (entry,) = decode_entries(self._bytes(at, whole), self._path)
        except (CorruptData, ValueError):
            return None
        return entry

    def _find(self, wanted: bytes, at: int) -> int:
        """Where these bytes are next in the file; -1 if nowhere."""
        while at + len(wanted) <= self._row.size_bytes:
            window = self._bytes(at, min(READ_SIZE, self._row.size_bytes - at))
            found = window.find(wanted)
            if found >= 0:
                return at + found
            if len(window) < len(wanted):
                break  # the file is shorter than it should be
            at += len(window) - len(wanted) + 1
        return -1

    def _bytes(self, at: int, size: int) -> bytes:
        """A part of the file; short at its end."""
        start = at - self._window_at
        if start < 0 or start + size > len(self._window):
            self._window_at, start = at, 0
            wanted = max(size, min(READ_SIZE, self._row.size_bytes - at))
            try:
                self._window = self._files.read(self._path, at, wanted)
            except FileNotFoundError:
                self._window = b""
        return self._window[start : start + size]
