"""`Message`, as a consumer hands it out.

A message knows its entry and its place in it; what only some ask for (id, index, properties) is made
when it is asked for. An entry also carries the acks of its messages so far (PIP-54): its `pending` bits
begin as the broker's ack set and lose one with each ack.

    message = await consumer.receive()
    message.data(), message.index(), str(message.message_id())
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from milepost.client.messages.encryption import EncryptionContext
from milepost.client.schemas import Readings
from milepost.positions import ChunkMessageId, MessageId, Position, signed64
from milepost.wire import pulsar_pb2 as pb


class DeliveredEntry:
    """What all messages of one delivery share."""

    __slots__ = (
        "batch_size",
        "chunks",
        "consumer",
        "entry_id",
        "epoch",
        "hidden",
        "is_sealed",
        "last_index",
        "ledger_id",
        "metadata",
        "partition",
        "pending",
        "redelivery_count",
        "topic",
    )

    def __init__(
        self,
        consumer: object,
        topic: str,
        ledger_id: int,
        entry_id: int,
        partition: int,
        metadata: pb.MessageMetadata,
        *,
        batch_size: int,
        pending: int,
        hidden: int = 0,
        last_index: int | None,
        redelivery_count: int,
        epoch: int,
        chunks: tuple[Position, ...] = (),
        is_sealed: bool = False,
    ) -> None:
        # The consumer that received it: an ack through another consumer is a mistake that can be named.
        self.consumer = consumer
        self.topic = topic
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.partition = partition
        self.metadata = metadata
        # 0: not a batch.
        self.batch_size = batch_size
        # A set bit is still to be acked, as on the wire. Of an entry that is no batch: 1 bit.
        self.pending = pending
        # Messages of the batch that the broker left out: acked, or in a transaction that may still be
        # aborted. An ack of all others says nothing of these.
        self.hidden = hidden
        # None: the broker does not show it.
        self.last_index = last_index
        self.redelivery_count = redelivery_count
        # The consumer epoch under which it was received (PIP-194).
        self.epoch = epoch
        # Positions of all chunks, first to last; empty if it was not chunked.
        self.chunks = chunks
        # This client could not decrypt it, and its user wants it all the same.
        self.is_sealed = is_sealed

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)

    @property
    def not_acked_here(self) -> int:
        """The bits that an ack of this delivery's messages leaves set."""
        return self.pending | self.hidden


class Message:
    """One message. Method names are those of the official package."""

    __slots__ = ("_payload", "_readings", "_single", "batch_index", "entry")

    def __init__(
        self,
        entry: DeliveredEntry,
        batch_index: int,
        single: pb.SingleMessageMetadata | bytes | None,
        payload: bytes,
        readings: Readings | None,
    ) -> None:
        self.entry = entry
        # −1: the entry is no batch.
        self.batch_index = batch_index
        # Its part of a batch's payload, parsed when it is asked for; None if the entry is no batch.
        self._single = single
        self._payload = payload
        self._readings = readings

    def data(self) -> bytes:
        return self._payload

    def value(self) -> Any:
        """What the schema makes of the bytes; None for a message without a value."""
        if self.has_null_value():
            return None
        if self._readings is None:
            return self._payload
        return self._readings.decode(self._payload, self.schema_version(), self.key_bytes())

    def message_id(self) -> MessageId:
        entry = self.entry
        last = MessageId(
            entry.ledger_id, entry.entry_id, entry.partition, self.batch_index, entry.batch_size
        )
        if len(entry.chunks) > 1:
            first = entry.chunks[0]
            return ChunkMessageId(MessageId(*first, entry.partition), last)
        return last

    def index(self) -> int | None:
        """The dense index in the partition (PIP-90); None if the broker does not show indexes."""
        entry = self.entry
        if entry.last_index is None or self.batch_index < 0:
            return entry.last_index
        return entry.last_index - entry.batch_size + 1 + self.batch_index

    def topic_name(self) -> str:
        return self.entry.topic

    def properties(self) -> dict[str, str]:
        return {item.key: item.value for item in self._own.properties}

    def partition_key(self) -> str:
        """The key; empty if there is none. A binary one is given as the text it travels in."""
        return self._own.partition_key

    def key_bytes(self) -> bytes:
        """The key as bytes, whichever form it travelled in."""
        own = self._own
        if own.partition_key_b64_encoded:
            try:
                return base64.b64decode(own.partition_key)
            except binascii.Error:
                pass
        return own.partition_key.encode()

    def has_key(self) -> bool:
        """Was a key given? It may be the empty one."""
        return self._own.HasField("partition_key")

    def has_binary_key(self) -> bool:
        """Was the key given as bytes? `key_bytes` has them."""
        return self._own.partition_key_b64_encoded

    def ordering_key(self) -> str:
        return self._own.ordering_key.decode(errors="replace")

    def ordering_key_bytes(self) -> bytes | None:
        """The ordering key as it was given; None if there is none."""
        own = self._own
        return own.ordering_key if own.HasField("ordering_key") else None

    def publish_timestamp(self) -> int:
        return signed64(self.entry.metadata.publish_time)

    def event_timestamp(self) -> int:
        return signed64(self._own.event_time)

    def sequence_id(self) -> int:
        own = self._own
        if isinstance(own, pb.SingleMessageMetadata) and own.HasField("sequence_id"):
            return signed64(own.sequence_id)
        return signed64(self.entry.metadata.sequence_id) + max(self.batch_index, 0)

    def redelivery_count(self) -> int:
        return self.entry.redelivery_count

    def schema_version(self) -> bytes:
        return self.entry.metadata.schema_version

    def int_schema_version(self) -> int:
        """The version as a number; −1 if there is none."""
        version = self.schema_version()
        return int.from_bytes(version, "big") if version else -1

    def producer_name(self) -> str:
        return self.entry.metadata.producer_name

    def has_null_value(self) -> bool:
        return self._own.null_value

    def encryption_context(self) -> EncryptionContext | None:
        """How it was encrypted; None if it was not."""
        if not self.entry.metadata.encryption_keys:
            return None
        return EncryptionContext(self.entry.metadata, is_sealed=self.entry.is_sealed)

    @property
    def _own(self) -> pb.SingleMessageMetadata | pb.MessageMetadata:
        """Where the message's own fields are: its part of a batch's payload, or the entry's metadata."""
        single = self._single
        if single is None:
            return self.entry.metadata
        if isinstance(single, bytes):
            single = self._single = pb.SingleMessageMetadata.FromString(single)
        return single

    def __repr__(self) -> str:
        return f"<Message {self.message_id()} of {self.entry.topic}, {len(self._payload)} bytes>"
