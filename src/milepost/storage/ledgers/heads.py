"""Reads what entries say of themselves before their payload.

A chunk's tie to its message stands beside it, and its uuid in the producer's metadata: a few hundred bytes in
front of megabytes. `HeadsPlan` reads those of several entries of one ledger, and nothing behind them. The
checksum covers the payload too, so it is not verified; an entry vouches by its ledger, id and last index.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.errors import CorruptData, LedgerNotFound
from milepost.positions.ids import Position
from milepost.storage.files import Files
from milepost.storage.ledgers.entry import HEADER, HEADER_SIZE, Entry

if TYPE_CHECKING:
    from milepost.storage.ledgers.ledger import Ledger

# Bytes of an entry that are read: its header, what stands beside it, and metadata of a usual size.
HEAD_SIZE: Final = 4096


class HeadPlace(NamedTuple):
    """Where one entry lies."""

    entry_id: int
    last_index: int
    offset: int
    end: int
    data: bytes | None
    """Its first bytes, if they are in memory."""


class HeadsPlan(NamedTuple):
    """Heads to be read: planned on the loop, performed wherever the disk may block."""

    ledger: Ledger
    path: str
    places: Sequence[HeadPlace]

    def perform(self, files: Files) -> list[Entry]:
        """The entries, oldest first, each with the first bytes of its payload only."""
        return [self._read(place, files, place.data) for place in self.places]

    def intact(self, files: Files) -> list[Entry]:
        """The same without those that are damaged."""
        entries = []
        for place in self.places:
            with suppress(CorruptData):
                entries.append(self._read(place, files, place.data))
        return entries

    def whole(self, entry_id: int, files: Files) -> Entry:
        """One of the entries with all of its payload, where a head is not enough."""
        (place,) = (one for one in self.places if one.entry_id == entry_id)
        return self._read(place, files, None, size_max=place.end - place.offset)

    def _read(
        self, place: HeadPlace, files: Files, data: bytes | None, size_max: int = HEAD_SIZE
    ) -> Entry:
        if data is None:
            size = min(place.end - place.offset, size_max)
            try:
                data = files.read(self.path, place.offset, size)
            except FileNotFoundError:
                if self.ledger.is_gone:
                    raise LedgerNotFound(
                        f"ledger {self.ledger.ledger_id} has been trimmed"
                    ) from None
                data = b""
        position = Position(self.ledger.ledger_id, place.entry_id)
        where = f"{self.path}: byte {place.offset}: entry {position}"
        if len(data) < HEADER_SIZE:
            raise CorruptData(f"{where} is damaged")
        _, _, ledger_id, entry_id, last_index, time_ms, count, flags, beside_size = (
            HEADER.unpack_from(data)
        )
        if (ledger_id, entry_id, last_index) != (*position, place.last_index):
            raise CorruptData(f"{where} is damaged")
        payload_at = HEADER_SIZE + beside_size
        return Entry(
            ledger_id,
            entry_id,
            last_index,
            count,
            time_ms,
            flags,
            data[HEADER_SIZE:payload_at],
            data[payload_at:],
        )
