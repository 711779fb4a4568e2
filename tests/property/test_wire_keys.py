"""Keys found without parsing, against parsing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.scanners.keys import (
    NOT_PLAIN,
    KeyAndEmptiness,
    plain_batch_keys,
    plain_entry_key,
)

numbers = st.integers(0, (1 << 63) - 1)
keys = st.text(max_size=200)
PLAIN = {"partition_key": keys, "event_time": numbers, "sequence_id": numbers}
OTHER = {"null_value": st.booleans(), "ordering_key": st.binary(max_size=3)}


@st.composite
def singles(draw: st.DrawFn) -> SingleMessage:
    fields: dict[str, Any] = draw(st.fixed_dictionaries({}, optional={**PLAIN, **OTHER}))
    payload = draw(st.binary(max_size=300))
    return SingleMessage(pb.SingleMessageMetadata(payload_size=len(payload), **fields), payload)


@given(st.lists(singles(), max_size=5), st.integers(1, 6))
def test_batches(messages: list[SingleMessage], step: int) -> None:
    payload = join_batch(messages)
    found: list[KeyAndEmptiness] = []
    at = 0
    while at != NOT_PLAIN and len(found) < len(messages):
        at = plain_batch_keys(payload, at, min(step, len(messages) - len(found)), found)
    is_plain = not any(
        metadata.HasField("null_value") or metadata.HasField("ordering_key")
        for metadata, _ in messages
    )
    assert (at == len(payload)) == is_plain
    if is_plain:
        assert found == [
            (m.partition_key.encode() if m.HasField("partition_key") else None, not value)
            for m, value in messages
        ]


@given(st.binary(max_size=60), st.integers(0, 3))
def test_any_bytes_are_read_or_not_plain(data: bytes, count: int) -> None:
    found: list[KeyAndEmptiness] = []
    at = plain_batch_keys(data, 0, count, found)
    assert at == NOT_PLAIN or (at <= len(data) and len(found) == count)
    plain_entry_key(data)


@given(
    st.fixed_dictionaries(
        {"producer_name": st.text(max_size=150), "sequence_id": numbers, "publish_time": numbers},
        optional={
            "partition_key": keys,
            "event_time": numbers,
            "uncompressed_size": st.integers(0, 1 << 31),
            "null_value": st.booleans(),
            "compression": st.sampled_from([pb.NONE, pb.LZ4]),
            "ordering_key": st.binary(max_size=3),
        },
    ),
    st.binary(max_size=3),
    st.booleans(),
)
def test_entries(fields: dict[str, Any], payload: bytes, has_checksum: bool) -> None:
    metadata = pb.MessageMetadata(**fields)
    head = metadata.SerializeToString()
    entry = len(head).to_bytes(4, "big") + head + payload
    if has_checksum:
        entry = b"\x0e\x01\0\0\0\0" + entry
    found = plain_entry_key(entry)
    other = fields.keys() & {"null_value", "compression", "ordering_key"}
    if other:
        assert found is None
    elif found is not None:
        key = metadata.partition_key.encode() if metadata.HasField("partition_key") else None
        assert found == (key, not payload)
    else:  # names and keys that are long are parsed
        longest = max(len(fields["producer_name"].encode()), len(metadata.partition_key.encode()))
        assert longest > 127
