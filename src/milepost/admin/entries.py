"""Unpacks an entry of a REST answer into its messages.

Metadata comes in headers (`X-Pulsar-…`), the payload as the body; a batch stays one body, in which
each message has its length, its own metadata and its payload. Owns the reading of both; never asks.

    messages_of_entry(answer)       # [StoredMessage(message_id=3:0:-1:0, index=120, data=b"…"), …]
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from milepost.admin.request import Answer
from milepost.errors import CorruptData, InvalidMessageId
from milepost.positions.ids import MessageId
from milepost.positions.varints import read_varint


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message, as it is stored. Times are milliseconds since 1970; 0 for none."""

    message_id: MessageId
    data: bytes
    index: int | None = None
    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    publish_time: int = 0
    event_time: int = 0
    broker_time: int = 0
    deliver_at_time: int = 0
    producer_name: str | None = None
    sequence_id: int | None = None
    # Messages in its batch; 0 if it was not in one.
    batch_size: int = 0
    is_encrypted: bool = False
    # Of a chunk: the name that all chunks of its message share, its place among them, their number.
    chunk_uuid: str = ""
    chunk_id: int = 0
    chunk_count: int = 0
    # Its value is null, which is not the empty one.
    is_null: bool = False
    # The version of the schema that wrote it, as messages have it; empty if there is none.
    schema_version: bytes = b""
    # Set for what a broker wrote for itself; no consumer ever sees it.
    marker_type: int | None = None


def messages_of_entry(
    answer: Answer, position: MessageId | None = None, *, partition: int = -1
) -> list[StoredMessage]:
    """The messages of one entry, in order. `BadAnswer` if the body is not what the headers say.

    The headers do not say which partition of a topic was asked; the caller knows.
    """
    headers = answer.headers
    text = headers.get("x-pulsar-message-id")
    try:
        message_id = MessageId.parse(text) if text else position
    except InvalidMessageId:
        raise answer.bad(f"about no message: X-Pulsar-Message-ID is {text!a}") from None
    if message_id is None:
        raise answer.bad("about no message: X-Pulsar-Message-ID is missing")
    if message_id.partition < 0:
        message_id = MessageId(message_id.ledger_id, message_id.entry_id, partition)
    whole = StoredMessage(
        message_id,
        answer.body,
        index=_number(answer, "broker-entry-metadata-index"),
        key=headers.get("x-pulsar-partition-key"),
        properties=_properties(answer),
        publish_time=_time(answer, "publish-time"),
        event_time=_time(answer, "event-time"),
        broker_time=_time(answer, "broker-entry-metadata-timestamp"),
        deliver_at_time=_time(answer, "deliver-at-time"),
        producer_name=headers.get("x-pulsar-producer-name"),
        sequence_id=_number(answer, "sequence-id"),
        is_encrypted=headers.get("x-pulsar-is-encrypted") == "true",
        marker_type=_number(answer, "marker-type"),
        chunk_uuid=headers.get("x-pulsar-uuid", ""),
        chunk_id=_number(answer, "chunk-id") or 0,
        chunk_count=_number(answer, "num-chunks-from-msg") or 0,
        is_null=headers.get("x-pulsar-null-value") == "true",
        schema_version=_base64(answer, "schema-version"),
    )
    size = _number(answer, "num-batch-message")
    if size is None or whole.is_encrypted:
        return [whole]
    try:
        return list(_unpacked(whole, size))
    except (CorruptData, IndexError, UnicodeDecodeError, ValueError):
        raise answer.bad(f"not a batch of {size} messages") from None


def _unpacked(whole: StoredMessage, size: int) -> Iterator[StoredMessage]:
    body, at = whole.data, 0
    place = whole.message_id
    for number in range(size):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        if end > len(body):
            raise ValueError("cut off")
        own = _Single(body[at + 4 : end])
        at = end + own.payload_size
        if at > len(body):
            raise ValueError("cut off")
        yield replace(
            whole,
            message_id=MessageId(place.ledger_id, place.entry_id, place.partition, number, size),
            data=body[end:at],
            # The entry's index is that of its last message.
            index=None if whole.index is None else whole.index - size + 1 + number,
            key=own.key,
            properties=own.properties,
            event_time=own.event_time,
            sequence_id=own.sequence_id,
            batch_size=size,
            is_null=own.is_null,
        )


class _Single:
    """What a message in a batch says of itself: Pulsar's SingleMessageMetadata, read by hand.

    field 1 property (key 1, value 2), 2 key, 3 payload size, 5 event time, 8 sequence id, 9 null value
    """

    def __init__(self, data: bytes) -> None:
        self.properties: dict[str, str] = {}
        self.key: str | None = None
        self.payload_size = 0
        self.event_time = 0
        self.sequence_id: int | None = None
        self.is_null = False
        for number, value in _fields(data):
            if isinstance(value, bytes):
                if number == 1:
                    pair = {n: v.decode() for n, v in _fields(value) if isinstance(v, bytes)}
                    self.properties[pair.get(1, "")] = pair.get(2, "")
                elif number == 2:
                    self.key = value.decode()
            elif number == 3:
                self.payload_size = value
            elif number == 5:
                self.event_time = value
            elif number == 8:
                self.sequence_id = value
            elif number == 9:
                self.is_null = bool(value)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = read_varint(data, at)
            if at + size > len(data):
                raise ValueError("cut off")
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {tag & 7}")


def _number(answer: Answer, name: str) -> int | None:
    text = answer.headers.get(f"x-pulsar-{name}")
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise answer.bad(f"about no message: X-Pulsar-{name} is {text!a}") from None


def _base64(answer: Answer, name: str) -> bytes:
    text = answer.headers.get(f"x-pulsar-base64-{name}", "")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise answer.bad(f"about no message: X-Pulsar-Base64-{name} is {text!a}") from None


def _time(answer: Answer, name: str) -> int:
    """A time in milliseconds: upstream writes ISO 8601, with whatever zone it runs in."""
    text = answer.headers.get(f"x-pulsar-{name}", "0")
    if text.isdecimal():
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise answer.bad(f"about no message: X-Pulsar-{name} is {text!a}") from None


def _properties(answer: Answer) -> dict[str, str]:
    text = answer.headers.get("x-pulsar-property", "{}")
    try:
        document = json.loads(text)
    except ValueError:
        raise answer.bad("about no message: X-Pulsar-PROPERTY is not JSON") from None
    return {str(k): str(v) for k, v in document.items()} if isinstance(document, dict) else {}
