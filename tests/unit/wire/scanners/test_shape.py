from __future__ import annotations

from typing import Any

import pytest

from milepost.positions import BATCH_SIZE_MAX, TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.compression import GROWTH_MAX, compress
from milepost.wire.events import BATCH, PLAIN, ChunkInfo, Traits
from milepost.wire.scanners.shape import (
    METADATA_FIELDS_MAX,
    NOT_ALLOWED_ERROR,
    UNUSUAL_METADATA_SIZE_MAX,
    Shape,
    read_rest_shape,
    read_shape,
    shape_for_payload,
)

REQUIRED = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1000)
CHUNK = {"uuid": "p-7", "num_chunks_from_msg": 3, "total_chunk_msg_size": 300, "chunk_id": 1}

# A group is valid protobuf that no client writes: it sends the walk to the library.
UNUSUAL = b"\xfb\x07\xfc\x07"


def encoded(**fields: Any) -> bytes:
    metadata = pb.MessageMetadata(**fields)
    metadata.MergeFrom(REQUIRED)
    return metadata.SerializeToString()


def shapes(data: bytes) -> Shape:
    """The shape, read by hand and by the library: one answer."""
    by_hand = read_shape(b"<<" + data + b">>", 2, 2 + len(data))
    by_library = read_shape(data + UNUSUAL, 0, len(data) + len(UNUSUAL))
    assert by_hand[:5] == by_library[:5]
    return by_hand


def fault(**fields: Any) -> str:
    shape = shapes(encoded(**fields))
    assert shape.traits.fault is not None, "not refused"
    assert shape.traits.fault.error == pb.ServerError.NotAllowedError
    return shape.traits.fault.message


def test_a_plain_message() -> None:
    shape = shapes(encoded(partition_key="k", properties=[pb.KeyValue(key="a", value="b")]))
    assert shape.count == 1
    assert shape.publish_time == 1000
    assert shape.traits is PLAIN


def test_presence_makes_a_batch() -> None:
    shape = shapes(encoded(num_messages_in_batch=1))
    assert (shape.count, shape.traits) == (1, BATCH)


def test_a_batch_is_counted() -> None:
    shape = shapes(encoded(num_messages_in_batch=5))
    assert (shape.count, shape.traits, shape.payload_min) == (5, BATCH, 30)


@pytest.mark.parametrize("count", [0, -1, BATCH_SIZE_MAX + 1, 2**31 - 1])
def test_a_batch_of_impossible_size(count: int) -> None:
    assert fault(num_messages_in_batch=count, compression=pb.LZ4, uncompressed_size=2**32 - 1) == (
        f"a batch of {count} messages; allowed are 1 to {BATCH_SIZE_MAX}"
    )


def test_a_batch_of_more_messages_than_its_payload_can_hold() -> None:
    shape = shapes(encoded(num_messages_in_batch=5))
    assert shape_for_payload(shape, 30) is shape
    refused = shape_for_payload(shape, 29)
    assert refused.traits.fault is not None
    assert refused.traits.fault.message == "5 messages in a payload of 29 bytes"


def test_a_compressed_batch_is_judged_by_its_stated_size() -> None:
    stated = {"num_messages_in_batch": 5, "compression": pb.ZSTD}
    assert shapes(encoded(uncompressed_size=30, **stated)).payload_min == 1
    assert fault(uncompressed_size=29, **stated) == "5 messages in 29 uncompressed bytes"


SMALLEST = b"\0\0\0\x02\x18\0" * BATCH_SIZE_MAX


@pytest.mark.parametrize("kind", pb.CompressionType.values())
def test_a_compressed_batch_is_judged_by_what_its_payload_could_grow_to(kind: int) -> None:
    """A stated size is only a claim. What real compressors make of the smallest batch is taken."""
    stated = {"num_messages_in_batch": BATCH_SIZE_MAX, "uncompressed_size": 2**32 - 1}
    shape = shapes(encoded(compression=kind, **stated))
    assert shape_for_payload(shape, len(compress(kind, SMALLEST))) is shape
    assert shape.payload_min * GROWTH_MAX[kind] >= len(SMALLEST)
    lie = shape_for_payload(shape, shape.payload_min - 1).traits.fault
    assert lie is not None
    assert lie.message == f"{BATCH_SIZE_MAX} messages in a payload of {shape.payload_min - 1} bytes"


def test_an_unknown_compression_is_none_as_the_library_has_it() -> None:
    known = encoded(num_messages_in_batch=5, uncompressed_size=2**20)
    assert shapes(known + b"\x40\x07").payload_min == 30


