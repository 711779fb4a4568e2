"""Acknowledged entries that are gone: recorded, and accepted by an operator.

A ledger's file that is shorter than the catalog says has lost what lay behind its end. A damaged record of
the journal has lost the entries that were in it. The catalog remembers that until an operator accepts it:
until then the topic takes no messages, so that no reader mistakes what is left for all there was. The rest of
the file stays where it is; zeros take the place of what is lost, so that entries that come behind it have
their place, and a reader is told which entry it cannot have.
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import CorruptData


class Loss(NamedTuple):
    """What is gone of one ledger."""

    ledger_id: int
    first_index: int
    end_index: int
    reason: str
    found_ms: int
    """When it was noticed, by the wall clock: for people."""
    in_journal: bool = False
    """It was struck in the journal, before a checkpoint: the ledger's file has every byte it should have."""

    @property
    def messages(self) -> int:
        """How many messages are lost."""
        return self.end_index - self.first_index

    @property
    def place(self) -> tuple[int, ...]:
        """What is lost of a file is lost from one place on; of the journal any number of places."""
        return (self.ledger_id, self.first_index) if self.in_journal else (self.ledger_id,)

    def __str__(self) -> str:
        return f"messages [{self.first_index}, {self.end_index}) are lost: {self.reason}"


class Shortage(CorruptData):
    """A file holds fewer bytes than were synced to it."""

    def __init__(self, path: str, found: int, expected: int, entry: str = "") -> None:
        """`entry` says which one was asked for, and cannot be had."""
        self.reason = f"{path}: {found} bytes are left of the {expected} that were synced"
        super().__init__(f"{entry} is damaged: {self.reason}" if entry else self.reason)
        self.found = found
