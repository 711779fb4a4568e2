from __future__ import annotations

from typing import Any

import pytest

from milepost.errors import ProtocolError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.metadata import (
    BrokerEntry,
    chunk_info,
    encode_broker_entry,
    entry_metadata,
    is_batch,
    is_marker,
    message_count,
    parse_metadata,
    split_broker_entry,
    split_entry,
    sticky_key,
)
from milepost.wire.scanners.encode import encode_entry_head


def metadata(**fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1000, **fields)


ENTRY = encode_entry_head(metadata().SerializeToString(), b"payload") + b"payload"
BLOCK = encode_broker_entry(timestamp=1_700_000_000_000, index=41)


def test_the_brokers_block_byte_for_byte() -> None:
    assert BLOCK[:2] == b"\x0e\x02"
    fields = pb.BrokerEntryMetadata(broker_timestamp=1_700_000_000_000, index=41)
    assert BLOCK[6:] == fields.SerializeToString()
    assert int.from_bytes(BLOCK[2:6], "big") == len(BLOCK) - 6


def test_an_entry_with_everything() -> None:
    parts = split_entry(BLOCK + ENTRY)
    assert parts.broker == BrokerEntry(1_700_000_000_000, 41)
    assert parts.checksum == int.from_bytes(ENTRY[2:6], "big")
    assert parts.metadata == metadata()
    assert parts.payload == b"payload"
    assert parts.is_intact


def test_an_entry_as_sent() -> None:
    assert split_entry(ENTRY).broker is None
    assert split_broker_entry(ENTRY) == (None, 0)
    assert split_broker_entry(BLOCK + ENTRY) == (BrokerEntry(1_700_000_000_000, 41), len(BLOCK))


def test_an_entry_without_a_checksum() -> None:
    parts = split_entry(BLOCK + ENTRY[6:])
    assert parts.checksum is None
    assert parts.is_intact
    assert parts.payload == b"payload"


def test_the_metadata_of_a_stored_entry_alone() -> None:
    for entry in (ENTRY, ENTRY[6:], memoryview(ENTRY), ENTRY[:-7]):
        assert entry_metadata(entry) == split_entry(ENTRY).metadata
    for cut in (0, 3, 9, len(ENTRY) - 8):
        with pytest.raises(ProtocolError, match="metadata"):
            entry_metadata(ENTRY[:cut])


def test_a_damaged_entry_says_so() -> None:
    damaged = ENTRY[:-1] + b"X"
    assert not split_entry(damaged).is_intact


def test_a_block_with_less_in_it() -> None:
    assert split_broker_entry(bytes.fromhex("0e0200000000")) == (BrokerEntry(None, None), 6)


@pytest.mark.parametrize("cut", range(len(BLOCK) + len(ENTRY) - len(b"payload")))
def test_an_entry_cut_before_its_payload(cut: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        split_entry((BLOCK + ENTRY)[:cut])
    assert caught.value.reason == "bad_metadata"


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x0a\x01p", b"\xff\xff"])
def test_what_is_no_metadata(data: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_metadata(data)
    assert caught.value.reason == "bad_metadata"


def test_a_block_that_is_no_protobuf() -> None:
    with pytest.raises(ProtocolError, match="2 bytes that are no broker entry metadata"):
        split_broker_entry(bytes.fromhex("0e0200000002ffff"))


def test_counts() -> None:
    assert message_count(metadata()) == 1
    assert not is_batch(metadata())
    assert message_count(metadata(num_messages_in_batch=5)) == 5
    assert is_batch(metadata(num_messages_in_batch=1))


def test_markers() -> None:
    assert is_marker(metadata(marker_type=0))
    assert not is_marker(metadata())


def test_chunks() -> None:
    chunked = metadata(uuid="p-7", num_chunks_from_msg=3, total_chunk_msg_size=300, chunk_id=2)
    assert chunk_info(chunked) == ("p-7", 2, 3, 300)
    assert chunk_info(metadata(uuid="p-7")) is None


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, b"p-7"),
        ({"partition_key": "k"}, b"k"),
        ({"partition_key": ""}, b""),
        ({"partition_key": "aw==", "partition_key_b64_encoded": True}, b"k"),
        ({"partition_key": "a", "partition_key_b64_encoded": True}, b"a"),
        ({"partition_key": "k", "ordering_key": b"o"}, b"o"),
        ({"partition_key": "schlüssel"}, "schlüssel".encode()),
    ],
)
def test_sticky_keys(fields: dict[str, Any], key: bytes) -> None:
    assert sticky_key(metadata(**fields)) == key


def test_a_key_that_is_no_text_still_routes() -> None:
    data = metadata(partition_key="xx").SerializeToString().replace(b"xx", b"\xff\xfe")
    assert sticky_key(parse_metadata(data)) == b"\xff\xfe"
