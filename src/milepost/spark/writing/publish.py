"""Publishes rows from a task: batches, receipts, sequence ids.

A publisher is one producer on one link. The caller numbers its messages; the broker says at
the start which number it has seen last, and what is not above it is left out. So a task that is tried again,
with the same name and numbers, adds what is missing and nothing else, where deduplication is on.

    with Publisher(connection, topic, name="replay-7", compression="lz4") as publisher:
        publisher.send([Outgoing(41, b"key", b"value")])
        publisher.flush()                # everything has its receipt
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple

from milepost.client.connection import connection as client
from milepost.client.connection.endpoint import Endpoint
from milepost.client.connection.refusals import refusal
from milepost.client.schemas import schema_message
from milepost.clock import SystemClock
from milepost.errors import ConnectError, MilepostError, Timeout
from milepost.positions import TxnId, unsigned64
from milepost.schemas.types import SchemaInfo
from milepost.spark.reading.link import Link
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.compression import compress
from milepost.wire.events import Receipt
from milepost.wire.extensions import NEEDS_DEDUPLICATION, extension
from milepost.wire.scanners.encode import send_frame

COMPRESSIONS: Final = {
    "none": pb.NONE, "lz4": pb.LZ4, "zlib": pb.ZLIB, "zstd": pb.ZSTD, "snappy": pb.SNAPPY,
}  # fmt: skip

# A batch ends at so many bytes of payload; sends wait for receipts above so many that have none.
BATCH_SIZE_MAX: Final = 128 << 10
UNANSWERED_MAX: Final = 100
# What metadata and command of a message may take of the largest size.
OVERHEAD_SIZE: Final = 16 << 10


class Outgoing(NamedTuple):
    """A message on its way out."""

    sequence_id: int
    key: bytes | None
    value: bytes | None
    """None: a null value."""
    properties: Sequence[tuple[str, str]] = ()
    event_time: int | None = None
    """Milliseconds."""


class Publisher:
    def __init__(
        self,
        connection: Endpoint,
        topic: str,
        name: str | None = None,
        *,
        compression: str = "lz4",
        batch_messages_max: int = 1_000,
        schema: SchemaInfo | None = None,
        needs_deduplication: bool = False,
        txn_id: TxnId | None = None,
    ) -> None:
        """`schema` is registered, or found among the topic's; messages say which version of it they are.
        `needs_deduplication`: `NotAllowed` where the topic does not deduplicate, if the broker is
        Milepost (target_topic.py asks others). `txn_id`: of the transaction that messages belong to, to which
        the topic must have been added before the first is sent."""
        self.topic = topic
        self._connection = connection
        self._compression = COMPRESSIONS[compression]
        self._batch_messages_max = batch_messages_max
        self._txn_id = txn_id
        self._clock = SystemClock()
        self._link = Link.open(connection, topic)
        self._producer_id = self._link.next_id()
        # Sends without a receipt.
        self._unanswered = 0
        self.name: str = name or ""
        # What ended it; None while it works.
        self._error: MilepostError | None = None
        self._link.connection.producers[self._producer_id] = self
        command = pb.CommandProducer(
            topic=topic,
            producer_id=self._producer_id,
            user_provided_producer_name=name is not None,
            txn_enabled=txn_id is not None,
        )
        if name is not None:
            command.producer_name = name
        if needs_deduplication:
            command.metadata.append(extension(NEEDS_DEDUPLICATION))
        if schema is not None:
            command.schema.CopyFrom(schema_message(schema))
        try:
            answer = self._link.ask(command)
        except BaseException:
            self._link.close()
            raise
        self.name = answer.producer_name
        self._schema_version = bytes(answer.schema_version) if schema is not None else b""
        self.last_sequence_id: int = answer.last_sequence_id
        """The highest that the broker has of this name; -1 if none."""

    @property
    def is_milepost(self) -> bool:
        return self._link.finds_indexes

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        self._link.close()

    def send(self, messages: Iterable[Outgoing]) -> int:
        """Send messages, whose numbers must grow; those that the broker has are left out. How many
        went."""
        batch: list[Outgoing] = []
        size = sent = 0
        for one in messages:
            if one.sequence_id <= self.last_sequence_id:
                continue
            sent += 1
            one_size = len(one.value or b"")
            if batch and (
                size + one_size > BATCH_SIZE_MAX or len(batch) >= self._batch_messages_max
            ):
                self._send_batch(batch)
                batch, size = [], 0
            if one_size + OVERHEAD_SIZE > self._link.message_size_max:
                self._send_batch(batch)
                self._send_alone(one)
                batch, size = [], 0
                continue
            batch.append(one)
            size += one_size
        self._send_batch(batch)
        return sent

    def flush(self) -> None:
        """Wait until everything has its receipt."""
        while self._unanswered:
            self._hear()

    def _send_batch(self, batch: Sequence[Outgoing]) -> None:
        if not batch:
            return
        payload = join_batch([_single(one) for one in batch])
        metadata = pb.MessageMetadata(
            producer_name=self.name,
            sequence_id=batch[0].sequence_id,
            highest_sequence_id=batch[-1].sequence_id,
            publish_time=self._clock.wall_ms(),
            num_messages_in_batch=len(batch),
        )
        self._stamp(metadata)
        self._write(
            metadata,
            self._packed(metadata, payload),
            num_messages=len(batch),
            highest_sequence_id=batch[-1].sequence_id,
        )

    def _send_alone(self, one: Outgoing) -> None:
        """A large message: in chunks, each an entry of its own (PIP-37)."""
        metadata = pb.MessageMetadata(
            producer_name=self.name,
            sequence_id=one.sequence_id,
            publish_time=self._clock.wall_ms(),
        )
        _describe(metadata, one)
        self._stamp(metadata)
        payload = self._packed(metadata, one.value or b"")
        room = self._link.message_size_max - OVERHEAD_SIZE
        count = max(1, -(-len(payload) // room))
        if count == 1:
            self._write(metadata, payload)
            return
        metadata.uuid = f"{self.name}-{one.sequence_id}"
        metadata.num_chunks_from_msg = count
        metadata.total_chunk_msg_size = len(payload)
        for chunk_id in range(count):
            metadata.chunk_id = chunk_id
            self._write(metadata, payload[chunk_id * room : (chunk_id + 1) * room], is_chunk=True)

    def _stamp(self, metadata: pb.MessageMetadata) -> None:
        if self._schema_version:
            metadata.schema_version = self._schema_version
        if self._txn_id is not None:
            metadata.txnid_least_bits = unsigned64(self._txn_id.least)
            metadata.txnid_most_bits = unsigned64(self._txn_id.most)

    def _packed(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        if self._compression == pb.NONE or not payload:
            return payload
        metadata.compression = self._compression
        metadata.uncompressed_size = len(payload)
        return compress(self._compression, payload)

    def _write(self, metadata: pb.MessageMetadata, payload: bytes, **more: Any) -> None:
        frame = send_frame(
            self._producer_id,
            metadata.sequence_id,
            metadata.SerializeToString(),
            payload,
            txn_id=self._txn_id,
            **more,
        )
        self._unanswered += 1
        self._link.write(*frame)
        while self._unanswered > UNANSWERED_MAX:
            self._hear()

    def _hear(self) -> None:
        """Wait for a receipt."""
        before = self._unanswered
        if self._error is None:
            self._link.wait(self._connection.timeout_s)
        if self._error is not None:
            raise self._error
        if self._unanswered == before:
            raise Timeout(
                f"{self.topic}: no receipt within {self._connection.timeout_s:g} s; what was sent may "
                "be stored"
            )

    # What the connection tells.

    def receipt(self, receipt: Receipt) -> None:
        self._unanswered -= 1
        self._link.heard()

    def send_error(self, error: pb.CommandSendError) -> None:
        self._error = refusal(error.error, f"{self.topic}: {error.message}")
        self._link.heard()

    def detached(
        self, connection: client.Connection, reason: MilepostError, url: str | None
    ) -> None:
        self._error = ConnectError(f"{self.topic}: producer {self.name}: {reason}")
        self._link.heard()


def _single(one: Outgoing) -> SingleMessage:
    value = one.value or b""
    metadata = pb.SingleMessageMetadata(payload_size=len(value), sequence_id=one.sequence_id)
    _describe(metadata, one)
    return SingleMessage(metadata, value)


def _describe(metadata: Any, one: Outgoing) -> None:
    if one.key is not None:
        try:
            metadata.partition_key = one.key.decode()
        except UnicodeDecodeError:
            metadata.partition_key = base64.b64encode(one.key).decode()
            metadata.partition_key_b64_encoded = True
    if one.value is None:
        metadata.null_value = True
    if one.event_time is not None:
        metadata.event_time = one.event_time
    for name, item in one.properties:
        metadata.properties.add(key=name, value=item)
