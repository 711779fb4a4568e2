"""Positions, message ids and chunk ids: order, text, bytes, and what is refused."""

from __future__ import annotations

import copy
import pickle
from itertools import permutations

import pytest

from milepost.errors import InvalidMessageId
from milepost.positions.ids import (
    EARLIEST,
    INT32_MAX,
    INT64_MAX,
    LATEST,
    MESSAGE_ID_SIZE_BYTES_MAX,
    MESSAGE_ID_TEXT_LENGTH_MAX,
    ChunkMessageId,
    MessageId,
    Position,
    signed64,
    unsigned64,
)

BASE = b"\x08\x01\x10\x02"  # ledger 1, entry 2


# --- numbers on the wire


@pytest.mark.parametrize(
    ("signed", "unsigned"),
    [(0, 0), (-1, 2**64 - 1), (INT64_MAX, INT64_MAX), (-(2**63), 2**63)],
)
def test_unsigned_fields_carry_signed_numbers(signed: int, unsigned: int) -> None:
    assert signed64(unsigned) == signed
    assert unsigned64(signed) == unsigned


# --- positions


def test_positions_are_ordered_by_ledger_then_entry() -> None:
    ordered = [Position(-1, -1), Position(1, -1), Position(1, 0), Position(1, 9), Position(2, 0)]
    for shuffled in permutations(ordered):
        assert sorted(shuffled) == ordered


def test_a_position_prints_and_parses() -> None:
    assert str(Position(7, 12)) == "7:12"
    assert Position.parse("7:12") == Position(7, 12)
    assert Position.parse("-1:-1") == Position(-1, -1)


@pytest.mark.parametrize(
    "text",
    ["", "7", "7:", ":7", "7:12:1", " 7:12", "7:12 ", "7:12\n", "７:1", "7:0x1", "+7:1", "7_0:1"],
)
def test_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageId, match="expected ledger:entry"):
        Position.parse(text)


def test_a_position_past_64_bits_is_refused_and_named() -> None:
    with pytest.raises(InvalidMessageId, match="9223372036854775808 does not fit 64 bits"):
        Position.parse(f"1:{2**63}")


# --- message ids as values


def test_a_message_id_has_pulsars_defaults() -> None:
    plain = MessageId(7, 12)
    assert (plain.partition, plain.batch_index, plain.batch_size) == (-1, -1, 0)
    assert plain.position == Position(7, 12)


def test_every_number_comes_back_by_its_name() -> None:
    message_id = MessageId(1, 2, partition=3, batch_index=4, batch_size=5)
    assert message_id.ledger_id == 1
    assert message_id.entry_id == 2
    assert message_id.partition == 3
    assert message_id.batch_index == 4
    assert message_id.batch_size == 5
    assert repr(message_id) == (
        "MessageId(ledger_id=1, entry_id=2, partition=3, batch_index=4, batch_size=5)"
    )


def test_ids_are_ordered_by_ledger_entry_batch_index_and_last_by_partition() -> None:
    ordered = [
        EARLIEST,
        MessageId(1, 9, partition=5),
        MessageId(2, 1, partition=4),
        MessageId(2, 1, partition=0, batch_index=0),
        MessageId(2, 1, partition=1, batch_index=0),
        MessageId(2, 1, partition=0, batch_index=1),
        LATEST,
    ]
    for place, lower in enumerate(ordered):
        for higher in ordered[place + 1 :]:
            assert lower < higher
            assert not higher <= lower


def test_the_partition_is_compared_and_the_batch_size_is_not() -> None:
    assert MessageId(1, 2, partition=0) != MessageId(1, 2, partition=1)
    sized, unsized = MessageId(1, 2, 0, 3, batch_size=9), MessageId(1, 2, 0, 3)
    assert sized == unsized
    assert hash(sized) == hash(unsized)
    assert not sized < unsized
    assert not sized > unsized


@pytest.mark.parametrize("name", ["ledger_id", "batch_size", "first_chunk_message_id", "anything"])
def test_an_id_does_not_change(name: str) -> None:
    for message_id in (MessageId(1, 2, 3, 4, 5), ChunkMessageId(MessageId(1, 0), MessageId(1, 2))):
        before = repr(message_id)
        with pytest.raises(AttributeError):
            setattr(message_id, name, 9)
        with pytest.raises(AttributeError):
            delattr(message_id, name)
        assert repr(message_id) == before


