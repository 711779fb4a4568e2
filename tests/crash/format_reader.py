"""A reader of data directories that was written from docs/format.md and from nothing else.

It imports nothing of Milepost. Whatever it needs and the page does not say is missing from the page.
It changes nothing, knows no repair and stops at damage.

    directory = read_directory(Path("data"))
    for message in directory.messages: ...
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import google_crc32c

FILE_HEADER = struct.Struct("<4s4sHH16sQQQQI")
RECORD_HEADER = struct.Struct("<4sHHIIQQQI")
ENTRY_HEADER = struct.Struct("<IIQQQQIHH")
LEDGER_BODY = struct.Struct("<QQQ")
MILEPOST = struct.Struct("<IIII")

ENTRIES, LEDGER, FACT, STATE, FACTS, STEP = 1, 2, 3, 4, 5, 6
PART = struct.Struct("<HQI")


class Damaged(Exception):
    """Something that had been acknowledged cannot be read."""


class Message(NamedTuple):
    topic: str
    ledger: int
    entry: int
    index: int  # type: ignore[assignment]
    payload: bytes
    """Of its whole entry: a batch is not taken apart."""


class State(NamedTuple):
    topic: str
    kind: str
    name: str
    snapshot: bytes | None
    facts: list[bytes]


class Directory(NamedTuple):
    messages: list[Message]
    states: list[State]


class Header(NamedTuple):
    kind: bytes
    incarnation: bytes
    a: int
    b: int
    c: int
    d: int


class Record(NamedTuple):
    kind: int
    owner: int
    sequence: int
    group: int
    body: bytes


class Entry(NamedTuple):
    ledger: int
    entry: int
    last_index: int
    time: int
    count: int  # type: ignore[assignment]
    flags: int
    beside: bytes
    payload: bytes
    offset: int


class Ledger(NamedTuple):
    ledger: int
    first_index: int
    entries: list[Entry]


def read_directory(root: Path) -> Directory:
    catalog = sqlite3.connect(f"file:{root}/catalog.sqlite?mode=ro", uri=True)
    try:
        (version,) = catalog.execute("pragma user_version").fetchone()
        if version != 2:
            raise Damaged(f"catalog of format {version}")
        return _read(root, catalog)
    finally:
        catalog.close()


def _read(root: Path, catalog: sqlite3.Connection) -> Directory:
    topics = dict(catalog.execute("select topic_id, name from topics"))
    buried = set(catalog.execute("select kind, object_id from tombstones"))
    logs: dict[int, list[Ledger]] = {topic: [] for topic in topics}
    topic_of: dict[int, int] = {}
    columns = "ledger_id, topic_id, first_index, entries, size_bytes, mileposts_crc, first_time_ms"
    (incarnation,) = catalog.execute("select incarnation from meta").fetchone()
    for row in catalog.execute(f"select {columns} from ledgers order by ledger_id"):
        ledger, topic, first_index, count, size, mileposts_crc, first_time = row
        topic_of[ledger] = topic
        entries: list[Entry] = []
        if size:
            data = (root / f"ledgers/{ledger:016x}.ledger").read_bytes()[:size]
            header = Header(b"LEDG", incarnation, ledger, topic, first_index, first_time)
            if file_header(data) != header:
                raise Damaged(f"ledger {ledger}: {file_header(data)} instead of {header}")
            entries = list(read_entries(data, 64))
            _check_mileposts(root, header, entries, mileposts_crc)
        if [entry.entry for entry in entries] != list(range(count)):
            raise Damaged(f"ledger {ledger} holds {len(entries)} entries instead of {count}")
        logs[topic].append(Ledger(ledger, first_index, entries))

    states: dict[int, tuple[int, State]] = {}
    columns = "state_id, topic_id, kind, name, snapshot, facts, sequence"
    for state, topic, kind, name, snapshot, facts, sequence in catalog.execute(
        f"select {columns} from states"
    ):
        states[state] = sequence, State(topics[topic], kind, name, snapshot, split_facts(facts))

    for record in read_journal(root, catalog):
        if record.kind in (FACT, STATE):
            if ("state", record.owner) in buried:
                continue
            sequence, told = states[record.owner]
            if record.sequence <= sequence:
                continue
            if record.kind == FACT:
                told.facts.append(record.body)
            else:
                states[record.owner] = sequence, told._replace(snapshot=record.body, facts=[])
            continue
        if record.kind == LEDGER:
            topic_of[record.owner], first_index, _ = LEDGER_BODY.unpack(record.body)
        if ("ledger", record.owner) in buried:
            continue
        topic = topic_of[record.owner]
        if ("topic", topic) in buried:
            continue
        log = logs[topic]
        if record.kind == LEDGER:
            if not log or log[-1].ledger < record.owner:
                log.append(Ledger(record.owner, first_index, []))
        elif record.kind == ENTRIES and log[-1].ledger == record.owner:
            known = log[-1].entries
            for entry in read_entries(record.body, 0):
                if entry.entry >= len(known):
                    if entry.entry != len(known):
                        raise Damaged(f"{entry} behind {len(known)} entries")
                    known.append(entry)
    messages: list[Message] = []
    for topic, log in logs.items():
        messages += _messages(topics[topic], log)
    return Directory(messages, [told for _, told in states.values()])


def _messages(topic: str, log: list[Ledger]) -> Iterator[Message]:
    index = log[0].first_index if log else 0
    for ledger in log:
        if ledger.first_index != index:
            raise Damaged(f"{topic}: ledger {ledger.ledger} begins at {ledger.first_index}")
        for entry in ledger.entries:
            for _ in range(entry.count):
                yield Message(topic, ledger.ledger, entry.entry, index, entry.payload)
                index += 1
            if entry.last_index != index - 1 or entry.ledger != ledger.ledger:
                raise Damaged(f"{topic}: {entry} ends at {index - 1}")


def file_header(data: bytes) -> Header | None:
    """None if it is not intact."""
    if len(data) < 64:
        return None
    magic, kind, version, _, incarnation, a, b, c, d, crc = FILE_HEADER.unpack_from(data)
    if magic != b"MPST" or google_crc32c.value(data[:60]) != crc:
        return None
    if version != 1:
        raise Damaged(f"file of format {version}")
    return Header(kind, incarnation, a, b, c, d)


def read_entries(data: bytes, at: int) -> Iterator[Entry]:
    while at < len(data):
        size, crc, ledger, number, last_index, time, count, flags, beside = (
            ENTRY_HEADER.unpack_from(data, at)
        )
        end = at + 48 + beside + size
        if end > len(data) or google_crc32c.value(data[at + 8 : end]) != crc:
            raise Damaged(f"entry at byte {at}")
        yield Entry(
            ledger,
            number,
            last_index,
            time,
            count,
            flags,
            data[at + 48 : at + 48 + beside],
            data[at + 48 + beside : end],
            at,
        )
        at = end


def _check_mileposts(root: Path, ledger: Header, entries: list[Entry], crc: int) -> None:
    """They may be missing or stale, which the checksum tells; but if it matches, they are right."""
    path = root / f"ledgers/{ledger.a:016x}.mileposts"
    if not path.exists():
        return
    data = path.read_bytes()[: 64 + 16 * len(entries)]
    if file_header(data) != ledger._replace(kind=b"MILE") or google_crc32c.value(data[64:]) != crc:
        return
    rows = [
        (entry.offset, entry.last_index - ledger.c, entry.time - ledger.d, entry.flags)
        for entry in entries
    ]
    if list(MILEPOST.iter_unpack(data[64:])) != rows:
        raise Damaged(f"mileposts of ledger {ledger.a}")


def read_journal(root: Path, catalog: sqlite3.Connection) -> Iterator[Record]:
    incarnation, first, last = catalog.execute(
        "select incarnation, journal_first, journal_last from meta"
    ).fetchone()
    files: dict[int, tuple[Header, bytes]] = {}
    for path in (root / "journal").glob("*.journal"):
        number = int(path.stem, 16)
        data = path.read_bytes()
        header = file_header(data)
        if number < first:
            continue
        if header is None or header[:3] != (b"JRNL", incarnation, number):
            raise Damaged(f"{path.name}: {header}")
        files[number] = header, data
    if last == 0:
        return
    if last not in files:
        raise Damaged(f"journal file {last} is missing")
    chain: list[tuple[Header, bytes]] = []
    number = max(files)
    counts: int | None = None  # bytes, by the header of the file behind it
    while not chain or chain[-1][0].a != first:
        if number not in files:
            raise Damaged(f"journal file {number} is missing")
        header, data = files[number]
        if counts is not None and len(data) < counts:
            raise Damaged(f"journal file {number} is cut")
        chain.append((header, data[:counts]))
        number, counts = header.b, header.c
    for header, data in reversed(chain):
        yield from read_records(data, header, newest=header is chain[0][0])


def read_records(data: bytes, header: Header, *, newest: bool) -> Iterator[Record]:
    at, expected = 64, header.d
    while at < len(data):
        record = _record_at(data, at, header.incarnation)
        if record is None or record.body is None or record.sequence != expected:
            later = _later_groups(data, at + 1, header.incarnation)
            if not newest or any(group > expected for group in later):
                raise Damaged(f"journal file {header.a}: byte {at}: sequence {expected}")
            return  # a torn tail
        if record.kind not in (ENTRIES, LEDGER, FACT, STATE, FACTS, STEP):
            raise Damaged(f"journal file {header.a}: byte {at}: kind {record.kind}")
        yield from split_parts(record)
        expected += 1
        at += 44 + len(record.body)


def split_parts(record: Record) -> Iterator[Record]:
    """A record as it is, or one for each part of it."""
    if record.kind not in (FACTS, STEP):
        yield record
        return
    at = 0
    while at < len(record.body):
        kind, owner, size = PART.unpack_from(record.body, at)
        at += PART.size + size
        yield record._replace(kind=kind, owner=owner, body=record.body[at - size : at])


def _record_at(data: bytes, at: int, incarnation: bytes) -> Record | None:
    """None if its header is not intact; without a body if that is not."""
    if len(data) - at < 44:
        return None
    magic, kind, _, size, crc, owner, sequence, group, header_crc = RECORD_HEADER.unpack_from(
        data, at
    )
    if magic != b"MPR1" or google_crc32c.value(incarnation + data[at : at + 40]) != header_crc:
        return None
    body = data[at + 44 : at + 44 + size]
    intact = len(body) == size and google_crc32c.value(body) == crc
    return Record(kind, owner, sequence, group, body if intact else None)  # type: ignore[arg-type]


def _later_groups(data: bytes, at: int, incarnation: bytes) -> Iterator[int]:
    while (at := data.find(b"MPR1", at)) >= 0:
        record = _record_at(data, at, incarnation)
        if record is not None:
            yield record.group
        at += 1


def split_facts(data: bytes) -> list[bytes]:
    facts = []
    while data:
        size = int.from_bytes(data[:4], "little")
        facts.append(data[4 : 4 + size])
        data = data[4 + size :]
    return facts


# -- cursors ----------------------------------------------------------------------------------------


class CursorFact(NamedTuple):
    kind: int
    epoch: int
    first: int | None
    """Of a range; of a seek or trim, its index."""
    indexes: set[int]


class CursorSnapshot(NamedTuple):
    first: int
    end: int
    epoch: int
    sets: list[set[int]]
    """Backlog, returned, stale, then the bits of the redelivery counts."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | data[at] << shift, at + 1


