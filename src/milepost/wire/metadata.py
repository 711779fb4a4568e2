"""The parts of an entry: broker entry metadata, checksum, message metadata, payload.

The broker reads entries here on its rare paths (routing by key, peeking, time of an entry); the client
reads every entry here. An entry is bytes as they were sent or stored; nothing here writes one anew but
the broker's own block in front of it (PIP-70, PIP-90), which no checksum covers.

    >>> from milepost.wire.scanners.encode import encode_entry_head
    >>> own = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, partition_key="k")
    >>> entry = encode_entry_head(own.SerializeToString(), b"value") + b"value"
    >>> parts = split_entry(encode_broker_entry(timestamp=1700000000000, index=41) + entry)
    >>> parts.broker.index, message_count(parts.metadata), sticky_key(parts.metadata)
    (41, 1, b'k')
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from milepost.errors import ProtocolError
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import ChunkInfo
from milepost.wire.frames import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC, Buffer, crc32c
from milepost.wire.reasons import Reason
from milepost.wire.scanners.varint import encode_varint

_BROKER_ENTRY_MAGIC: Final = BROKER_ENTRY_MAGIC.to_bytes(2, "big")
_CHECKSUM_MAGIC: Final = CHECKSUM_MAGIC.to_bytes(2, "big")
_CHECKSUM_SIZE: Final = 6


class BrokerEntry(NamedTuple):
    """What the broker added to an entry."""

    timestamp: int | None
    """Milliseconds, the broker's clock, when the entry came."""
    index: int | None  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    """The index of the entry's *last* message."""


class EntryParts(NamedTuple):
    broker: BrokerEntry | None
    checksum: int | None
    """As stated; None when the producer sent none."""
    metadata: pb.MessageMetadata
    payload: bytes
    is_intact: bool
    """The checksum was right, or there was none to compare."""


def encode_broker_entry(timestamp: int, index: int) -> bytes:
    """The block in front of an entry: magic, size, time of arrival, index of its last message."""
    fields = b"\x08" + encode_varint(timestamp) + b"\x10" + encode_varint(index)
    return _BROKER_ENTRY_MAGIC + len(fields).to_bytes(4, "big") + fields


def split_broker_entry(entry: bytes) -> tuple[BrokerEntry | None, int]:
    """The broker's block, if there is one, and where the producer's bytes begin."""
    if not entry.startswith(_BROKER_ENTRY_MAGIC):
        return None, 0
    end = 6 + int.from_bytes(entry[2:6], "big")
    if len(entry) < 6 or end > len(entry):
        raise _bad(f"broker entry metadata up to byte {end} of {len(entry)}")
    try:
        fields = pb.BrokerEntryMetadata.FromString(entry[6:end])
    except DecodeError:
        raise _bad(f"{end - 6} bytes that are no broker entry metadata") from None
    return BrokerEntry(
        signed64(fields.broker_timestamp) if fields.HasField("broker_timestamp") else None,
        signed64(fields.index) if fields.HasField("index") else None,
    ), end


def split_entry(entry: bytes) -> EntryParts:
    """All parts of an entry; `ProtocolError` when it has not got them."""
    broker, at = split_broker_entry(entry)
    checksum: int | None = None
    is_intact = True
    if entry.startswith(_CHECKSUM_MAGIC, at):
        checksum = int.from_bytes(entry[at + 2 : at + 6], "big")
        at += 6
        is_intact = crc32c(entry[at:]) == checksum
    metadata_at = at + 4
    metadata_end = metadata_at + int.from_bytes(entry[at:metadata_at], "big")
    if metadata_at > len(entry) or metadata_end > len(entry):
        raise _bad(f"metadata up to byte {metadata_end} of {len(entry)}")
    metadata = parse_metadata(entry[metadata_at:metadata_end])
    return EntryParts(broker, checksum, metadata, entry[metadata_end:], is_intact)


def entry_metadata(entry: Buffer) -> pb.MessageMetadata:
    """The metadata of a stored entry, and nothing else of it."""
    return entry_metadata_and_end(entry)[0]


def entry_metadata_and_end(entry: Buffer) -> tuple[pb.MessageMetadata, int]:
    """The metadata of a stored entry, and where its payload begins: that is not copied, and the checksum
    was verified when the entry came."""
    at = _CHECKSUM_SIZE if entry[:2] == _CHECKSUM_MAGIC else 0
    metadata_at = at + 4
    metadata_end = metadata_at + int.from_bytes(entry[at:metadata_at], "big")
    if metadata_at > len(entry) or metadata_end > len(entry):
        raise _bad(f"metadata up to byte {metadata_end} of {len(entry)}")
    return parse_metadata(bytes(entry[metadata_at:metadata_end])), metadata_end


def parse_metadata(data: bytes) -> pb.MessageMetadata:
    """Message metadata with its required fields present; `ProtocolError` otherwise."""
    try:
        metadata = pb.MessageMetadata.FromString(data)
    except DecodeError:
        raise _bad(f"{len(data)} bytes that are no message metadata") from None
    if not metadata.IsInitialized():
        raise _bad("message metadata without producer name, sequence id or publish time")
    return metadata


def is_batch(metadata: pb.MessageMetadata) -> bool:
    """Presence of the field, not its value, makes an entry a batch: C++ sends batches of one."""
    return metadata.HasField("num_messages_in_batch")


def is_marker(metadata: pb.MessageMetadata) -> bool:
    """A server's own entry, never delivered."""
    return metadata.HasField("marker_type")


def message_count(metadata: pb.MessageMetadata) -> int:
    """Messages in the entry, and so the indexes it takes; a chunk or a marker takes one."""
    return metadata.num_messages_in_batch if is_batch(metadata) else 1


def chunk_info(metadata: pb.MessageMetadata) -> ChunkInfo | None:
    """The chunk's place in its message; None for what is not a chunk."""
    if not metadata.HasField("num_chunks_from_msg"):
        return None
    return ChunkInfo(
        metadata.uuid,
        metadata.chunk_id,
        metadata.num_chunks_from_msg,
        metadata.total_chunk_msg_size,
    )


def sticky_key(metadata: pb.MessageMetadata) -> bytes:
    """What Key_Shared routes by: ordering key, else key, else producer name and sequence id.

    The last makes all chunks of a message without a key go to one consumer.
    """
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key = _raw(metadata.partition_key)
        if not metadata.partition_key_b64_encoded:
            return key
        try:
            return base64.b64decode(key)
        except binascii.Error:
            return key
    return b"%b-%d" % (_raw(metadata.producer_name), signed64(metadata.sequence_id))


def _raw(text: str | bytes) -> bytes:
    """The bytes of a text field; the library hands out bytes where they are not UTF-8."""
    return text.encode() if isinstance(text, str) else text


def _bad(message: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_METADATA, message)
