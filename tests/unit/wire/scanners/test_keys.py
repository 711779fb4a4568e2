"""Keys found without parsing: examples; tests/property compares with parsing."""

from __future__ import annotations

import pytest

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.scanners.keys import (
    NOT_PLAIN,
    KeyAndEmptiness,
    plain_batch_keys,
    plain_entry_key,
)


def single(payload: bytes, **fields: object) -> SingleMessage:
    metadata = pb.SingleMessageMetadata(payload_size=len(payload), **fields)  # type: ignore[arg-type]
    return SingleMessage(metadata, payload)


def test_a_batch_is_read_some_messages_at_a_time() -> None:
    payload = join_batch(
        [
            single(b"one", partition_key="k"),
            single(b""),
            single(b"x" * 200, partition_key="k" * 200),
        ]
    )
    found: list[KeyAndEmptiness] = []
    at = plain_batch_keys(payload, 0, 2, found)
    assert found == [(b"k", False), (None, True)]
    assert plain_batch_keys(payload, at, 1, found) == len(payload)
    assert found[2:] == [(b"k" * 200, False)]


@pytest.mark.parametrize(
    "fields",
    [
        {"properties": [pb.KeyValue(key="a", value="b")]},
        {"null_value": True},
        {"compacted_out": True},
        {"ordering_key": b"o"},
    ],
)
def test_what_says_more_has_to_be_parsed(fields: dict[str, object]) -> None:
    payload = join_batch([single(b"x", **fields)])
    assert plain_batch_keys(payload, 0, 1, []) == NOT_PLAIN


def test_bytes_that_break_off_are_not_plain() -> None:
    payload = join_batch([single(b"one", partition_key="k", sequence_id=300)])
    for end in range(len(payload)):
        assert plain_batch_keys(payload[:end], 0, 1, []) == NOT_PLAIN
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=300, publish_time=1 << 40, partition_key="k"
    ).SerializeToString()
    entry = len(metadata).to_bytes(4, "big") + metadata
    assert plain_entry_key(entry) == (b"k", True)
    for end in range(len(entry)):
        assert plain_entry_key(entry[:end]) is None