def read_set(data: bytes) -> set[int]:
    indexes: set[int] = set()
    at = end = 0
    while at < len(data):
        gap, at = read_varint(data, at)
        head, at = read_varint(data, at)
        first = end + gap
        if head % 2 == 0:
            end = first + head // 2
            indexes.update(range(first, end))
        else:
            size = head // 2
            bits = int.from_bytes(data[at : at + size], "little")
            indexes.update(first + bit for bit in range(8 * size) if bits >> bit & 1)
            at, end = at + size, first + 8 * size
    return indexes


def read_fact(data: bytes) -> CursorFact:
    version, kind, epoch = struct.unpack_from("<BBQ", data)
    if version != 1:
        raise Damaged(f"fact of version {version}")
    if kind == 1:
        first, end = struct.unpack_from("<QQ", data, 10)
        return CursorFact(kind, epoch, first, set(range(first, end)))
    if kind in (3, 4):
        (first,) = struct.unpack_from("<Q", data, 10)
        return CursorFact(kind, epoch, first, read_set(data[18:]))
    return CursorFact(kind, epoch, None, read_set(data[10:]))


def read_snapshot(data: bytes) -> CursorSnapshot:
    if data[0] != 1 or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise Damaged(f"snapshot of version {data[0]}")
    first, at = read_varint(data, 1)
    end, at = read_varint(data, at)
    epoch, at = read_varint(data, at)
    count, at = read_varint(data, at)
    sets = []
    for _ in range(count):
        size, at = read_varint(data, at)
        sets.append(read_set(data[at : at + size]))
        at += size
    return CursorSnapshot(first, end, epoch, sets)
