"""The plain reader: entries to rows, one message at a time.

This is the truth that the compiled reader (scan.py) is compared with, what takes over where that one gives
up, and what reads the rare: chunks. It checks everything: the checksum, sizes, numbers. Entries come as a
broker sends them: its own block in front, with the index of the last message (PIP-90).

    rows = entry_rows("t", -1, RawEntry(3, 12, data), first_index=0, end_index=1 << 62)
    [(row.index, row.batch_index, row.value) for row in rows]    # [(40, 0, b'a'), (41, 1, b'b')]
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, NamedTuple

from milepost.errors import (
    DecompressionError,
    NotAllowed,
    ProtocolError,
    Undecodable,
    UnknownCompression,
)
from milepost.positions.ids import ChunkMessageId, MessageId, signed64
from milepost.spark.values.columns import Row
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.compression import decompress
from milepost.wire.frames import Buffer
from milepost.wire.metadata import EntryParts, is_batch, message_count, split_entry

# What a payload may become when it is decompressed. A message is at most a few MiB; a batch likewise.
UNCOMPRESSED_SIZE_MAX: Final = 1 << 30


class RawEntry(NamedTuple):
    """An entry as it came from the broker."""

    ledger_id: int
    entry_id: int
    data: bytes

    @property
    def place(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


def read_entry(entry: RawEntry) -> EntryParts:
    """The parts of an entry that has an index and is undamaged."""
    try:
        parts = split_entry(entry.data)
    except ProtocolError as error:
        raise Undecodable(f"entry {entry.place}: {error}") from None
    if not parts.is_intact:
        raise Undecodable(f"entry {entry.place}: its checksum is not {parts.checksum:#010x}")
    last_index(parts, entry)
    return parts


def last_index(parts: EntryParts, entry: RawEntry) -> int:
    """The index of an entry's last message."""
    if parts.broker is None or parts.broker.index is None:
        raise NotAllowed(
            f"entry {entry.place} came without its index; the broker must keep and show it "
            "(brokerEntryMetadataInterceptors, exposingBrokerEntryMetadataToClientEnabled)"
        )
    return parts.broker.index


def entry_rows(
    topic: str, partition: int, entry: RawEntry, first_index: int, end_index: int
) -> list[Row]:
    """The messages of an entry that lie in the range. Not for chunks: one is no message."""
    parts = read_entry(entry)
    metadata = parts.metadata
    last = last_index(parts, entry)
    count = message_count(metadata)
    if count < 1 or last - count + 1 < 0:
        raise Undecodable(f"entry {entry.place}: {count} messages that end at index {last}")
    payload = unpack(metadata, parts.payload, entry)
    if not is_batch(metadata):
        if not first_index <= last < end_index:
            return []
        value = None if metadata.null_value else payload
        message_id = MessageId(entry.ledger_id, entry.entry_id, partition).serialize()
        return [_row(topic, partition, entry, last, -1, message_id, None, metadata, value)]
    try:
        messages = split_batch(payload, count)
    except ProtocolError as error:
        raise Undecodable(f"entry {entry.place}: {error}") from None
    found = []
    for batch_index, (single, value) in enumerate(messages):
        index = last - count + 1 + batch_index
        if not first_index <= index < end_index or single.compacted_out:
            continue
        address = MessageId(entry.ledger_id, entry.entry_id, partition, batch_index, count)
        kept = None if single.null_value else value
        found.append(
            _row(
                topic, partition, entry, index, batch_index, address.serialize(), None,
                metadata, kept, single,
            )
        )  # fmt: skip
    return found


def chunked_row(
    topic: str, partition: int, first: RawEntry, last: RawEntry, parts: EntryParts, payload: bytes
) -> Row:
    """A message that came in chunks, at the place of its last one. `parts` are the last one's."""
    first_id = MessageId(first.ledger_id, first.entry_id, partition)
    message_id = ChunkMessageId(first_id, MessageId(last.ledger_id, last.entry_id, partition))
    metadata = parts.metadata
    value = None if metadata.null_value else unpack(metadata, payload, last)
    return _row(
        topic, partition, last, last_index(parts, last), -1, message_id.serialize(),
        first_id.serialize(), metadata, value,
    )  # fmt: skip


def _row(
    topic: str,
    partition: int,
    entry: RawEntry,
    index: int,
    batch_index: int,
    message_id: bytes,
    first_chunk_id: bytes | None,
    metadata: pb.MessageMetadata,
    value: bytes | None,
    single: pb.SingleMessageMetadata | None = None,
) -> Row:
    # What a batch says of one of its messages stands with the message; who sent it, with the batch.
    own: Any = metadata if single is None else single
    has_sequence = single is not None and single.HasField("sequence_id")
    return Row(
        topic=topic,
        partition=partition,
        index=index,
        message_id=message_id,
        ledger_id=entry.ledger_id,
        entry_id=entry.entry_id,
        batch_index=batch_index,
        first_chunk_id=first_chunk_id,
        key=_key(own),
        value=value,
        properties=list({_text(one.key): _text(one.value) for one in own.properties}.items()),
        publish_time=signed64(metadata.publish_time),
        event_time=signed64(own.event_time) or None,
        producer=_text(metadata.producer_name),
        sequence_id=signed64(own.sequence_id if has_sequence else metadata.sequence_id),
        schema_version=metadata.schema_version if metadata.HasField("schema_version") else None,
    )


def _key(own: Any) -> bytes | None:
    if not own.HasField("partition_key") or own.null_partition_key:
        return None
    key = _raw(own.partition_key)
    if not own.partition_key_b64_encoded:
        return key
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key


def _raw(text: str | bytes) -> bytes:
    """The bytes of a text field; the library hands out bytes where they are not UTF-8."""
    return text.encode() if isinstance(text, str) else text


def _text(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def unpack(metadata: pb.MessageMetadata, payload: bytes, entry: RawEntry) -> bytes:
    """The payload as the producer had it before it was compressed."""
    if metadata.encryption_keys:
        raise Undecodable(f"entry {entry.place} is encrypted, and Spark has no key for it")
    return inflate(metadata.compression, metadata.uncompressed_size, payload, entry)


def inflate(compression: int, size: int, payload: Buffer, entry: RawEntry) -> bytes:
    """Decompress to exactly the stated size; bytes that do not become that are damaged."""
    try:
        return decompress(compression, payload, size, size_max=UNCOMPRESSED_SIZE_MAX)
    except (UnknownCompression, DecompressionError) as error:
        raise Undecodable(f"entry {entry.place}: {error}") from None