def test_a_large_stated_size_is_no_fault() -> None:
    """Clients may compress more than a frame could hold; the broker never decompresses."""
    shape = shapes(encoded(compression=pb.ZSTD, uncompressed_size=2**32 - 1))
    assert shape.traits is PLAIN


def test_a_chunk() -> None:
    shape = shapes(encoded(**CHUNK))
    assert shape.count == 1
    assert shape.traits.chunk == ChunkInfo("p-7", 1, 3, 300)
    assert shape_for_payload(shape, 300) is shape
    refused = shape_for_payload(shape, 301)
    assert refused.traits.fault is not None
    assert refused.traits.fault.message == "a chunk of 301 bytes in a message of 300"


def test_encryption_may_make_a_chunk_larger_than_its_message() -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    shape = shapes(encoded(**CHUNK, encryption_keys=keys))
    assert shape_for_payload(shape, 400) is shape


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chunk_id": 3}, "chunk 3 of 3"),
        ({"chunk_id": -1}, "chunk -1 of 3"),
        ({"chunk_id": None}, "chunk None of 3"),
        ({"num_chunks_from_msg": None}, "chunk 1 of None"),
        ({"num_chunks_from_msg": 0}, "chunk 1 of 0"),
        ({"uuid": None}, "chunk 1 of 3 without a uuid"),
        ({"total_chunk_msg_size": 2}, "3 chunks of 2 bytes in all"),
        ({"total_chunk_msg_size": -1}, "3 chunks of -1 bytes in all"),
        ({"num_messages_in_batch": 2}, "chunk 1 of a batch of 2 messages"),
    ],
)
def test_a_chunk_that_cannot_be(changed: dict[str, Any], message: str) -> None:
    assert fault(**{**CHUNK, **changed}) == message


def test_a_uuid_that_is_no_text() -> None:
    data = encoded(**{**CHUNK, "uuid": "xx"}).replace(b"xx", b"\xff\xfe")
    shape = shapes(data)
    assert shape.traits.fault is not None


def test_a_uuid_alone_makes_no_chunk() -> None:
    assert shapes(encoded(uuid="p-7")).traits is PLAIN


def test_a_delayed_message_and_a_marker() -> None:
    assert shapes(encoded(deliver_at_time=5000)).traits.deliver_at_time == 5000
    assert shapes(encoded(deliver_at_time=-1)).traits.deliver_at_time == -1
    assert shapes(encoded(marker_type=0)).traits.is_marker
    assert shapes(encoded(marker_type=20, num_messages_in_batch=2)).traits == (
        True,
        True,
        None,
        None,
        None,
        None,
    )


def test_the_transaction_is_read() -> None:
    both_numbers = {"txnid_most_bits": 3, "txnid_least_bits": 2**64 - 1}
    assert shapes(encoded(**both_numbers)).traits == Traits(transaction=TxnId(3, -1))
    batch = shapes(encoded(num_messages_in_batch=2, **both_numbers))
    assert batch.traits == Traits(is_batch=True, transaction=TxnId(3, -1))
    assert shapes(encoded(**both_numbers, **CHUNK)).traits.transaction == TxnId(3, -1)
    # Presence makes it one: the first transaction of all has zeros.
    assert shapes(encoded(txnid_least_bits=0)).traits.transaction == TxnId(0, 0)
    assert shapes(encoded(txnid_most_bits=1)).traits.transaction == TxnId(1, 0)


def test_a_client_cannot_end_a_transaction_by_a_marker() -> None:
    assert fault(marker_type=21, txnid_most_bits=0, txnid_least_bits=7) == (
        "a marker of transaction (0,7), which the broker alone writes"
    )


@pytest.mark.parametrize("missing", ["producer_name", "sequence_id", "publish_time"])
def test_a_required_field_is_missing(missing: str) -> None:
    metadata = pb.MessageMetadata()
    metadata.CopyFrom(REQUIRED)
    metadata.ClearField(missing)  # type: ignore[arg-type]
    shape = shapes(metadata.SerializePartialToString())
    assert shape.traits.fault is not None
    assert shape.traits.fault.message.startswith("metadata without")


def test_a_time_before_all_time() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=2**64 - 5)
    shape = shapes(metadata.SerializeToString())
    assert shape.traits.fault is not None
    assert shape.traits.fault.message == "publish time -5"