@pytest.mark.parametrize(
    "message_id",
    [
        MessageId(1, 2),
        MessageId(1, 2, 3, 4, 5),
        ChunkMessageId(MessageId(1, 0, 3), MessageId(1, 2, 3)),
    ],
)
def test_copies_and_pickles_are_whole(message_id: MessageId) -> None:
    # Spark pickles partitions with ids in them; what is not compared must come along too.
    for twin in (
        copy.copy(message_id),
        copy.deepcopy(message_id),
        pickle.loads(pickle.dumps(message_id)),
    ):
        assert type(twin) is type(message_id)
        assert repr(twin) == repr(message_id)


def test_replacing_one_number_keeps_the_batch_size() -> None:
    message_id = MessageId(1, 2, 3, 4, 5)
    # The second is what copy.replace calls, from Python 3.13 on.
    for replaced in (message_id._replace(batch_index=0), message_id.__replace__(batch_index=0)):
        assert repr(replaced) == repr(MessageId(1, 2, 3, 0, 5))


def test_earliest_and_latest_enclose_every_id() -> None:
    assert (EARLIEST.ledger_id, EARLIEST.entry_id) == (-1, -1)
    assert (LATEST.ledger_id, LATEST.entry_id) == (INT64_MAX, INT64_MAX)
    assert EARLIEST < MessageId(0, 0) < MessageId(INT64_MAX, INT64_MAX - 1) < LATEST


# --- chunk ids


FIRST, LAST = MessageId(7, 9, partition=3), MessageId(7, 12, partition=3)
CHUNKED = ChunkMessageId(FIRST, LAST)


def test_pip107_a_chunk_id_is_its_last_chunk_to_everyone_who_does_not_know_better() -> None:
    assert CHUNKED == LAST
    assert LAST == CHUNKED
    assert hash(CHUNKED) == hash(LAST)
    assert {LAST: "stored"}[CHUNKED] == "stored"
    assert FIRST < CHUNKED < MessageId(7, 13, partition=3)
    assert CHUNKED.position == Position(7, 12)
    assert (CHUNKED.partition, CHUNKED.batch_index, CHUNKED.batch_size) == (3, -1, 0)


def test_pip107_both_chunks_can_be_had() -> None:
    assert CHUNKED.first_chunk_message_id == FIRST
    assert CHUNKED.last_chunk_message_id == LAST
    assert type(CHUNKED.last_chunk_message_id) is MessageId


def test_pip107_the_text_shows_both_chunks() -> None:
    assert str(CHUNKED) == "7:9:3;7:12:3"


def test_chunk_ids_of_one_last_chunk_are_equal_whatever_their_first() -> None:
    assert ChunkMessageId(MessageId(7, 10, partition=3), LAST) == CHUNKED


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        (CHUNKED, LAST, "first chunk of a chunk id is itself a chunk id"),
        (FIRST, CHUNKED, "last chunk of a chunk id is itself a chunk id"),
        (MessageId(7, 9, 3, 0), LAST, "first chunk of a chunk id is in a batch: 7:9:3:0"),
        (FIRST, MessageId(7, 12, 3, 0), "last chunk of a chunk id is in a batch: 7:12:3:0"),
        (MessageId(7, 9, 2), LAST, "two partitions: 7:9:2;7:12:3"),
        (LAST, FIRST, "first chunk is after the last: 7:12:3;7:9:3"),
    ],
)
def test_chunks_of_no_message_are_refused(first: MessageId, last: MessageId, reason: str) -> None:
    with pytest.raises(InvalidMessageId, match=reason):
        ChunkMessageId(first, last)


def test_a_chunked_message_may_cross_ledgers_and_may_have_one_chunk() -> None:
    assert ChunkMessageId(MessageId(6, 99), MessageId(7, 0)).position == Position(7, 0)
    assert ChunkMessageId(LAST, LAST).first_chunk_message_id == LAST


# --- text


@pytest.mark.parametrize(
    ("message_id", "text"),
    [
        (MessageId(7, 12), "7:12:-1"),
        (MessageId(7, 12, partition=3), "7:12:3"),
        (MessageId(7, 12, partition=3, batch_index=0), "7:12:3:0"),
        (MessageId(7, 12, batch_index=5), "7:12:-1:5"),
        (EARLIEST, "-1:-1:-1"),
        (LATEST, "9223372036854775807:9223372036854775807:-1"),
    ],
)
def test_an_id_prints_as_in_java_and_parses_back(message_id: MessageId, text: str) -> None:
    assert str(message_id) == text
    assert MessageId.parse(text) == message_id


