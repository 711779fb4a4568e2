"""Entries: numbered, encoded, found again; and nothing else is taken for one."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptData
from milepost.positions.ids import Position
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import (
    BATCH,
    HEADER_SIZE,
    MARKER,
    Block,
    NewEntry,
    decode_entries,
)

TIME_MS = 1_700_000_000_123

ITEMS = [
    NewEntry(b"one"),
    NewEntry(memoryview(b"a batch"), 5, BATCH),
    NewEntry(b"", 1, MARKER),
    NewEntry(b"chunk", 1, 0, b"beside it"),
]


@pytest.fixture
def block() -> Block:
    return Block.encode(7, 3, 100, TIME_MS, ITEMS)


def test_items_are_numbered_from_the_first_entry_and_index_on(block: Block) -> None:
    entries = decode_entries(block.data, "here")
    assert [entry.position for entry in entries] == [Position(7, n) for n in (3, 4, 5, 6)]
    assert [entry.span for entry in entries] == [
        Span(100, 1),
        Span(101, 5),
        Span(106, 1),
        Span(107, 1),
    ]
    assert [bytes(entry.payload) for entry in entries] == [b"one", b"a batch", b"", b"chunk"]
    assert [entry.beside for entry in entries] == [b"", b"", b"", b"beside it"]
    assert [entry.flags for entry in entries] == [0, BATCH, MARKER, 0]
    assert {entry.timestamp_ms for entry in entries} == {TIME_MS}


def test_a_block_knows_what_it_holds(block: Block) -> None:
    assert (block.entry_count, block.end_index) == (4, 108)
    assert block.last_indexes == [100, 105, 106, 107]
    assert block.sizes == [HEADER_SIZE + 3, HEADER_SIZE + 7, HEADER_SIZE, HEADER_SIZE + 9 + 5]
    assert sum(block.sizes) == len(block.data)
    assert [entry.entry_id for entry in block.entries()] == [3, 4, 5, 6]


def test_decoding_gives_the_block_again(block: Block) -> None:
    assert Block.decode(block.data, "here") == block


@pytest.mark.parametrize("data", [b"", b"x", bytes(HEADER_SIZE - 1)])
def test_bytes_that_hold_no_whole_entries_are_no_block(data: bytes) -> None:
    with pytest.raises(CorruptData, match="here: "):
        Block.decode(data, "here")


def test_every_cut_is_noticed(block: Block) -> None:
    whole = {sum(block.sizes[:count]) for count in range(5)}
    for size in range(len(block.data)):
        if size in whole:
            assert len(decode_entries(block.data[:size], "here")) == len(
                [end for end in sorted(whole) if 0 < end <= size]
            )
        else:
            with pytest.raises(CorruptData, match="here"):
                decode_entries(block.data[:size], "here")


def test_every_flipped_bit_is_noticed() -> None:
    data = Block.encode(1, 0, 0, TIME_MS, [NewEntry(b"payload", 2, BATCH, b"b")]).data
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptData):
            decode_entries(bytes(damaged), "here")


def test_checking_can_be_spared_for_bytes_that_never_left_memory() -> None:
    data = bytearray(Block.encode(1, 0, 0, TIME_MS, [NewEntry(b"payload")]).data)
    data[-1] ^= 1
    (entry,) = decode_entries(bytes(data), "memory", check=False)
    assert bytes(entry.payload) == b"payloae"


def test_large_payloads_are_not_copied() -> None:
    block = Block.encode(1, 0, 0, TIME_MS, [NewEntry(b"small"), NewEntry(b"x" * 5000)])
    small, large = decode_entries(block.data, "here")
    assert (small.payload, bytes(large.payload)) == (b"small", b"x" * 5000)
    assert isinstance(large.payload, memoryview)
    assert large.payload.obj is block.data


def test_a_block_is_its_entries_one_behind_the_other() -> None:
    items = [
        NewEntry(b"a", 3, BATCH),
        NewEntry(b"", 1, MARKER),
        NewEntry(memoryview(b"c"), 2, 0, b"b"),
    ]
    block = Block.encode(9, 5, 100, TIME_MS, items)
    ones = [
        Block.encode(9, entry_id, first_index, TIME_MS, [item])
        for entry_id, first_index, item in zip((5, 6, 7), (100, 103, 104), items, strict=True)
    ]
    assert block.data == b"".join(one.data for one in ones)
    for column in ("sizes", "last_indexes", "flags"):
        assert getattr(block, column) == [getattr(one, column)[0] for one in ones]
    assert [one.first_entry_id for one in ones] == [5, 6, 7]
    assert {(one.ledger_id, one.timestamp_ms) for one in ones} == {(9, TIME_MS)}
