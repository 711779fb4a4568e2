"""The bytes of one record, and how a torn tail is told from damage.

    magic "MPR1" · kind u16 · reserved u16 · size u32 · body crc u32 · owner u64 · sequence u64
    · group u64 · header crc u32 · <body, size bytes>

`owner` is the ledger or state the record speaks of. `sequence` grows by one from record to record;
`group` is the sequence of the first record of the group commit that wrote it. A group is written
after the fsync of the one before, so a record proves that every sequence below its group was synced:

- a missing sequence below the group of a later header had been acknowledged: damage, to be reported;
- any other missing sequence lies in the last group, which was not answered: a torn tail, to be cut.

Header and body have checksums of their own, so that damage to a body names the owner it struck. The
header's is seeded with the directory's incarnation: no payload can be made to look like a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import google_crc32c

from milepost.errors import UnknownFormat
from milepost.storage.files import Buffer

_LAYOUT = Struct("<4sHHIIQQQI")
_BARE = Struct("<4sHHIIQQQ")
_CRC = Struct("<I")
RECORD_HEADER_SIZE = _LAYOUT.size
MAGIC = b"MPR1"

ENTRIES = 1  # owner: ledger; body: a block of entries
LEDGER = 2  # owner: ledger; body: topic u64, first index u64, time u64: a ledger begins
FACT = 3  # owner: state; body: opaque to the storage
STATE = 4  # owner: state; body: a snapshot, in place of all that came before
FACTS = 5  # owner: 0; body: facts and snapshots of several states, true together or not at all
STEP = 6  # the same, with entries and beginnings of ledgers among them
CATALOG = 7  # owner: 0; body: changes of the catalog; in a bucket only (bucket/catalog_changes.py)
KINDS = frozenset({ENTRIES, LEDGER, FACT, STATE, FACTS, STEP, CATALOG})

_LOST = {
    ENTRIES: "entries of ledger",
    LEDGER: "start of ledger",
    FACT: "a fact of state",
    STATE: "a snapshot of state",
    FACTS: "facts of several states,",
    STEP: "facts and entries of several owners,",
    CATALOG: "changes of the catalog,",
}

LEDGER_BODY = Struct("<QQQ")
# Of each part of FACTS and STEP: its kind and owner, and how many bytes follow.
_PART = Struct("<HQI")


class Record(NamedTuple):
    kind: int
    owner: int
    sequence: int
    group: int
    body: bytes
    offset: int
    """Where its header starts in the file."""


class Damage(NamedTuple):
    """A record that was acknowledged and cannot be read."""

    file: str
    offset: int
    sequence: int
    kind: int | None = None
    """None when not even the header survived, so that it is unknown what was lost."""
    owner: int | None = None
    group: int = -1
    """Of the header that survived, or -1."""
    body: bytes = b""
    """What is there in place of the body that was written."""

    def __str__(self) -> str:
        lost = "a record of unknown kind"
        if self.kind is not None:
            lost = f"{_LOST[self.kind]} {self.owner}"
        return f"{self.file}: byte {self.offset}: sequence {self.sequence}: {lost} cannot be read"


class Scan(NamedTuple):
    """What one journal file holds."""

    records: list[Record]
    damages: list[Damage]
    size: int
    """Valid bytes: everything behind them is a torn tail."""


class Part(NamedTuple):
    """What one record says of one of several owners."""

    kind: int
    owner: int
    body: bytes


def encode_parts(parts: Sequence[Part]) -> bytes:
    pieces: list[bytes] = []
    pack = _PART.pack
    for kind, owner, body in parts:
        pieces += (pack(kind, owner, len(body)), body)
    return b"".join(pieces)


def decode_parts(body: bytes) -> Iterator[Part]:
    at = 0
    while at < len(body):
        kind, owner, size = _PART.unpack_from(body, at)
        at += _PART.size + size
        yield Part(kind, owner, body[at - size : at])


def seed_of(incarnation: bytes) -> int:
    return int(google_crc32c.value(incarnation))


def body_crc(buffers: Sequence[Buffer]) -> int:
    crc = 0
    for buffer in buffers:
        crc = google_crc32c.extend(crc, buffer if buffer.__class__ is bytes else bytes(buffer))
    return crc


def encode_header(
    seed: int, kind: int, size: int, crc: int, owner: int, sequence: int, group: int
) -> bytes:
    bare = _BARE.pack(MAGIC, kind, 0, size, crc, owner, sequence, group)
    return bare + _CRC.pack(google_crc32c.extend(seed, bare))


def scan(
    data: bytes, start: int, file: str, first_sequence: int, seed: int, *, whole: bool
) -> Scan:
    """Read the records of a journal file from byte `start` on.

    `whole` says that every byte of `data` was acknowledged (a later file vouches for it): then
    whatever cannot be read is damage. In the last file that is so below the last group only.
    """
    records, start = _run(data, start, first_sequence, seed)
    expected = first_sequence + len(records)
    missing: list[Damage] = []  # every sequence not read so far, in order
    unread: list[Damage] = []  # bad places since the last good record
    for found in _walk(data, start, file, seed):
        if isinstance(found, Damage):
            unread.append(found)
        elif found.sequence < expected:
            # An old record where a newer one belongs: a misdirected or lost write.
            unread.append(Damage(file, found.offset, expected))
        else:
            missing += _name(unread, expected, found.sequence, file, found.offset)
            unread.clear()
            expected = found.sequence + 1
            records.append(found)
    if whole:
        if unread:
            last = max(expected, *(bad.sequence for bad in unread))
            missing += _name(unread, expected, last + 1, file, len(data))
        return Scan(records, missing, len(data))
    # An intact header proves as much as a whole record.
    synced_below = max(
        records[-1].group if records else first_sequence, *(bad.group for bad in unread), -1
    )
    if synced_below > expected:
        missing += _name(unread, expected, synced_below, file, len(data))
        unread = [bad for bad in unread if bad.sequence >= synced_below]
    damages = [m for m in missing if m.sequence < synced_below]
    torn = [m for m in missing if m.sequence >= synced_below]
    torn_at = torn[0].offset if torn else unread[0].offset if unread else len(data)
    if damages and torn_at <= damages[-1].offset:
        # Both in one unreadable stretch: it stays, so that the next start sees the damage too.
        torn_at = next((r.offset for r in records if r.sequence >= synced_below), len(data))
    return Scan([r for r in records if r.offset < torn_at], damages, torn_at)


def _name(unread: list[Damage], expected: int, found: int, file: str, offset: int) -> list[Damage]:
    """One Damage for each sequence in [expected, found), with what the bad places tell of it."""
    known = {bad.sequence: bad for bad in unread if bad.kind is not None}
    first = min((bad.offset for bad in unread), default=offset)
    return [known.get(s) or Damage(file, first, s) for s in range(expected, found)]


def _run(data: bytes, start: int, expected: int, seed: int) -> tuple[list[Record], int]:
    """Records from `start` on for as long as each is intact and in its place, and where that ends.

    Nearly always that is all of a file, which holds up to a million: so it is one plain loop.
    """
    records: list[Record] = []
    unpack, extend, value = _LAYOUT.unpack_from, google_crc32c.extend, google_crc32c.value
    at, last = start, len(data) - RECORD_HEADER_SIZE
    while at <= last:
        magic, kind, _, size, crc, owner, sequence, group, header_crc = unpack(data, at)
        if magic != MAGIC or extend(seed, data[at : at + _BARE.size]) != header_crc:
            break
        after = at + RECORD_HEADER_SIZE + size
        body = data[at + RECORD_HEADER_SIZE : after]
        if sequence != expected or kind not in KINDS or len(body) != size or value(body) != crc:
            break
        records.append(Record(kind, owner, sequence, group, body, at))
        expected += 1
        at = after
    return records, at


def _walk(data: bytes, start: int, file: str, seed: int) -> Iterator[Record | Damage]:
    """Records and bad places, in order; behind a bad place, resume at the next intact header."""
    at, end = start, len(data)
    while at < end:
        header = _header_at(data, at, seed)
        if header is None:
            yield Damage(file, at, -1)
            at = _next_header(data, at + 1, seed)
            continue
        kind, size, crc, owner, sequence, group = header
        if kind not in KINDS:
            raise UnknownFormat(f"{file}: byte {at}: record kind {kind}; known are {sorted(KINDS)}")
        body_at = at + RECORD_HEADER_SIZE
        after = body_at + size
        body = data[body_at:after]
        if after > end or google_crc32c.value(body) != crc:
            yield Damage(file, at, sequence, kind, owner, group, body)
            at = _next_header(data, at + 1, seed)
            continue
        yield Record(kind, owner, sequence, group, body, at)
        at = after


def _header_at(data: bytes, at: int, seed: int) -> tuple[int, int, int, int, int, int] | None:
    if len(data) - at < RECORD_HEADER_SIZE:
        return None
    magic, kind, _, size, crc, owner, sequence, group, header_crc = _LAYOUT.unpack_from(data, at)
    if magic != MAGIC or google_crc32c.extend(seed, data[at : at + _BARE.size]) != header_crc:
        return None
    return kind, size, crc, owner, sequence, group


def _next_header(data: bytes, at: int, seed: int) -> int:
    """The next place with an intact record header, or the end."""
    while (at := data.find(MAGIC, at)) >= 0:
        if _header_at(data, at, seed):
            return at
        at += 1
    return len(data)