@pytest.mark.parametrize(
    ("text", "message_id"),
    [
        ("7:12", MessageId(7, 12)),
        ("(7,12,3,5)", MessageId(7, 12, 3, 5)),
        ("(-1,-1,-1,-1)", EARLIEST),
    ],
)
def test_other_forms_are_read_too(text: str, message_id: MessageId) -> None:
    assert MessageId.parse(text) == message_id


@pytest.mark.parametrize("text", ["7:9:3;7:12:3", "(7,9,3,-1);(7,12,3,-1)"])
def test_chunk_text_is_read_as_a_chunk_id(text: str) -> None:
    parsed = MessageId.parse(text)
    assert isinstance(parsed, ChunkMessageId)
    assert (parsed, parsed.first_chunk_message_id) == (LAST, FIRST)


def test_the_longest_text_is_within_the_limit() -> None:
    number, small = str(-(2**63)), str(-INT32_MAX - 1)
    longest = ";".join([f"({number},{number},{small},{small})"] * 2)
    assert len(longest) == MESSAGE_ID_TEXT_LENGTH_MAX
    with pytest.raises(InvalidMessageId, match="in a batch"):
        MessageId.parse(longest)


@pytest.mark.parametrize(
    "text",
    [
        "", "7", "7:", "7:12:", "7:12:3:", "7:12:3:4:5", "7;12", ";", "7:9;", ";7:9", "7:9;7:9;7:9",
        "(7,12,3)", "(7,12,3,4", "7,12,3,4", "(7:12:3:4)", " 7:12", "7:12\n", "7: 12", "٧:12",
        "7:12:3.0", "--1:1", "7:12:3;(7,9,3,-1", "\ud800:1", "1e3:1", "earliest",
    ],
)  # fmt: skip
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageId, match="not a message id"):
        MessageId.parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{2**63}:0:0", "does not fit 64 bits"),
        (f"0:{-(2**63) - 1}:0", "does not fit 64 bits"),
        (f"0:0:{2**31}", "does not fit 32 bits"),
        (f"(0,0,0,{-(2**31) - 1})", "does not fit 32 bits"),
        ("1:1:1;2:2:2", "two partitions"),
        ("9" * 1_000_000, "1000000 characters, the limit is"),
    ],
)
def test_numbers_and_lengths_past_their_limits_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidMessageId, match=reason) as caught:
        MessageId.parse(text)
    assert len(str(caught.value)) < 300


# --- bytes


@pytest.mark.parametrize(
    ("message_id", "data"),
    [
        (MessageId(1, 2), "08011002"),
        (MessageId(1, 2, partition=0), "080110021800"),
        (MessageId(1, 2, partition=3, batch_index=5), "0801100218032005"),
        (MessageId(300, 70_000, batch_index=0, batch_size=10), "08ac0210f0a2042000300a"),
        (MessageId(127, 128), "087f108001"),
        (MessageId(2**14 - 1, 2**14), "08ff7f10808001"),
        (MessageId(2**21 - 1, 2**21), "08ffff7f1080808001"),
        (EARLIEST, "08ffffffffffffffffff0110ffffffffffffffffff01"),
        (LATEST, "08ffffffffffffffff7f10ffffffffffffffff7f"),
        (MessageId(1, 1, -2, -5), "0801100118feffffffffffffffff0120fbffffffffffffffff01"),
        (ChunkMessageId(MessageId(1, 0), MessageId(1, 2)), "080110023a0408011000"),
        (ChunkMessageId(MessageId(1, 0, 4), MessageId(1, 2, 4)), "0801100218043a06080110001804"),
    ],
)
def test_bytes_are_those_of_the_official_client(message_id: MessageId, data: str) -> None:
    assert message_id.serialize().hex() == data
    back = MessageId.deserialize(bytes.fromhex(data))
    assert repr(back) == repr(message_id)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_read(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    assert MessageId.deserialize(kind(BASE)) == MessageId(1, 2)


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("ledger_id", 2**63),
        ("entry_id", -(2**63) - 1),
        ("partition", 2**31),
        ("batch_index", -(2**31) - 1),
        ("batch_size", 2**31),
    ],
)
def test_a_number_too_large_for_its_field_becomes_no_bytes(field: str, number: int) -> None:
    with pytest.raises(InvalidMessageId, match=f"{number} does not fit"):
        MessageId(1, 2)._replace(**{field: number}).serialize()


