"""What lies on a disk: journal records, blocks of entries, headers, facts and snapshots."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable

import google_crc32c

from fuzz.harness import Target
from milepost.broker.topic.dedup import Dedup
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.errors import CorruptData
from milepost.positions.ranges import IndexRanges
from milepost.storage.header import JOURNAL, FileHeader
from milepost.storage.journal.records import (
    ENTRIES,
    FACT,
    LEDGER,
    LEDGER_BODY,
    RECORD_HEADER_SIZE,
    body_crc,
    encode_header,
    scan,
)
from milepost.storage.ledgers.entry import BATCH, Block, NewEntry, decode_entries

# -- the disk ----------------------------------------------------------------------------------------

SEED = 0x1234_5678


def _journal_file() -> bytes:
    block = Block.encode(3, 0, 0, 1_700_000_000_000, [NewEntry(b"one"), NewEntry(b"two", 5, BATCH)])
    bodies = [
        (LEDGER, 3, LEDGER_BODY.pack(1, 0, 1_700_000_000_000)),
        (ENTRIES, 3, block.data),
        (FACT, 9, facts.encode_ack_range(0, 0, 3)),
        (FACT, 9, facts.encode_ack(0, [(4, 5), (6, 9)])),
        (ENTRIES, 3, Block.encode(3, 2, 6, 1_700_000_000_001, [NewEntry(b"three")]).data),
    ]
    data = b""
    for (kind, owner, body), (sequence, group) in zip(bodies, _NUMBERS, strict=True):
        crc = body_crc([body])
        data += encode_header(SEED, kind, len(body), crc, owner, sequence, group) + body
    return data


# Sequence and group of each record: two are written at a time.
_NUMBERS = [(number, number - number % 2) for number in range(100, 105)]


def _repair_records(data: bytes) -> bytes:
    """Give every record whose header is in its place the checksums of what it holds now. Not where
    sequence or group changed: no accident makes such a checksum right, and they prove what was
    synced."""
    repaired = bytearray(data)
    at = 0
    while (at := repaired.find(b"MPR1", at)) >= 0 and at + RECORD_HEADER_SIZE <= len(repaired):
        size = int.from_bytes(repaired[at + 8 : at + 12], "little")
        body_at = at + RECORD_HEADER_SIZE
        if body_at + size <= len(repaired):
            crc = body_crc([bytes(repaired[body_at : body_at + size])])
            repaired[at + 12 : at + 16] = crc.to_bytes(4, "little")
        if tuple(struct.unpack_from("<QQ", repaired, at + 24)) in _NUMBERS:
            crc = int(google_crc32c.extend(SEED, bytes(repaired[at : body_at - 4])))
            repaired[body_at - 4 : body_at] = crc.to_bytes(4, "little")
        at += 4
    return bytes(repaired)


def _journal(data: bytes) -> Hashable:
    kinds = []
    for whole in (False, True):
        found = scan(data, 0, "f", 100, SEED, whole=whole)
        assert found.size <= len(data)
        sequences = [record.sequence for record in found.records]
        assert sequences == sorted(set(sequences))
        kinds += [len(found.records), min(len(found.damages), 3)]
        for record in found.records:
            if record.kind == ENTRIES:
                _read(record.body)
    return tuple(kinds)


def _read(body: bytes) -> None:
    try:
        block = Block.decode(body, "f")
    except CorruptData:
        return
    assert sum(block.sizes) == len(body)


def _entries(data: bytes) -> Hashable:
    found = decode_entries(data, "f")
    return len(found)


def _header(data: bytes) -> Hashable:
    header = FileHeader.decode(data, "f", JOURNAL)
    assert FileHeader.decode(header.encode(), "f", JOURNAL) == header
    return True


def _repair_header(data: bytes) -> bytes:
    return data[:60] + int(google_crc32c.value(data[:60])).to_bytes(4, "little") + data[64:]


def _repair_crc32(data: bytes) -> bytes:
    return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")


def _fact(data: bytes) -> Hashable:
    fact = facts.decode(data)
    assert facts.decode(facts.encode(fact)) == fact
    cursor = Cursor(0, 1000)
    cursor.replay(fact)
    cursor.check()
    return type(fact).__name__


def _ranges(data: bytes) -> Hashable:
    ranges = IndexRanges.from_bytes(data)
    assert IndexRanges.from_bytes(ranges.to_bytes()) == ranges
    return min(ranges.count, 3)


def _snapshot(data: bytes) -> Hashable:
    cursor = snapshot.decode(data)
    cursor.check()
    assert snapshot.encode(snapshot.decode(snapshot.encode(cursor))) == snapshot.encode(cursor)
    return cursor.epoch > 0, cursor.backlog > 0


def _cursors() -> list[Cursor]:
    plain = Cursor(5, 500)
    busy = Cursor(0, 3000)
    busy.deliver(0, 900, holder=1)
    busy.ack([(n, n + 1) for n in range(0, 600, 3)], 1)
    busy.release([(600, 650)], 1, count=True)
    busy.seek(100)
    busy.deliver(100, 200, holder=2)
    return [Cursor(), plain, busy]


def _dedup(data: bytes) -> Hashable:
    dedup, end_index = Dedup.restore(data, now=1)
    dedup.check()
    again, end_again = Dedup.restore(dedup.snapshot(end_index), now=1)
    assert (again.snapshot(end_again), end_again) == (dedup.snapshot(end_index), end_index)
    return end_index > 0


def _dedup_snapshots() -> list[bytes]:
    dedup = Dedup()
    for number in range(20):
        name = f"producer-{number}"
        dedup.opened(name)
        dedup.judge(name, number, 0, None)
        dedup.persisted(name, number, 0, None)
    return [Dedup().snapshot(0), dedup.snapshot(300)]


TARGETS = (
    Target("journal", _journal, lambda: [_journal_file()], (CorruptData,), _repair_records),
    Target(
        "stored_blocks",
        _entries,
        lambda: [
            Block.encode(3, 0, 0, 1, [NewEntry(b"one"), NewEntry(bytes(99), 5, BATCH, b"x")]).data,
            Block.encode(2**40, 7, 2**50, 1_700_000_000_000, [NewEntry(b"")]).data,
        ],
        (CorruptData,),
    ),
    Target(
        "file_headers",
        _header,
        lambda: [FileHeader(JOURNAL, bytes(range(16)), 4, 3, 1000, 77).encode()],
        (CorruptData,),
        _repair_header,
    ),
    Target(
        "cursor_facts",
        _fact,
        lambda: [
            facts.encode_ack_range(0, 5, 9),
            facts.encode_ack(0, [(1, 2), (4, 9), (500, 800)]),
            facts.encode(facts.SeekFact(1, 100, IndexRanges([(100, 200), (300, 301)]))),
            facts.encode(facts.TrimFact(0, 50)),
            facts.encode(facts.DeliveryFact(0, IndexRanges([(5, 6)]))),
        ],
        (CorruptData,),
    ),
    Target(
        "index_ranges",
        _ranges,
        lambda: [
            IndexRanges([(0, 10)]).to_bytes(),
            IndexRanges([(n * 3, n * 3 + 1) for n in range(200)]).to_bytes(),
            IndexRanges([(2**40, 2**41), (2**50, 2**50 + 1)]).to_bytes(),
        ],
        (CorruptData,),
    ),
    Target(
        "cursor_snapshots",
        _snapshot,
        lambda: [snapshot.encode(cursor) for cursor in _cursors()],
        (CorruptData,),
        _repair_crc32,
    ),
    Target("dedup_snapshots", _dedup, _dedup_snapshots, (CorruptData,), _repair_crc32),
)
