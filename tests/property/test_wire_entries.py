"""Batches, chunks and keys against dumb twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import ProtocolError
from milepost.positions import Position, TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch, split_batch
from milepost.wire.chunks import ChunkAssembler, Orphan, Repeated, Waiting, Whole
from milepost.wire.events import ChunkInfo
from milepost.wire.markers import TXN_ABORT, TXN_COMMIT, marker_of, transaction_marker
from milepost.wire.metadata import is_batch, is_marker, message_count, split_entry
from milepost.wire.murmur import key_slot, murmur3_32

Result = TypeVar("Result")


def attempt(action: Callable[[], Result]) -> Result | ProtocolError:
    try:
        return action()
    except ProtocolError as error:
        return error


# --- batches --------------------------------------------------------------------------------------


@st.composite
def single_messages(draw: st.DrawFn) -> SingleMessage:
    payload = draw(st.binary(max_size=10))
    metadata = pb.SingleMessageMetadata(
        payload_size=len(payload),
        partition_key=draw(st.none() | st.text(max_size=5)),
        sequence_id=draw(st.none() | st.integers(0, 2**40)),
        null_value=draw(st.none() | st.booleans()),
    )
    return SingleMessage(metadata, payload)


@given(st.lists(single_messages(), max_size=8))
def test_a_batch_there_and_back(messages: list[SingleMessage]) -> None:
    assert split_batch(join_batch(messages), len(messages)) == messages


@given(st.lists(single_messages(), max_size=4), st.data())
def test_a_damaged_batch_splits_or_is_refused(
    messages: list[SingleMessage], data: st.DataObject
) -> None:
    payload = bytearray(join_batch(messages))
    at = data.draw(st.integers(0, len(payload)))
    payload[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    count = data.draw(st.integers(0, 6))
    split = attempt(lambda: split_batch(bytes(payload), count))
    if isinstance(split, ProtocolError):
        assert split.reason == "bad_batch"
    else:
        assert len(split) == count
        assert sum(6 + len(message.payload) for message in split) <= len(payload)


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: b"\x0e\x02\0\0\0" + data))
def test_any_entry_splits_or_is_refused(entry: bytes) -> None:
    parts = attempt(lambda: split_entry(entry))
    if isinstance(parts, ProtocolError):
        assert parts.reason == "bad_metadata"
    else:
        assert entry.endswith(parts.payload)


# --- markers --------------------------------------------------------------------------------------

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.sampled_from((TXN_COMMIT, TXN_ABORT)), INT64, INT64, st.integers(0, 2**63 - 1))
def test_a_marker_there_and_back(kind: int, most: int, least: int, publish_time: int) -> None:
    """Every reader of entries takes it for an entry: the parts, the count, the broker's scan."""
    txn_id = TxnId(most, least)
    parts = split_entry(transaction_marker(kind, txn_id, publish_time))
    assert parts.is_intact
    assert parts.checksum is not None
    assert parts.payload == b""
    assert marker_of(parts.metadata) == (kind, txn_id)
    assert is_marker(parts.metadata)
    assert not is_batch(parts.metadata)
    assert message_count(parts.metadata) == 1
    assert parts.metadata.publish_time == publish_time


# --- chunks ---------------------------------------------------------------------------------------

# (uuid, chunk id, entry): few of each, so that they meet; every chunk is one byte, its entry.
CHUNKS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 12)), max_size=25
)


def wanted(history: list[tuple[int, int]]) -> list[int] | None:
    """The dumb twin: what is kept of one message, by reading all that came for it from the start.

    None: nothing is kept.
    """
    kept: list[int] | None = None
    for chunk_id, entry in history:
        if chunk_id == 0:
            kept = [entry]
        elif kept is None or chunk_id < len(kept):
            continue
        elif chunk_id == len(kept):
            kept.append(entry)
            if len(kept) == 3:
                kept = None
        else:
            kept = None
    return kept


@given(CHUNKS)
def test_chunks_against_the_whole_history(chunks: list[tuple[str, int, int]]) -> None:
    assembler = ChunkAssembler(waiting_max=5)
    histories: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    for uuid, chunk_id, entry in chunks:
        before = wanted(histories[uuid])
        outcome = assembler.add(
            ChunkInfo(uuid, chunk_id, 3, 3), Position(0, entry), bytes([entry]), now_ms=0
        )
        histories[uuid].append((chunk_id, entry))
        after = wanted(histories[uuid])
        match outcome:
            case Whole(payload, positions):
                assert before is not None
                assert payload == bytes([*before, entry])
                assert [position.entry_id for position in positions] == [*before, entry]
                assert after is None
            case Waiting(given_up):
                assert after is not None
                assert after[-1] == entry
                dropped = {position.entry_id for position in given_up}
                again = chunk_id == 0 and before is not None and entry not in before
                assert dropped == (set(before or ()) if again else set())
            case Repeated(is_same_entry):
                assert before is not None
                assert before == after
                assert is_same_entry == (entry in before)
            case Orphan(given_up):
                assert after is None
                assert [position.entry_id for position in given_up] == (before or [])
        waiting = sum(wanted(history) is not None for history in histories.values())
        assert len(assembler) == waiting


@given(CHUNKS, st.integers(1, 2))
def test_no_chunk_is_forgotten(chunks: list[tuple[str, int, int]], waiting_max: int) -> None:
    """Each chunk that was kept comes out: in its message, given up, or at the end."""
    assembler = ChunkAssembler(waiting_max)
    kept: dict[Position, int] = {}
    for place, (uuid, chunk_id, _) in enumerate(chunks):
        position = Position(0, place)
        outcome = assembler.add(ChunkInfo(uuid, chunk_id, 3, 3), position, b"x", now_ms=place)
        gone: list[Position] = []
        match outcome:
            case Waiting(given_up):
                kept[position] = place
                gone += given_up
            case Whole(_, positions, given_up):
                kept[position] = place
                gone += [*positions, *given_up]
            case Orphan(given_up):
                gone += given_up
        for one in gone:
            del kept[one]
        assert len(assembler) <= waiting_max
    assert sorted(assembler.clear()) == sorted(kept)


# --- keys -----------------------------------------------------------------------------------------


def dumb_murmur(data: bytes, seed: int) -> int:
    """Bit by bit as the hash is described, each step masked."""

    def rotate(value: int, bits: int) -> int:
        return int(f"{value:032b}"[bits:] + f"{value:032b}"[:bits], 2)

    def mix(block: int) -> int:
        return rotate(block * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32

    value = seed
    blocks = [data[at : at + 4] for at in range(0, len(data), 4)]
    for block in blocks:
        value ^= mix(int.from_bytes(block, "little"))
        if len(block) == 4:
            value = (rotate(value, 13) * 5 + 0xE6546B64) % 2**32
    value ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = (value ^ (value >> shift)) * factor % 2**32
    return value ^ (value >> 16)


@given(st.binary(max_size=40), st.integers(0, 2**32 - 1))
def test_murmur(data: bytes, seed: int) -> None:
    assert murmur3_32(data, seed) == dumb_murmur(data, seed)
    assert 0 < key_slot(data) < 65536
