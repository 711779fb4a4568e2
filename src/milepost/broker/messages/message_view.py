"""Unpacks entries into single messages for people: what a producer said of each, and its payload.

A batch is split, what is compressed is unpacked. What cannot be unpacked (an encrypted payload, one that is
damaged or too large) is shown as it lies, and `fault` says why. Of a chunked message the caller gives the
payloads of all its chunks, joined. Reads nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import MilepostError
from milepost.positions import signed64
from milepost.positions.ackset import AckSet
from milepost.positions.ids import MessageId
from milepost.storage.ledgers.entry import BATCH, Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import walk_batch
from milepost.wire.compression import decompress
from milepost.wire.events import Delivery
from milepost.wire.metadata import entry_metadata_and_end, is_batch, message_count

# What a payload may unpack to.
UNPACKED_SIZE_MAX = 32 * 1024 * 1024


class MessageView(NamedTuple):
    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    id: str
    came_ms: int
    """When the broker stored it."""
    publish_ms: int
    event_ms: int
    """0: the producer named none."""
    deliver_at_ms: int
    """0: at once."""
    producer: str
    sequence_id: int
    key: str | None
    """Texts that are not UTF-8 have a sign in the place of what is not."""
    is_key_base64: bool
    properties: dict[str, str]
    schema_version: int | None
    is_null: bool
    size: int
    """Of the payload, unpacked."""
    compression: str
    batch_size: int
    """Messages of the batch that it came in; 0 without one."""
    chunks: int
    """Chunks that it was sent in; 0 if it was sent whole."""
    transaction: str
    fault: str
    """Why the payload is shown as it lies; empty if it is not."""
    payload: bytes


def views(
    entry: Entry,
    partition: int,
    *,
    chunks: int = 0,
    joined: bytes | None = None,
    fault: str = "",
    size_max: int = UNPACKED_SIZE_MAX,
) -> list[MessageView]:
    """The messages of an entry, in order. `joined` is the payload of all chunks, for a last one;
    `fault` is what the caller knows to be wrong with it."""
    metadata, at = entry_metadata_and_end(entry.payload)
    packed = bytes(entry.payload[at:]) if joined is None else joined
    payload = packed
    if metadata.encryption_keys:
        fault = fault or "it is encrypted"
    elif metadata.compression and not fault:
        try:
            payload = decompress(
                metadata.compression, packed, metadata.uncompressed_size, size_max=size_max
            )
        except MilepostError as error:
            fault = str(error)
    whole = _view(entry, metadata, partition, chunks, payload, fault)
    if not entry.flags & BATCH or metadata.encryption_keys:
        return [whole]
    first, found = entry.last_index - entry.count + 1, list[MessageView]()
    try:
        if fault:
            return [whole._replace(batch_size=entry.count)]
        for number, (single, own) in enumerate(walk_batch(payload, entry.count)):
            found.append(_of_batch(whole, first, number, entry, partition, single, own))
    except MilepostError as error:
        return [whole._replace(batch_size=entry.count, fault=str(error))]
    return found


def delivered_views(
    delivery: Delivery, last_index: int, came_ms: int, payload_at: int, *, size_max: int
) -> list[MessageView]:
    """The messages of a delivery that the consumer is to see. `payload_at`: where the producer's bytes
    begin in its entry."""
    stored = delivery.entry[payload_at:]
    metadata, _ = entry_metadata_and_end(stored)
    count, flags = message_count(metadata), BATCH if is_batch(metadata) else 0
    entry = Entry(
        delivery.ledger_id, delivery.entry_id, last_index, count, came_ms, flags, b"", stored
    )
    found = views(entry, delivery.partition, size_max=size_max)
    if not delivery.ack_set:
        return found
    shown = AckSet.from_message_words(delivery.ack_set, count)
    first = last_index - count + 1
    return [one for one in found if shown.bits >> (one.index - first) & 1 or len(found) < count]


def _view(
    entry: Entry,
    metadata: pb.MessageMetadata,
    partition: int,
    chunks: int,
    payload: bytes,
    fault: str,
) -> MessageView:
    has_txn = metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")
    return MessageView(
        index=entry.last_index - entry.count + 1,
        id=str(MessageId(*entry.position, partition, -1)),
        came_ms=entry.timestamp_ms,
        publish_ms=signed64(metadata.publish_time),
        event_ms=signed64(metadata.event_time),
        deliver_at_ms=signed64(metadata.deliver_at_time),
        producer=_text(metadata.producer_name),
        sequence_id=signed64(metadata.sequence_id),
        key=_text(metadata.partition_key) if metadata.HasField("partition_key") else None,
        is_key_base64=metadata.partition_key_b64_encoded,
        properties={_text(one.key): _text(one.value) for one in metadata.properties},
        schema_version=_version(metadata),
        is_null=metadata.null_value,
        size=len(payload),
        compression=_compression(metadata.compression),
        batch_size=0,
        chunks=chunks,
        transaction=f"({metadata.txnid_most_bits},{metadata.txnid_least_bits})" if has_txn else "",
        fault=fault,
        payload=payload,
    )


def _of_batch(
    whole: MessageView,
    first: int,
    number: int,
    entry: Entry,
    partition: int,
    single: pb.SingleMessageMetadata,
    payload: bytes,
) -> MessageView:
    return whole._replace(
        index=first + number,
        id=str(MessageId(*entry.position, partition, number)),
        event_ms=signed64(single.event_time) if single.HasField("event_time") else whole.event_ms,
        sequence_id=(
            signed64(single.sequence_id) if single.HasField("sequence_id") else whole.sequence_id
        ),
        key=_text(single.partition_key) if single.HasField("partition_key") else None,
        is_key_base64=single.partition_key_b64_encoded,
        properties={_text(one.key): _text(one.value) for one in single.properties},
        is_null=single.null_value,
        size=len(payload),
        batch_size=entry.count,
        payload=payload,
    )


def _version(metadata: pb.MessageMetadata) -> int | None:
    """The number of a schema's version, as clients write it: eight bytes, highest first."""
    raw = metadata.schema_version
    return int.from_bytes(raw, "big") if len(raw) == 8 else None


def _compression(kind: int) -> str:
    if kind not in pb.CompressionType.values():
        return str(kind)
    return "" if kind == pb.NONE else pb.CompressionType.Name(kind)


def _text(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")
