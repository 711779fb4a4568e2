from __future__ import annotations

from typing import Any

import pytest

from milepost.errors import ProtocolError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch, split_batch, split_plain_batch


def single(payload: bytes, **fields: object) -> SingleMessage:
    metadata = pb.SingleMessageMetadata(payload_size=len(payload), **fields)  # type: ignore[arg-type]
    return SingleMessage(metadata, payload)


MESSAGES = [single(b"one", partition_key="k"), single(b""), single(b"three", null_value=False)]
PAYLOAD = join_batch(MESSAGES)


def test_byte_for_byte() -> None:
    """As the official client packs 100 bytes with sequence id 0."""
    packed = join_batch([single(b"x" * 100, sequence_id=0)])
    assert packed == bytes.fromhex("0000000418644000") + b"x" * 100


def test_there_and_back() -> None:
    assert split_batch(PAYLOAD, 3) == MESSAGES
    assert split_batch(b"", 0) == []
    assert len(split_batch(join_batch([single(b"")] * 1000), 1000)) == 1000


def test_the_smallest_message_takes_six_bytes() -> None:
    assert len(join_batch([single(b"")])) == 6


def reason_of(payload: bytes, count: int) -> str:
    with pytest.raises(ProtocolError) as caught:
        split_batch(payload, count)
    return caught.value.reason


@pytest.mark.parametrize("cut", range(len(PAYLOAD)))
def test_a_batch_cut_short(cut: int) -> None:
    assert reason_of(PAYLOAD[:cut], 3) == "bad_batch"


@pytest.mark.parametrize("count", [0, 2, 4, 2**31])
def test_a_batch_of_another_size(count: int) -> None:
    assert reason_of(PAYLOAD, count) == "bad_batch"


@pytest.mark.parametrize(
    "payload",
    [
        "ffffffff1800",
        "000000021801",
        "0000000b18ffffffffffffffffff01",
        "000000022000",
        "00000002ffff",
        "000000070a030a016b1800",  # a property without its value
    ],
)
def test_sizes_that_lie(payload: str) -> None:
    assert reason_of(bytes.fromhex(payload), 1) == "bad_batch"


def test_the_message_that_failed_is_named() -> None:
    with pytest.raises(ProtocolError, match=r"^message 2 of a batch of 3: a payload of 5 bytes$"):
        split_batch(PAYLOAD[:-1], 3)


@pytest.mark.parametrize(
    "fields",
    [
        [{}],
        [{}, {"sequence_id": 5}, {"sequence_id": 2**40}],
        [{"sequence_id": 0}] * 3,
        [{"partition_key": "k"}],
        [{}, {"event_time": 1}],
        [{}, {"compacted_out": True}],
        [{"sequence_id": 1, "null_value": True}],
    ],
)
@pytest.mark.parametrize("size", [0, 1, 127, 128, 20_000])
def test_plain_batches_are_read_alike(fields: list[dict[str, Any]], size: int) -> None:
    payload = join_batch(
        SingleMessage(pb.SingleMessageMetadata(payload_size=size, **one), b"x" * size)
        for one in fields
    )
    whole = split_batch(payload, len(fields))
    plain = split_plain_batch(payload, len(fields))
    is_plain = all(set(one) <= {"sequence_id"} for one in fields)
    assert (plain is not None) == is_plain
    if plain is not None:
        assert [(pb.SingleMessageMetadata.FromString(one), data) for one, data in plain] == whole
    for count in (len(fields) + 1, len(fields) - 1):
        assert not split_plain_batch(payload, count)
    for end in range(0, len(payload), max(len(payload) // 50, 1)):
        assert not split_plain_batch(payload[:end], len(fields))


def test_a_sequence_id_that_never_ends_is_not_plain() -> None:
    metadata = b"\x18\x01\x40" + b"\xff" * 12 + b"\x01"
    payload = len(metadata).to_bytes(4, "big") + metadata + b"x"
    assert split_plain_batch(payload, 1) is None
    with pytest.raises(ProtocolError):
        split_batch(payload, 1)
