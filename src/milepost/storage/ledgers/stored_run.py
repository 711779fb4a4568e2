"""Consecutive entries, to be read and sent as they are stored.

A consumer that asked for it gets a run of entries in one piece, and the broker does nothing for each of them.
What the bytes say is not looked at here: each entry has its checksum, its ids and its index in front, for the
client that reads them. `StoredRun` is planned on the loop and performed wherever the disk may block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.errors import CorruptData, LedgerNotFound
from milepost.storage.ledgers.entry import BATCH, HEADER_SIZE

if TYPE_CHECKING:
    from milepost.storage.files import Files
    from milepost.storage.ledgers.ledger import Ledger

# Flags of entries that may be in a run. Whatever another flag says, such an entry has to be looked at.
PLAIN: Final = frozenset((0, BATCH))


class RunLimits(NamedTuple):
    """What one run may have at most."""

    entries_max: int
    size_max: int


class StoredRun(NamedTuple):
    """Plain entries of one ledger, two at least."""

    ledger: Ledger
    path: str
    first_entry_id: int
    entries: int
    first_index: int
    end_index: int
    start: int
    end: int
    data: bytes | None
    """The bytes, if they were still in memory: then `perform` touches no file."""

    @property
    def payload_size(self) -> int:
        """Bytes of the payloads. Nothing stands beside a plain entry's."""
        return self.end - self.start - self.entries * HEADER_SIZE

    def perform(self, files: Files) -> bytes:
        """The bytes."""
        if self.data is not None:
            return self.data
        try:
            data = files.read(self.path, self.start, self.end - self.start)
        except FileNotFoundError:
            if self.ledger.is_gone:
                raise LedgerNotFound(f"ledger {self.ledger.ledger_id} has been trimmed") from None
            data = b""
        if len(data) != self.end - self.start:
            raise CorruptData(f"{self.path}: ends at byte {self.start + len(data)}")
        return data
