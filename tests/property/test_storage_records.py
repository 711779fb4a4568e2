"""Properties of journal records and entries: whatever the bytes, nothing is made up or forgotten."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import CorruptData, UnknownFormat
from milepost.storage.journal.records import (
    KINDS,
    RECORD_HEADER_SIZE,
    Record,
    Scan,
    body_crc,
    encode_header,
    scan,
    seed_of,
)
from milepost.storage.ledgers.entry import Block, NewEntry, decode_entries

SEED = seed_of(bytes(range(16)))


class File(NamedTuple):
    first_sequence: int
    records: list[Record]
    data: bytes


@st.composite
def journal_files(draw: st.DrawFn) -> File:
    """Records in groups, as a journal writes them."""
    first = sequence = draw(st.integers(1, 2**40))
    records: list[Record] = []
    data = b""
    for size in draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)):
        group = sequence
        for _ in range(size):
            kind, owner = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(0, 2**64 - 1))
            body = draw(st.one_of(st.binary(max_size=40), st.just(b"MPR1" * 3)))
            crc = body_crc([body])
            records.append(Record(kind, owner, sequence, group, body, len(data)))
            data += encode_header(SEED, kind, len(body), crc, owner, sequence, group) + body
            sequence += 1
    return File(first, records, data)


def read(file: File, data: bytes, *, whole: bool) -> Scan:
    return scan(data, 0, "j", file.first_sequence, SEED, whole=whole)


@st.composite
def mutilated(draw: st.DrawFn) -> tuple[File, bytes]:
    """A file and what a bad medium made of it: bytes changed, copied, zeroed, cut off or added."""
    file = draw(journal_files())
    data = bytearray(file.data)
    size = len(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, size - 1))
        length = min(draw(st.integers(1, 60)), size - at)
        match draw(st.sampled_from(["flip", "noise", "zero", "copy"])):
            case "flip":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "noise":
                data[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "zero":
                data[at : at + length] = bytes(length)
            case "copy":
                source = draw(st.integers(0, size - length))
                data[at : at + length] = file.data[source : source + length]
    end = draw(st.one_of(st.just(size), st.integers(0, size)))
    return file, bytes(data[:end]) + draw(st.binary(max_size=50))


@given(journal_files(), st.booleans())
def test_an_intact_file_is_read_whole(file: File, whole: bool) -> None:
    assert read(file, file.data, whole=whole) == Scan(file.records, [], len(file.data))


@given(journal_files(), st.data())
def test_a_prefix_gives_its_whole_records(file: File, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(file.data)))
    found = read(file, file.data[:size], whole=False)
    fits = [r for r in file.records if r.offset + RECORD_HEADER_SIZE + len(r.body) <= size]
    assert found.records == fits
    assert found.damages == []
    assert found.size == (fits[-1].offset + 44 + len(fits[-1].body) if fits else 0)


@given(mutilated(), st.booleans())
def test_nothing_is_made_up(both: tuple[File, bytes], whole: bool) -> None:
    """Every record given is one that was written, and they come in order."""
    file, data = both
    written = {record.sequence: record for record in file.records}
    found = read(file, data, whole=whole)
    sequences = [record.sequence for record in found.records]
    assert sequences == sorted(set(sequences))
    for record in found.records:
        assert record == written[record.sequence]._replace(offset=record.offset)
        assert data[record.offset : record.offset + 4] == b"MPR1"
    assert found.size <= len(data)


@given(mutilated())
def test_nothing_acknowledged_is_forgotten(both: tuple[File, bytes]) -> None:
    """What is not read is damage if anything that survived proves that it had been synced."""
    file, data = both
    found = read(file, data, whole=False)
    accounted = {r.sequence for r in found.records} | {d.sequence for d in found.damages}
    if found.records:
        synced_below = found.records[-1].group
        assert set(range(file.first_sequence, synced_below)) <= accounted
    assert not {r.sequence for r in found.records} & {d.sequence for d in found.damages}


@given(mutilated())
def test_in_a_file_that_is_vouched_for_every_bad_byte_is_damage(both: tuple[File, bytes]) -> None:
    file, data = both
    data = data[: len(file.data)].ljust(len(file.data), b"\0")
    found = read(file, data, whole=True)
    assert found.size == len(data)
    accounted = {r.sequence for r in found.records} | {d.sequence for d in found.damages}
    if data != file.data:
        assert found.damages or found.records == file.records
    last = max(accounted, default=file.first_sequence - 1)
    assert set(range(file.first_sequence, last + 1)) == accounted


@given(mutilated())
def test_what_a_start_cuts_the_next_start_does_not_miss(both: tuple[File, bytes]) -> None:
    """Recovery is idempotent: the valid part, vouched for, tells the same again."""
    file, data = both
    first = read(file, data, whole=False)
    if any(damage.kind is None for damage in first.damages):
        return  # not opened, so there is no next start
    again = read(file, data[: first.size], whole=True)
    assert again.records == first.records
    assert again.damages == first.damages


@given(st.binary(max_size=400), st.integers(0, 2**63), st.booleans())
def test_any_bytes_end_in_records_or_damage(data: bytes, first: int, whole: bool) -> None:
    found = scan(data, 0, "j", first, SEED, whole=whole)
    assert found.records == []
    assert bool(found.damages) == (whole and bool(data))


@given(journal_files(), st.integers(0, 2**16 - 1).filter(lambda kind: kind not in KINDS))
def test_a_kind_of_the_future_is_refused(file: File, kind: int) -> None:
    crc = body_crc([b"x"])
    end = file.first_sequence + len(file.records)
    data = file.data + encode_header(SEED, kind, 1, crc, 1, end, end) + b"x"
    with pytest.raises(UnknownFormat, match=f"record kind {kind};"):
        read(file, data, whole=False)


new_entries = st.builds(
    NewEntry,
    payload=st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(memoryview)),
    count=st.integers(1, 2**20),
    flags=st.integers(0, 15),
    beside=st.binary(max_size=20),
)


@given(
    st.lists(new_entries, min_size=1, max_size=6),
    st.integers(0, 2**63),
    st.integers(0, 2**40),
    st.integers(0, 2**60),
)
def test_entries_come_back_as_they_were(
    items: list[NewEntry], ledger_id: int, entry_id: int, first_index: int
) -> None:
    block = Block.encode(ledger_id, entry_id, first_index, 7, items)
    entries = decode_entries(block.data, "here")
    index = first_index
    for number, (item, entry) in enumerate(zip(items, entries, strict=True)):
        assert entry.position == (ledger_id, entry_id + number)
        assert tuple(entry.span) == (index, item.count)
        assert (bytes(entry.payload), entry.beside, entry.flags) == (
            bytes(item.payload),
            item.beside,
            item.flags,
        )
        index += item.count
    assert block.end_index == index
    assert Block.decode(block.data, "here") == block


@given(st.lists(new_entries, min_size=1, max_size=3), st.data())
def test_a_changed_entry_is_never_taken(items: list[NewEntry], data: st.DataObject) -> None:
    block = Block.encode(1, 0, 0, 7, items)
    at = data.draw(st.integers(0, len(block.data) - 1))
    changed = bytearray(block.data)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptData, match="here: "):
        decode_entries(bytes(changed), "here")


@given(st.binary(max_size=300))
def test_any_bytes_end_in_entries_or_corrupt_data(data: bytes) -> None:
    if not data:
        assert decode_entries(data, "here") == []
        return
    with pytest.raises(CorruptData, match="here: "):
        decode_entries(data, "here")
    with suppress(CorruptData):  # looks at no checksum: it is given what was verified
        assert Block.decode(data, "here").data == data
