r"""Reads from an entry's metadata what the broker must know.

One walk over the metadata's fields, by hand, reads the few that matter and steps over the rest. Only
properties are looked into, for they are messages of their own: metadata that a client's library cannot
read would end the connection of every consumer it is delivered to, again and again. Bytes that are valid
protobuf but unusual (groups, long tags, encryption keys) go to the protobuf library; where both read the
metadata they read the same.
A shape that must be refused carries the fault. Keys are left alone: they are read from the stored
entry, and only for a subscription that routes by them (`metadata.sticky_key`).

A producer's numbers are believed only as far as its bytes allow: a batch size no larger than the
payload could hold, a chunk inside its message. No index is given to a message that cannot exist.

    >>> metadata = b"\x0a\1p" b"\x10\0" b"\x18\0" b"\x58\5"      # producer, sequence id, time, batch size
    >>> shape = read_shape(metadata, 0, len(metadata))
    >>> shape.count, shape.traits.is_batch
    (5, True)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from milepost.positions import BATCH_SIZE_MAX, TxnId, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.compression import GROWTH_MAX
from milepost.wire.events import BATCH, PLAIN, ChunkInfo, SendFault, Traits
from milepost.wire.scanners.varint import read_rest, signed32

CHECKSUM_ERROR: Final = 9
NOT_ALLOWED_ERROR: Final = 22

# In a batch each message has the size of its metadata (4) and in it at least a payload size (2).
SINGLE_MESSAGE_SIZE_MIN: Final = 6

_TEXT = 2  # the wire type of bytes and text
# A property is one field. No message needs thousands of them, and a walk must end soon.
METADATA_FIELDS_MAX: Final = 10_000

# Unusual metadata above this size is refused unread: in the library's hands bytes become objects.
UNUSUAL_METADATA_SIZE_MAX: Final = 64 * 1024

NO_LIMIT: Final = 1 << 62

# Libraries read a size from five bytes at most, though zeros could make it longer.
_SIZE_REST_MAX: Final = 4

# Who published decides what is a duplicate: it may be said once, for of two one is a lie.
_TWO_NAMES: Final = "metadata with two producer names"


class Shape(NamedTuple):
    count: int  # type: ignore[assignment]  # in place of tuple.count, which has no use here
    """Messages in the entry. Invariant: 1 ≤ count ≤ BATCH_SIZE_MAX."""
    publish_time: int
    traits: Traits
    payload_min: int
    """A payload of fewer bytes, or of more than the next field allows, contradicts the metadata."""
    payload_max: int
    is_lasting: bool
    """Nothing in the metadata differs from message to message: worth remembering by its bytes."""


def read_shape(data: bytes, at: int, end: int) -> Shape:
    """The shape of the metadata in `data[at:end]`; never raises, whatever the bytes."""
    try:
        fields = _walk(data, at, end)
    except IndexError:
        fields = None
    return _judge(_parse(data, at, end) if fields is None else fields)


def read_rest_shape(data: bytes, at: int, end: int) -> Shape | None:
    """The shape told by what follows the required fields; its publish time means nothing.

    None: unusual, or one of the required fields comes again and would count instead of the first.
    """
    try:
        fields = _walk(data, at, end)
    except IndexError:
        return None
    if fields is None or fields.required:
        return None
    fields.required = _REQUIRED_ALL
    return _judge(fields)


def shape_for_payload(shape: Shape, payload_size: int) -> Shape:
    """The shape itself, or the refusal of a payload that contradicts it."""
    if shape.payload_min <= payload_size <= shape.payload_max:
        return shape
    if shape.traits.chunk is not None:
        return refused(f"a chunk of {payload_size} bytes in a message of {shape.payload_max}")
    return refused(f"{shape.count} messages in a payload of {payload_size} bytes")


def refused(message: str, error: int = NOT_ALLOWED_ERROR) -> Shape:
    """The shape of what must not be stored."""
    return Shape(1, 0, Traits(fault=SendFault(error, message)), 0, NO_LIMIT, False)


_REQUIRED_ALL: Final = 7


class _Fields:
    """What was found in the metadata; the class holds what is true when a field is absent."""

    # A bit each for producer name, sequence id and publish time.
    required: int = 0
    publish_time: int = 0
    compression: int = 0
    is_encrypted: bool = False
    is_marker: bool = False
    transaction: TxnId | None = None
    is_lasting: bool = True
    uncompressed_size: int = 0
    batch_size: int | None = None
    deliver_at_time: int | None = None
    uuid: bytes = b""
    chunk_id: int | None = None
    num_chunks: int | None = None
    total_size: int = 0
    # Set: the metadata cannot be read at all.
    fault: str = ""


def _walk(data: bytes, at: int, end: int) -> _Fields | None:
    """None: unusual, or no protobuf; the library decides."""
    fields = _Fields()
    left = METADATA_FIELDS_MAX
    while at < end:
        left -= 1
        if left < 0:
            fields.fault = f"metadata of more than {METADATA_FIELDS_MAX} fields"
            return fields
        tag = data[at]
        value = data[at + 1]
        at += 2
        if tag > 127:
            if value > 127:
                return None
            tag += (value << 7) - 128
            value = data[at]
            at += 1
        if tag < 8:
            return None
        wire_type = tag & 7
        if wire_type == 5:
            at += 3
            continue
        if wire_type == 1:
            at += 7
            continue
        if wire_type != 0 and wire_type != 2:
            return None
        if value > 127:
            start = at
            value, at = read_rest(data, at, value)
            if wire_type == 2 and at - start > _SIZE_REST_MAX:
                return None
        if wire_type == 2:
            at += value
            if tag != _SCHEMA_VERSION:
                fields.is_lasting = False
                if tag == _PRODUCER_NAME:
                    if fields.required & 1:
                        fields.fault = _TWO_NAMES
                        return fields
                    fields.required |= 1
                elif tag == _PROPERTIES:
                    if not _is_property(data, at - value, at):
                        return None
                elif tag == _UUID:
                    fields.uuid = data[at - value : at]
                elif tag == _ENCRYPTION_KEYS:
                    return None
        elif tag != _UNCOMPRESSED_SIZE:
            _take(fields, tag, value)
        else:
            fields.uncompressed_size = value & 0xFFFF_FFFF
    return fields if at == end else None


def _is_property(data: bytes, at: int, end: int) -> bool:
    """Whether a key and a value fill the bytes, as every client writes them."""
    if data[at] != _KEY:
        return False
    size = data[at + 1]
    at += 2
    if size > 127:
        start = at
        size, at = read_rest(data, at, size)
        if at - start > _SIZE_REST_MAX:
            return False
    at += size
    if at >= end or data[at] != _VALUE:
        return False
    size = data[at + 1]
    at += 2
    if size > 127:
        start = at
        size, at = read_rest(data, at, size)
        if at - start > _SIZE_REST_MAX:
            return False
    return at + size == end


# Tags: field number << 3 | wire type.
_KEY: Final = 1 << 3 | 2
_VALUE: Final = 2 << 3 | 2
_PRODUCER_NAME: Final = 1 << 3 | 2
_SEQUENCE_ID: Final = 2 << 3
_PUBLISH_TIME: Final = 3 << 3
_PROPERTIES: Final = 4 << 3 | 2
_COMPRESSION: Final = 8 << 3
_UNCOMPRESSED_SIZE: Final = 9 << 3
_NUM_MESSAGES_IN_BATCH: Final = 11 << 3
_EVENT_TIME: Final = 12 << 3
_ENCRYPTION_KEYS: Final = 13 << 3 | 2
_SCHEMA_VERSION: Final = 16 << 3 | 2
_DELIVER_AT_TIME: Final = 19 << 3
_MARKER_TYPE: Final = 20 << 3
_TXNID_LEAST_BITS: Final = 22 << 3
_TXNID_MOST_BITS: Final = 23 << 3
_HIGHEST_SEQUENCE_ID: Final = 24 << 3
_UUID: Final = 26 << 3 | 2
_NUM_CHUNKS_FROM_MSG: Final = 27 << 3
_TOTAL_CHUNK_MSG_SIZE: Final = 28 << 3
_CHUNK_ID: Final = 29 << 3


def _take(fields: _Fields, tag: int, value: int) -> None:
    """Keep a number if it is one that matters."""
    if tag == _NUM_MESSAGES_IN_BATCH:
        fields.batch_size = signed32(value)
    elif tag == _COMPRESSION:
        # A kind that the library does not know is, to it, a field that it does not know.
        if (kind := signed32(value)) in GROWTH_MAX:
            fields.compression = kind
    elif tag == _SEQUENCE_ID:
        fields.required |= 2
    elif tag == _PUBLISH_TIME:
        fields.publish_time = signed64(value)
        fields.required |= 4
    elif tag in (_EVENT_TIME, _HIGHEST_SEQUENCE_ID):
        fields.is_lasting = False
    elif tag == _DELIVER_AT_TIME:
        fields.deliver_at_time = signed64(value)
        fields.is_lasting = False
    elif tag == _CHUNK_ID:
        fields.chunk_id = signed32(value)
    elif tag == _NUM_CHUNKS_FROM_MSG:
        fields.num_chunks = signed32(value)
    elif tag == _TOTAL_CHUNK_MSG_SIZE:
        fields.total_size = signed32(value)
    elif tag == _MARKER_TYPE:
        fields.is_marker = True
    elif tag == _TXNID_LEAST_BITS:
        most = 0 if fields.transaction is None else fields.transaction.most
        fields.transaction = TxnId(most, signed64(value))
    elif tag == _TXNID_MOST_BITS:
        least = 0 if fields.transaction is None else fields.transaction.least
        fields.transaction = TxnId(signed64(value), least)


def _parse(data: bytes, at: int, end: int) -> _Fields:
    """The same by the protobuf library."""
    fields = _Fields()
    if end - at > UNUSUAL_METADATA_SIZE_MAX:
        fields.fault = f"{end - at} bytes of unusual metadata"
        return fields
    try:
        metadata = pb.MessageMetadata.FromString(data[at:end])
    except DecodeError:
        fields.fault = f"{end - at} bytes that are no message metadata"
        return fields
    fields.is_lasting = False
    if metadata.HasField("producer_name"):
        fields.required |= 1
        if _occurrences(data[at:end], pb.MessageMetadata.PRODUCER_NAME_FIELD_NUMBER) > 1:
            fields.fault = _TWO_NAMES
            return fields
    if metadata.HasField("sequence_id"):
        fields.required |= 2
    if metadata.HasField("publish_time"):
        fields.publish_time = signed64(metadata.publish_time)
        fields.required |= 4
    if fields.required == _REQUIRED_ALL and not metadata.IsInitialized():
        missing = ", ".join(metadata.FindInitializationErrors())  # type: ignore[attr-defined]
        fields.fault = f"metadata without {missing[:80]}"
        return fields
    fields.compression = metadata.compression
    fields.is_encrypted = len(metadata.encryption_keys) > 0
    fields.is_marker = metadata.HasField("marker_type")
    if metadata.HasField("txnid_least_bits") or metadata.HasField("txnid_most_bits"):
        fields.transaction = TxnId(
            signed64(metadata.txnid_most_bits), signed64(metadata.txnid_least_bits)
        )
    fields.uncompressed_size = metadata.uncompressed_size
    if metadata.HasField("num_messages_in_batch"):
        fields.batch_size = metadata.num_messages_in_batch
    if metadata.HasField("deliver_at_time"):
        fields.deliver_at_time = metadata.deliver_at_time
    if metadata.HasField("uuid"):
        # The library hands out bytes where the text is not UTF-8.
        uuid: str | bytes = metadata.uuid
        fields.uuid = uuid.encode() if isinstance(uuid, str) else uuid
    if metadata.HasField("chunk_id"):
        fields.chunk_id = metadata.chunk_id
    if metadata.HasField("num_chunks_from_msg"):
        fields.num_chunks = metadata.num_chunks_from_msg
    fields.total_size = metadata.total_chunk_msg_size
    return fields


def _occurrences(data: bytes, number: int) -> int:
    """How often a text field is written; a parsed message tells the last one only.

    A field of that number that is no text is another one, which the library does not know.
    """
    fields = UnknownFieldSet(pb.CommandPing.FromString(data))  # which declares no fields
    return sum(
        fields[place].field_number == number and fields[place].wire_type == _TEXT
        for place in range(len(fields))
    )


def _judge(fields: _Fields) -> Shape:
    """Whether the numbers can be true together."""
    if fields.fault:
        return refused(fields.fault)
    if fields.required != _REQUIRED_ALL:
        return refused("metadata without producer name, sequence id or publish time")
    if fields.publish_time < 0:
        return refused(f"publish time {fields.publish_time}")
    if fields.is_marker and fields.transaction is not None:
        return refused(
            f"a marker of transaction {fields.transaction}, which the broker alone writes"
        )
    if fields.num_chunks is not None or fields.chunk_id is not None:
        return _judge_chunk(fields)
    if fields.batch_size is not None:
        return _judge_batch(fields)
    traits = PLAIN
    if _has_traits(fields):
        traits = Traits(
            is_marker=fields.is_marker,
            deliver_at_time=fields.deliver_at_time,
            transaction=fields.transaction,
        )
    return Shape(1, fields.publish_time, traits, 0, NO_LIMIT, fields.is_lasting)


def _has_traits(fields: _Fields) -> bool:
    return fields.is_marker or fields.deliver_at_time is not None or fields.transaction is not None


def _judge_batch(fields: _Fields) -> Shape:
    count = fields.batch_size
    assert count is not None
    if not 0 < count <= BATCH_SIZE_MAX:
        return refused(f"a batch of {count} messages; allowed are 1 to {BATCH_SIZE_MAX}")
    payload_min = count * SINGLE_MESSAGE_SIZE_MIN
    if fields.compression:
        # The broker never decompresses: it compares with the stated size, and with what the payload
        # could grow to, for a producer may state any size.
        if fields.uncompressed_size < payload_min:
            return refused(f"{count} messages in {fields.uncompressed_size} uncompressed bytes")
        payload_min = -(-payload_min // GROWTH_MAX[fields.compression])
    traits = BATCH
    if _has_traits(fields):
        traits = Traits(
            True, fields.is_marker, fields.deliver_at_time, transaction=fields.transaction
        )
    return Shape(count, fields.publish_time, traits, payload_min, NO_LIMIT, fields.is_lasting)


def _judge_chunk(fields: _Fields) -> Shape:
    chunk_id, num_chunks = fields.chunk_id, fields.num_chunks
    if chunk_id is None or num_chunks is None or not 0 <= chunk_id < num_chunks:
        return refused(f"chunk {chunk_id} of {num_chunks}")
    if fields.batch_size is not None:
        return refused(f"chunk {chunk_id} of a batch of {fields.batch_size} messages")
    try:
        uuid = fields.uuid.decode()
    except UnicodeDecodeError:
        uuid = ""
    if not uuid:
        return refused(f"chunk {chunk_id} of {num_chunks} without a uuid")
    if fields.total_size < num_chunks:
        return refused(f"{num_chunks} chunks of {fields.total_size} bytes in all")
    traits = Traits(
        is_marker=fields.is_marker,
        deliver_at_time=fields.deliver_at_time,
        chunk=ChunkInfo(uuid, chunk_id, num_chunks, fields.total_size),
        transaction=fields.transaction,
    )
    # The total is counted before encryption, which adds to every chunk.
    payload_max = NO_LIMIT if fields.is_encrypted else fields.total_size
    return Shape(1, fields.publish_time, traits, 0, payload_max, False)
