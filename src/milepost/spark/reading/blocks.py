"""Many entries in one piece of bytes, with arrays of where each lies.

A task that reads a topic whose messages came one by one gets as many entries as there are messages. Nothing
is done for each of them in Python: they stay in the bytes that came off the connection, and compiled loops go
by the arrays. A block is a sequence of entries for a reader that wants one after all.

    block = Block.of([RawEntry(3, 12, data)])
    block[0], block.last_indexes()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from milepost.spark.reading import scan
from milepost.spark.reading.entries import RawEntry, last_index, read_entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import BROKER_ENTRY_MAGIC, Buffer


class Block:
    __slots__ = ("_lasts", "begins", "data", "ends", "entry_ids", "ledger_ids", "stored")

    def __init__(
        self,
        data: Buffer,
        ledger_ids: Any,
        entry_ids: Any,
        begins: Any,
        ends: Any,
        stored: Any = None,
    ) -> None:
        """Entry n is `data[begins[n]:ends[n]]`; the arrays are of 64-bit numbers. `stored[n]` is the
        index of its last message where the entry is as the log has it, without the index in front of it;
        -1 where that stands there. None: it stands in front of all."""
        self.data = data
        self.ledger_ids = ledger_ids
        self.entry_ids = entry_ids
        self.begins = begins
        self.ends = ends
        self.stored = np.full(len(begins), -1, np.int64) if stored is None else stored
        self._lasts: Any = None

    @classmethod
    def of(cls, entries: Sequence[RawEntry]) -> Block:
        """Entries put one behind the other."""
        ends = np.cumsum([len(entry.data) for entry in entries], dtype=np.int64)
        return cls(
            b"".join([entry.data for entry in entries]),
            np.array([entry.ledger_id for entry in entries], np.int64),
            np.array([entry.entry_id for entry in entries], np.int64),
            np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else ends,
            ends,
        )

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, number: int) -> RawEntry:
        data = bytes(self.data[self.begins[number] : self.ends[number]])
        if (index := int(self.stored[number])) >= 0:
            data = _in_front(index) + data
        return RawEntry(int(self.ledger_ids[number]), int(self.entry_ids[number]), data)

    def __iter__(self) -> Iterator[RawEntry]:
        return map(self.__getitem__, range(len(self)))

    @property
    def size(self) -> int:
        """Bytes of all its entries."""
        return int((self.ends - self.begins).sum())

    def part(self, first: int, end: int) -> Block:
        """Some of its entries, in the same bytes."""
        wanted = slice(first, end)
        part = Block(
            self.data,
            self.ledger_ids[wanted],
            self.entry_ids[wanted],
            self.begins[wanted],
            self.ends[wanted],
            self.stored[wanted],
        )
        if self._lasts is not None:
            part._lasts = self._lasts[wanted]
        return part

    def last_indexes(self) -> Any:
        """The index of the last message of each entry, which grows from entry to entry."""
        if self._lasts is None:
            self._lasts = self._find_lasts()
        return self._lasts

    def _find_lasts(self) -> Any:
        if len(self) and (self.stored >= 0).all():
            return self.stored
        found = np.empty(len(self), np.int64)
        scan.scan_last_indexes(np.frombuffer(self.data, np.uint8), self.begins, self.ends, found)
        found = np.where(self.stored >= 0, self.stored, found)
        # What is not as brokers write it takes the long way, which says what is wrong.
        for number in np.flatnonzero(found < 0).tolist():
            entry = self[number]
            found[number] = last_index(read_entry(entry), entry)
        return found


def _in_front(index: int) -> bytes:
    """The index as a broker writes it in front of an entry."""
    block = pb.BrokerEntryMetadata(index=index).SerializeToString()
    return BROKER_ENTRY_MAGIC.to_bytes(2, "big") + len(block).to_bytes(4, "big") + block


def joined(blocks: Sequence[RawEntry | Block]) -> list[Block]:
    """The same as blocks alone: entries that came one by one are put together."""
    found: list[Block] = []
    singles: list[RawEntry] = []
    for one in blocks:
        if isinstance(one, RawEntry):
            singles.append(one)
            continue
        if singles:
            found.append(Block.of(singles))
            singles = []
        found.append(one)
    if singles:
        found.append(Block.of(singles))
    return found
