"""Messages that wait for their receipts.

`Outgoing` is one message as given. `PendingEntry` is one SEND: a message, a batch or a chunk; it keeps
its frame until the receipt, so that it can be sent again on another connection. `Sent` is what the user
holds: await it for the id.

    sent = producer.send_nowait(b"hello")
    message_id = await sent                     # stored

A caller need not await: a failure that it does not ask for is counted and logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from milepost.client.transactions.transaction import Transaction
from milepost.errors import MilepostError
from milepost.positions import ChunkMessageId, MessageId, Position, TxnId, unsigned64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import Buffer


class Outgoing(NamedTuple):
    """One message, as its user gave it."""

    payload: bytes
    sequence_id: int
    properties: dict[str, str] | None = None
    partition_key: str | None = None
    ordering_key: bytes | None = None
    event_timestamp: int | None = None
    deliver_at_ms: int | None = None
    replication_clusters: list[str] | None = None
    is_null: bool = False
    is_binary_key: bool = False
    """The key is the base64 of bytes."""
    transaction: Transaction | None = None

    @property
    def txn_id(self) -> TxnId | None:
        return None if self.transaction is None else self.transaction.id

    @property
    def is_plain(self) -> bool:
        """Nothing but a payload: most messages."""
        return self[2:10] == _PLAIN

    def single_metadata(self) -> pb.SingleMessageMetadata:
        """As one of a batch."""
        single = pb.SingleMessageMetadata(payload_size=len(self.payload))
        self._fill(single)
        single.sequence_id = self.sequence_id
        return single

    def metadata(self, producer_name: str, publish_time: int) -> pb.MessageMetadata:
        """As an entry of its own."""
        metadata = pb.MessageMetadata(
            producer_name=producer_name, sequence_id=self.sequence_id, publish_time=publish_time
        )
        self._fill(metadata)
        name_transaction(metadata, self.txn_id)
        if self.deliver_at_ms is not None:
            metadata.deliver_at_time = self.deliver_at_ms
        if self.replication_clusters is not None:
            metadata.replicate_to.extend(self.replication_clusters)
        return metadata

    def _fill(self, metadata: pb.SingleMessageMetadata | pb.MessageMetadata) -> None:
        for key, value in (self.properties or {}).items():
            metadata.properties.add(key=key, value=value)
        if self.partition_key is not None:
            metadata.partition_key = self.partition_key
            if self.is_binary_key:
                metadata.partition_key_b64_encoded = True
        if self.ordering_key is not None:
            metadata.ordering_key = self.ordering_key
        if self.event_timestamp is not None:
            metadata.event_time = self.event_timestamp
        if self.is_null:
            metadata.null_value = True


_PLAIN = (None, None, None, None, None, None, False, False)


def name_transaction(metadata: pb.MessageMetadata, txn_id: TxnId | None) -> None:
    """Readers of the log go by the metadata: the command beside it is not stored."""
    if txn_id is not None:
        metadata.txnid_least_bits = unsigned64(txn_id.least)
        metadata.txnid_most_bits = unsigned64(txn_id.most)


class PendingEntry:
    """One SEND and everyone who waits for its receipt."""

    __slots__ = (
        "_callbacks",
        "_waiters",
        "count",
        "error",
        "first_chunk",
        "frame",
        "highest_sequence_id",
        "is_batch",
        "is_done",
        "partition",
        "position",
        "sequence_id",
        "since_s",
        "size_bytes",
        "transaction",
    )

    def __init__(
        self,
        sequence_id: int,
        partition: int,
        since_s: float,
        transaction: Transaction | None = None,
    ) -> None:
        self.sequence_id = sequence_id
        self.highest_sequence_id = sequence_id
        self.partition = partition
        # When its first message was given: the send timeout counts from here.
        self.since_s = since_s
        self.transaction = transaction
        self.count = 1
        self.size_bytes = 0
        self.is_batch = False
        # The whole frame, in buffers. Empty until it is sealed, and again when it is done.
        self.frame: list[Buffer] = []
        # Of the last chunk: the first one. All chunks are settled together.
        self.first_chunk: PendingEntry | None = None
        self.is_done = False
        # Invariant: when done, exactly one of the two is set (a chunk before the last has a position).
        self.position: Position | None = None
        self.error: MilepostError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._callbacks: list[tuple[Callable[[Sent], None], int]] = []

    def settle(self, position: Position | None, error: MilepostError | None = None) -> None:
        assert not self.is_done, f"sequence id {self.sequence_id} is settled already"
        self.is_done = True
        self.position = position
        self.error = error
        self.frame = []
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        if self.transaction is not None:
            self.transaction.ended(error)
        callbacks, self._callbacks = self._callbacks, []
        for callback, batch_index in callbacks:
            callback(Sent(self, batch_index))

    def message_id(self, batch_index: int) -> MessageId:
        assert self.position is not None
        size = self.count if self.is_batch else 0
        message_id = MessageId(*self.position, self.partition, batch_index, size)
        if self.first_chunk is None or self.first_chunk.position is None:
            return message_id
        first = MessageId(*self.first_chunk.position, self.partition)
        # A duplicate is answered without a position.
        return message_id if first.ledger_id < 0 else ChunkMessageId(first, message_id)

    async def wait(self) -> None:
        if not self.is_done:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def when_done(self, callback: Callable[[Sent], None], batch_index: int) -> None:
        if self.is_done:
            callback(Sent(self, batch_index))
        else:
            self._callbacks.append((callback, batch_index))


class Sent:
    """A message on its way. Await it for the id under which it is stored, or for what went wrong."""

    __slots__ = ("_batch_index", "_entry")

    def __init__(self, entry: PendingEntry, batch_index: int) -> None:
        self._entry = entry
        self._batch_index = batch_index

    def __await__(self) -> Generator[Any, None, MessageId]:
        yield from self._entry.wait().__await__()
        return self.result()

    def done(self) -> bool:
        return self._entry.is_done

    def result(self) -> MessageId:
        """The id; raises what went wrong. Only when it is done."""
        if self._entry.error is not None:
            raise self._entry.error
        return self._entry.message_id(self._batch_index)

    def exception(self) -> MilepostError | None:
        return self._entry.error

    @property
    def sequence_id(self) -> int:
        return self._entry.sequence_id + max(self._batch_index, 0)

    def add_done_callback(self, callback: Callable[[Sent], None]) -> None:
        """Call when it is stored or has failed; at once if that is so already."""
        self._entry.when_done(callback, self._batch_index)