@pytest.mark.parametrize(
    "extra",
    [
        "2807",  # ack_set, one word
        "2a020708",  # ack_set, packed
        "4807",  # field 9, a number
        "5203616263",  # field 10, a string
        "4d01020304",  # field 9, four bytes
        "493132333435363738",  # field 9, eight bytes
        "f8ffffff0f01",  # the highest field number of all
        "1d01020304",  # partition with the wire type of something else
    ],
)
def test_fields_that_are_not_ours_are_skipped(extra: str) -> None:
    for data in (BASE + bytes.fromhex(extra), bytes.fromhex(extra) + BASE):
        assert repr(MessageId.deserialize(data)) == repr(MessageId(1, 2))


def test_defaults_that_are_spelt_out_change_nothing() -> None:
    # The Go client writes every field of an id, -1 or not.
    spelt = bytes.fromhex("18ffffffffffffffffff0120ffffffffffffffffff013000")
    assert MessageId.deserialize(BASE + spelt).serialize() == BASE


def test_the_last_of_a_repeated_field_counts() -> None:
    assert MessageId.deserialize(b"\x08\x07" + BASE) == MessageId(1, 2)


def test_bytes_of_before_pip107_are_a_plain_id() -> None:
    assert type(MessageId.deserialize(LAST.serialize())) is MessageId


def test_a_first_chunk_without_a_partition_is_in_that_of_the_last() -> None:
    chunked = MessageId.deserialize(BASE + bytes.fromhex("18043a0408011000"))
    assert isinstance(chunked, ChunkMessageId)
    assert repr(chunked.first_chunk_message_id) == repr(MessageId(1, 0, 4))


def test_a_chunk_has_no_place_in_a_batch() -> None:
    chunked = MessageId.deserialize(BASE + bytes.fromhex("200230053a080801100020023003"))
    assert repr(chunked) == repr(ChunkMessageId(MessageId(1, 0), MessageId(1, 2)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "offset 0: ledgerId is missing"),
        ("1002", "offset 2: ledgerId is missing"),
        ("0801", "offset 2: entryId is missing"),
        ("08", "offset 1: a number is cut off"),
        ("0880", "offset 1: a number is cut off"),
        ("08ffffffffffffffffffff01", "offset 1: a number of more than 10 bytes"),
        ("0801100280", "offset 4: a number is cut off"),
        ("000108011002", "offset 0: tag 0 has no field number"),
        ("08011002808080801001", "offset 4: tag 4294967296 has no field number"),
        ("080110025203ff", "offset 4: field 10 ends 2 bytes past the end"),
        ("080110024d010203", "offset 4: field 9 ends 1 bytes past the end"),
        ("0801100249", "offset 4: field 9 ends 8 bytes past the end"),
        (
            "0801100252ffffffffffffffffff01",
            "offset 4: field 10 ends 18446744073709551615 bytes past",
        ),
        ("080110024b4c", "offset 4: wire type 3 of field 9"),
        ("080110024c", "offset 4: wire type 4 of field 9"),
        ("080110024e", "offset 4: wire type 6 of field 9"),
        ("080110023a00", "offset 6: ledgerId is missing"),
        ("080110023a020801", "offset 8: entryId is missing"),
        ("080110023a0308011008", "offset 9: a number is cut off"),
        ("080110023a0a080110003a0408011000", "offset 10: the first chunk of a chunk id is itself"),
        ("080110023a04080110003a0408011001", "offset 10: a second first chunk"),
        ("080110023a0408091009", "offset 4: the first chunk is after the last: 9:9:-1;1:2:-1"),
        (
            "08011002180418043a06080110001805",
            "offset 8: the chunks of one message are in two partitions",
        ),
    ],
)
def test_garbage_is_refused_with_offset_and_reason(data: str, reason: str) -> None:
    with pytest.raises(InvalidMessageId, match=reason):
        MessageId.deserialize(bytes.fromhex(data))


def test_a_deep_nest_of_first_chunks_is_refused_at_the_second_level() -> None:
    data = BASE
    while len(data) < 60_000:
        size = len(data)
        data = BASE + bytes((0x3A, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14)) + data
    with pytest.raises(InvalidMessageId, match="itself a chunk id"):
        MessageId.deserialize(data)


def test_bytes_past_the_limit_are_refused_unread() -> None:
    skipped = b"\x52\x80\x80\x04" + bytes(2**16)
    with pytest.raises(InvalidMessageId, match=f"the limit is {MESSAGE_ID_SIZE_BYTES_MAX}"):
        MessageId.deserialize(BASE + skipped)
