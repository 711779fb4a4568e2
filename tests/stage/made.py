"""Entries as producers and brokers make them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from milepost.spark.reading.entries import RawEntry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.compression import compress
from milepost.wire.metadata import encode_broker_entry, split_entry
from milepost.wire.scanners.encode import encode_entry_head

NOW = 1_700_000_000_000


def entry(
    last_index: int,
    payload: bytes,
    *,
    ledger_id: int = 3,
    entry_id: int | None = None,
    checksum: bool = True,
    compression: int = pb.NONE,
    index: bool = True,
    **metadata: Any,
) -> RawEntry:
    """An entry of one message, unless the metadata says that it is a batch or a chunk."""
    head = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=NOW)
    for name, value in metadata.items():
        if name == "properties":
            head.properties.extend(pb.KeyValue(key=k, value=v) for k, v in value)
        elif value is not None:
            setattr(head, name, value)
    if compression:
        head.compression = compression
        head.uncompressed_size = len(payload)
        payload = compress(compression, payload)
    data = encode_entry_head(head.SerializeToString(), payload) + payload
    if not checksum:
        data = data[6:]
    if index:
        data = encode_broker_entry(NOW, last_index) + data
    return RawEntry(ledger_id, last_index if entry_id is None else entry_id, data)


def single(payload: bytes, **metadata: Any) -> SingleMessage:
    own = pb.SingleMessageMetadata(payload_size=len(payload))
    for name, value in metadata.items():
        if name == "properties":
            own.properties.extend(pb.KeyValue(key=k, value=v) for k, v in value)
        elif value is not None:
            setattr(own, name, value)
    return SingleMessage(own, payload)


def batch(last_index: int, messages: Sequence[SingleMessage], **more: Any) -> RawEntry:
    return entry(last_index, join_batch(messages), num_messages_in_batch=len(messages), **more)


def chunk(index: int, part: bytes, chunk_id: int, of: int, total: int, **more: Any) -> RawEntry:
    more.setdefault("uuid", "u")
    return entry(
        index, part, chunk_id=chunk_id, num_chunks_from_msg=of, total_chunk_msg_size=total, **more
    )


def changed(one: RawEntry, change: Callable[[pb.MessageMetadata], None]) -> RawEntry:
    """The same entry with other metadata, and a checksum that is right."""
    parts = split_entry(one.data)
    change(parts.metadata)
    block, _, _ = one.data.partition(b"\x0e\x01")
    head = encode_entry_head(parts.metadata.SerializeToString(), parts.payload)
    return one._replace(data=block + head + parts.payload)