def test_the_last_of_two_values_counts() -> None:
    data = encoded(num_messages_in_batch=3) + b"\x58\x05\x18\x09"
    shape = shapes(data)
    assert (shape.count, shape.publish_time) == (5, 9)


def test_unknown_fields_are_skipped() -> None:
    data = encoded() + bytes.fromhex("a23f03616263a03f05a53f01020304a13f0102030405060708")
    assert shapes(data).traits is PLAIN


@pytest.mark.parametrize(
    "damage", [b"\x58", b"\x5a\x7f", b"\x0d\x01", b"\x00\x01", b"\x58" + b"\xff" * 11]
)
def test_what_is_no_protobuf(damage: bytes) -> None:
    data = encoded() + damage
    shape = read_shape(data, 0, len(data))
    assert shape.traits.fault is not None
    assert shape.traits.fault.message == f"{len(data)} bytes that are no message metadata"


def test_the_walk_ends() -> None:
    data = encoded() + b"\x2a\x00" * METADATA_FIELDS_MAX
    shape = read_shape(data, 0, len(data))
    assert shape.traits.fault is not None
    assert shape.traits.fault.message == f"metadata of more than {METADATA_FIELDS_MAX} fields"


@pytest.mark.parametrize(
    "part",
    [
        b"\x22\x04a2V5",  # a property that is no message
        b"\x22\x00",  # … of nothing
        b"\x22\x03\x0a\x01k",  # … without its value
        b"\x22\x03\x12\x01v",  # … without its key
        b"\x22\x06\x0a\x01k\x12\x05v",  # … whose value goes beyond it
        b"\x6a\x03\x0a\x01k",  # an encryption key without its value
        b"\x6a\x02\xff\xff",
        b"\x0a\x01q",  # another producer's name
        b"\x0a\x01q" + UNUSUAL,
    ],
)
def test_what_no_client_could_read_is_refused(part: bytes) -> None:
    """Stored, it would end the connection of every consumer that gets it."""
    data = encoded() + part
    shape = read_shape(data, 0, len(data))
    assert shape.traits.fault is not None
    assert shape.traits.fault.error == NOT_ALLOWED_ERROR


@pytest.mark.parametrize(
    "part",
    [
        b"\x22\x06\x0a\x01k\x12\x01v",
        b"\x22\x04\x0a\x00\x12\x00",
        b"\x22\x06\x12\x01v\x0a\x01k",  # the other way round
        b"\x22\x09\x0a\x01k\x12\x01v\x1a\x01x",  # with a field of the future
        b"\x22\xd1\x01\x0a\x01k\x12\xcb\x01" + bytes(203),
        b"\x6a\x06\x0a\x01k\x12\x01v",
    ],
)
def test_properties_however_they_are_written(part: bytes) -> None:
    data = encoded() + part
    shape = read_shape(data, 0, len(data))
    assert shape.traits == PLAIN


def test_much_that_is_unusual_is_not_read() -> None:
    data = encoded() + UNUSUAL + b"\x2a\xf0\xa2\x04" + bytes(70_000)
    assert len(data) > UNUSUAL_METADATA_SIZE_MAX
    shape = read_shape(data, 0, len(data))
    assert shape.traits.fault is not None
    assert shape.traits.fault.message == f"{len(data)} bytes of unusual metadata"


class TestRest:
    """What follows the required fields, read on its own."""

    @staticmethod
    def rest(**fields: Any) -> Shape | None:
        data = pb.MessageMetadata(**fields).SerializePartialToString()
        return read_rest_shape(data, 0, len(data))

    def test_it_tells_the_shape(self) -> None:
        shape = self.rest(uncompressed_size=540, num_messages_in_batch=5)
        assert shape is not None
        assert (shape.count, shape.traits, shape.is_lasting) == (5, BATCH, True)

    def test_a_required_field_again_is_left_alone(self) -> None:
        assert self.rest(publish_time=1) is None

    def test_the_unusual_is_left_alone(self) -> None:
        assert read_rest_shape(UNUSUAL, 0, len(UNUSUAL)) is None
        assert read_rest_shape(b"\x58", 0, 1) is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"partition_key": "k"},
            {"event_time": 1},
            {"highest_sequence_id": 9},
            {"deliver_at_time": 1},
        ],
    )
    def test_what_changes_is_not_worth_remembering(self, fields: dict[str, Any]) -> None:
        shape = self.rest(**fields)
        assert shape is not None
        assert not shape.is_lasting

    def test_a_schema_version_lasts(self) -> None:
        shape = self.rest(schema_version=bytes(8))
        assert shape is not None
        assert shape.is_lasting
