"""The bytes of one entry on disk: a header and what the producer sent.

An entry is never re-serialised: `payload` is what the producer sent. What the broker knows of it
(index of its last message, message count, time) stands in the header in front, so that a reader
needs no protobuf to number messages. Layout in docs/format.md; every integer is little-endian.

    size u32 · crc u32 · ledger u64 · entry u64 · last index u64 · time u64
    · count u32 · flags u16 · beside u16 · <beside bytes> · <payload, size bytes>

The CRC32C covers everything behind itself. Ledger and entry id are inside it, so bytes that a disk
put in a wrong place are found out even when they are intact.

    >>> block = Block.encode(7, 0, 100, 1_700_000_000_000, [NewEntry(b"hello", count=3)])
    >>> [(e.entry_id, e.last_index, bytes(e.payload)) for e in block.entries()]
    [(0, 102, b'hello')]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple, cast

import google_crc32c

from milepost.errors import CorruptData
from milepost.positions.ids import Position
from milepost.positions.spans import Span

HEADER = Struct("<IIQQQQIHH")
HEADER_SIZE = HEADER.size
_BODY = Struct("<QQQQIHH")  # the header behind size and crc
_PREFIX = Struct("<II")
_CRC_START = 8

# Flags of an entry, kept in its header and in its milepost.
MARKER = 1  # a system message: stored and indexed, never dispatched
BATCH = 2  # the metadata says num_messages_in_batch, be it 1
CHUNK = 4  # one chunk of a larger message
LAST_CHUNK = 8  # … and its last one
DELAYED = 16  # the metadata says when it is to be delivered
TXN = 32  # the metadata says to which transaction it belongs

# A smaller payload is copied when it is decoded: that is cheaper than a view of it.
_COPY_SIZE_MAX = 4096

# Skips the argument handling of a named tuple's constructor, which is half of its time.
_new_entry = cast("Callable[[type[Entry], tuple[object, ...]], Entry]", tuple.__new__)
_new_block = cast("Callable[[type[Block], tuple[object, ...]], Block]", tuple.__new__)


class NewEntry(NamedTuple):
    """What a producer wants stored: not numbered yet."""

    payload: bytes | memoryview
    count: int = 1  # type: ignore[assignment]
    flags: int = 0
    beside: bytes = b""
    """Bytes the broker keeps next to the payload (the first chunk's position), opaque here."""


class Entry(NamedTuple):
    """One stored entry, with its address and its numbers."""

    ledger_id: int
    entry_id: int
    last_index: int
    count: int  # type: ignore[assignment]
    timestamp_ms: int
    flags: int
    beside: bytes
    payload: bytes | memoryview

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)

    @property
    def span(self) -> Span:
        return Span(self.last_index - self.count + 1, self.count)


