"""Ids under Hypothesis: the order against a dumb key, and every form there and back."""

from __future__ import annotations

import pickle

from hypothesis import example, given
from hypothesis import strategies as st

from milepost.errors import InvalidMessageId
from milepost.positions.ids import (
    MESSAGE_ID_TEXT_LENGTH_MAX,
    ChunkMessageId,
    MessageId,
    Position,
    signed64,
    unsigned64,
)
from milepost.testing.strategies import chunk_message_ids, int64s, message_ids, positions

ANY_ID = message_ids() | chunk_message_ids()


def key(message_id: MessageId) -> tuple[int, int, int, int]:
    """The dumb twin of the order."""
    return (
        message_id.ledger_id,
        message_id.entry_id,
        message_id.batch_index,
        message_id.partition,
    )


def read(data: bytes) -> MessageId | InvalidMessageId:
    try:
        return MessageId.deserialize(data)
    except InvalidMessageId as error:
        return error


@given(ANY_ID, ANY_ID)
def test_ids_compare_as_their_keys(left: MessageId, right: MessageId) -> None:
    assert (left < right) == (key(left) < key(right))
    assert (left <= right) == (key(left) <= key(right))
    assert (left == right) == (key(left) == key(right))
    assert (left != right) == (key(left) != key(right))
    assert left != right or hash(left) == hash(right)


@given(chunk_message_ids())
def test_a_chunk_id_is_equal_to_its_last_chunk_and_not_before_its_first(
    chunked: ChunkMessageId,
) -> None:
    last = chunked.last_chunk_message_id
    assert chunked == last
    assert hash(chunked) == hash(last)
    assert chunked.position == last.position
    assert chunked.first_chunk_message_id <= chunked


@given(ANY_ID)
def test_bytes_bring_the_id_back(message_id: MessageId) -> None:
    back = MessageId.deserialize(message_id.serialize())
    assert repr(back) == repr(message_id)
    assert back.serialize() == message_id.serialize()


@given(ANY_ID)
def test_text_brings_the_id_back(message_id: MessageId) -> None:
    text = str(message_id)
    assert len(text) <= MESSAGE_ID_TEXT_LENGTH_MAX
    back = MessageId.parse(text)
    assert (back, type(back), str(back)) == (message_id, type(message_id), text)


@given(message_ids())
def test_the_cpp_text_brings_the_id_back(message_id: MessageId) -> None:
    ledger_id, entry_id, batch_index, partition = key(message_id)
    assert MessageId.parse(f"({ledger_id},{entry_id},{partition},{batch_index})") == message_id


@given(ANY_ID)
def test_pickles_bring_the_id_back(message_id: MessageId) -> None:
    assert repr(pickle.loads(pickle.dumps(message_id))) == repr(message_id)


@given(positions(), positions())
def test_positions_come_back_and_keep_their_order(left: Position, right: Position) -> None:
    assert Position.parse(str(left)) == left
    lower = left.ledger_id < right.ledger_id or (
        left.ledger_id == right.ledger_id and left.entry_id < right.entry_id
    )
    assert (left < right) == lower


@given(int64s())
def test_signed_and_unsigned_are_inverse(number: int) -> None:
    assert 0 <= unsigned64(number) < 2**64
    assert signed64(unsigned64(number)) == number


@given(st.binary(max_size=40))
@example(b"\x08\x01\x10\x02\x3a\x04\x08\x09\x10\x09")
def test_any_bytes_are_an_id_or_refused(data: bytes) -> None:
    outcome = read(data)
    if isinstance(outcome, MessageId):
        assert repr(read(outcome.serialize())) == repr(outcome)
    else:
        assert "at offset" in str(outcome)


@given(ANY_ID, st.data())
def test_any_damage_leaves_an_id_or_is_refused(message_id: MessageId, data: st.DataObject) -> None:
    damaged = bytearray(message_id.serialize())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for garbage in (bytes(damaged), cut):
        outcome = read(garbage)
        assert isinstance(outcome, MessageId) or "at offset" in str(outcome)


@given(st.text(max_size=60) | st.text("0123456789-:;,() ", max_size=60))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        message_id = MessageId.parse(text)
    except InvalidMessageId:
        return
    assert MessageId.parse(str(message_id)) == message_id
