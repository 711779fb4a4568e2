"""Unpacks an entry for people: payload, properties, metadata.

The names are upstream's response headers for a message over REST. A batch stays one payload; who wants
its messages splits it. Values are plain ASCII whatever a producer wrote: what is not is percent-encoded,
so that no header ends where it should not.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from milepost.errors import MilepostError
from milepost.positions import signed64
from milepost.storage.ledgers.entry import Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.compression import decompress
from milepost.wire.metadata import is_batch, is_marker, split_entry

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|", re.ASCII)
PROPERTIES_SIZE_MAX = 16 * 1024


class EntryView(NamedTuple):
    headers: dict[str, str]
    payload: bytes


def view(entry: Entry, *, with_index: bool, payload_size_max: int) -> EntryView:
    """`with_index`: whether this broker has broker entry metadata. A payload that does not unpack, or
    to more than the limit, is shown as it lies, and so is one that is encrypted."""
    parts = split_entry(bytes(entry.payload))
    metadata, payload = parts.metadata, parts.payload
    if metadata.compression and not metadata.encryption_keys:
        try:
            payload = decompress(
                metadata.compression,
                payload,
                metadata.uncompressed_size,
                size_max=payload_size_max,
            )
        except MilepostError:
            payload = parts.payload
    headers = {"X-Pulsar-Message-ID": f"{entry.ledger_id}:{entry.entry_id}"}
    headers["X-Pulsar-PROPERTY"] = _properties(metadata)
    if with_index:
        headers["X-Pulsar-Broker-Entry-METADATA-timestamp"] = time_text(entry.timestamp_ms)
        headers["X-Pulsar-Broker-Entry-METADATA-index"] = str(entry.last_index)
    headers["X-Pulsar-publish-time"] = time_text(signed64(metadata.publish_time))
    headers |= _told(metadata)
    headers["X-Pulsar-Is-Encrypted"] = _truth(bool(metadata.encryption_keys))
    headers["X-Pulsar-producer-name"] = _plain(metadata.producer_name)
    headers["X-Pulsar-sequence-id"] = str(signed64(metadata.sequence_id))
    if is_batch(metadata):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(len(entry.payload))
    if is_marker(metadata):
        headers["X-Pulsar-marker-type"] = str(metadata.marker_type)
    return EntryView(headers, payload)


def _told(metadata: pb.MessageMetadata) -> dict[str, str]:
    """What the producer may say, and only what it said."""
    told: dict[str, str] = {}
    for field, name, show in _OPTIONAL:
        if metadata.HasField(field):
            told[f"X-Pulsar-{name}"] = show(getattr(metadata, field))
    if metadata.HasField("num_chunks_from_msg"):
        told["X-Pulsar-PROPERTY-TOTAL-CHUNKS"] = str(metadata.num_chunks_from_msg)
        told["X-Pulsar-PROPERTY-CHUNK-ID"] = str(metadata.chunk_id)
    if metadata.replicate_to:
        told["X-Pulsar-replicated-to"] = _plain(",".join(metadata.replicate_to))
    return told


def time_text(time_ms: int) -> str:
    """As upstream prints times; the number itself where no calendar has it."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _properties(metadata: pb.MessageMetadata) -> str:
    text = json.dumps({item.key: item.value for item in metadata.properties}, default=repr)
    return text if len(text) <= PROPERTIES_SIZE_MAX else "{}"


def _plain(text: str | bytes) -> str:
    if isinstance(text, bytes):  # the library's, for text that is not UTF-8
        return quote(text)
    return text if _PLAIN.fullmatch(text) else quote(text)


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _time(value: int) -> str:
    return time_text(signed64(value))


def _compression(value: int) -> str:
    return pb.CompressionType.Name(value) if value in pb.CompressionType.values() else str(value)


_OPTIONAL = (
    ("event_time", "event-time", _time),
    ("deliver_at_time", "deliver-at-time", _time),
    ("null_value", "null-value", _truth),
    ("replicated_from", "replicated-from", _plain),
    ("partition_key", "partition-key", _plain),
    ("compression", "compression", _compression),
    ("uncompressed_size", "uncompressed-size", str),
    ("encryption_algo", "encryption-algo", _plain),
    ("encryption_param", "Base64-encryption-param", _base64),
    ("schema_version", "Base64-schema-version", _base64),
    ("partition_key_b64_encoded", "partition-key-b64-encoded", _truth),
    ("ordering_key", "Base64-ordering-key", _base64),
    ("txnid_least_bits", "txnid-least-bits", str),
    ("txnid_most_bits", "txnid-most-bits", str),
    ("highest_sequence_id", "highest-sequence-id", str),
    ("uuid", "uuid", _plain),
    ("num_chunks_from_msg", "num-chunks-from-msg", str),
    ("total_chunk_msg_size", "total-chunk-msg-size", str),
    ("chunk_id", "chunk-id", str),
    ("null_partition_key", "null-partition-key", _truth),
)