class Block(NamedTuple):
    """Consecutive entries of one ledger, encoded: what one journal record carries."""

    ledger_id: int
    first_entry_id: int
    data: bytes
    sizes: list[int]
    """Encoded size of each entry, header included."""
    last_indexes: list[int]
    flags: list[int]
    timestamp_ms: int

    @property
    def entry_count(self) -> int:
        return len(self.sizes)

    @property
    def end_index(self) -> int:
        return self.last_indexes[-1] + 1

    @classmethod
    def encode(
        cls,
        ledger_id: int,
        first_entry_id: int,
        first_index: int,
        timestamp_ms: int,
        items: Sequence[NewEntry],
    ) -> Block:
        """Number the items from `first_entry_id` and `first_index` on and encode them."""
        if len(items) == 1:
            return cls.of_one(ledger_id, first_entry_id, first_index, timestamp_ms, *items[0])
        parts: list[bytes | memoryview] = []
        sizes: list[int] = []
        last_indexes: list[int] = []
        flags: list[int] = []
        entry_id = first_entry_id
        index = first_index - 1
        pack_body, pack_prefix = _BODY.pack, _PREFIX.pack
        value, extend = google_crc32c.value, google_crc32c.extend
        for payload, count, flag, beside in items:
            index += count
            body = pack_body(ledger_id, entry_id, index, timestamp_ms, count, flag, len(beside))
            if beside:
                body += beside
            size = len(payload)
            crc = extend(value(body), payload if payload.__class__ is bytes else bytes(payload))
            parts += (pack_prefix(size, crc), body, payload)
            sizes.append(_CRC_START + len(body) + size)
            last_indexes.append(index)
            flags.append(flag)
            entry_id += 1
        data = b"".join(parts)
        return _new_block(
            cls, (ledger_id, first_entry_id, data, sizes, last_indexes, flags, timestamp_ms)
        )

    @classmethod
    def of_one(
        cls,
        ledger_id: int,
        entry_id: int,
        first_index: int,
        timestamp_ms: int,
        payload: bytes | memoryview,
        count: int,
        flags: int = 0,
        beside: bytes = b"",
    ) -> Block:
        """The same for one item, without what only a loop needs: publishing to many topics is many
        blocks of one entry."""
        index = first_index + count - 1
        body = _BODY.pack(ledger_id, entry_id, index, timestamp_ms, count, flags, len(beside))
        if beside:
            body += beside
        payload = payload if payload.__class__ is bytes else bytes(payload)
        rest = body + payload
        data = _PREFIX.pack(len(payload), google_crc32c.value(rest)) + rest
        return _new_block(
            cls, (ledger_id, entry_id, data, [len(data)], [index], [flags], timestamp_ms)
        )

    @classmethod
    def decode(cls, data: bytes, where: str) -> Block:
        """A block from bytes whose checksum was verified: only the headers are looked at."""
        sizes: list[int] = []
        last_indexes: list[int] = []
        flags: list[int] = []
        unpack = HEADER.unpack_from
        at, end = 0, len(data)
        ledger_id = first_entry_id = time_ms = 0
        while at + HEADER_SIZE <= end:
            size, _, ledger_id, entry_id, last_index, time_ms, _, flag, beside = unpack(data, at)
            if not sizes:
                first_entry_id = entry_id
            whole = HEADER_SIZE + beside + size
            sizes.append(whole)
            last_indexes.append(last_index)
            flags.append(flag)
            at += whole
        if at != end or not sizes:
            raise CorruptData(f"{where}: {end} bytes do not hold whole entries")
        return cls(ledger_id, first_entry_id, data, sizes, last_indexes, flags, time_ms)

    def entries(self) -> list[Entry]:
        return decode_entries(self.data, "memory", check=False)


def decode_entries(data: bytes, where: str, *, check: bool = True) -> list[Entry]:
    """All entries in `data`, which holds whole ones. `check=False` if it never left memory."""
    entries: list[Entry] = []
    view = memoryview(data)
    unpack, value, new_entry = HEADER.unpack_from, google_crc32c.value, _new_entry
    end = len(data)
    at = 0
    while at < end:
        if end - at < HEADER_SIZE:
            raise CorruptData(f"{where}: {end - at} bytes at byte {at} are no entry")
        size, crc, ledger_id, entry_id, last_index, time_ms, count, flags, beside_size = unpack(
            data, at
        )
        payload_at = at + HEADER_SIZE + beside_size
        after = payload_at + size
        if after > end:
            raise CorruptData(
                f"{where}: entry at byte {at} claims {after - at} bytes, {end - at} are there"
            )
        if check and value(data[at + _CRC_START : after]) != crc:
            raise CorruptData(f"{where}: checksum of the entry at byte {at} does not match")
        beside = data[at + HEADER_SIZE : payload_at] if beside_size else b""
        payload = data[payload_at:after] if size <= _COPY_SIZE_MAX else view[payload_at:after]
        entries.append(
            new_entry(
                Entry, (ledger_id, entry_id, last_index, count, time_ms, flags, beside, payload)
            )
        )
        at = after
    return entries
