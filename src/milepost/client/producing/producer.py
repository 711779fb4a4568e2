"""`Producer` of one topic or partition.

Gives sequence ids, gathers batches, sends what is packed (packer.py), and keeps what has no receipt, in
order: receipts come in order, and after a reconnect everything without one is sent again in that order,
with the same sequence ids.

    producer = await client.create_producer("orders", batching_enabled=True)
    message_id = await producer.send(b"one")            # stored
    sent = [await producer.enqueue(b"many") for _ in range(1000)]
    ids = [await one for one in sent]

`send` waits for the receipt, `enqueue` for room among the messages that have none, `send_nowait` for
nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from datetime import timedelta
from typing import Any

from milepost.client.connection.connection import Connection
from milepost.client.connection.context import Context
from milepost.client.connection.link import Link, LinkState
from milepost.client.connection.refusals import refusal
from milepost.client.consuming.waiters import Waiters
from milepost.client.policies import BatchingType
from milepost.client.producing.batcher import Batch, Batcher
from milepost.client.producing.outgoing import Outgoing, PendingEntry, Sent
from milepost.client.producing.packer import Packed, Packer
from milepost.client.producing.producer_command import producer_command
from milepost.client.producing.producer_options import ProducerOptions
from milepost.client.schemas import encode
from milepost.client.signatures import like
from milepost.client.statistics import ProducerStatistics
from milepost.client.transactions.transaction import Transaction, check_transaction
from milepost.errors import (
    AlreadyClosed,
    ClientError,
    ConnectError,
    InvalidInput,
    MilepostError,
    PersistenceError,
    ProducerQueueIsFull,
    Timeout,
)
from milepost.positions import MessageId, Position, TopicName, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt
from milepost.wire.scanners.encode import send_frame

log = logging.getLogger("milepost.client")


class Producer:
    def __init__(self, context: Context, topic: TopicName, options: ProducerOptions) -> None:
        self.stats = ProducerStatistics()
        self._context = context
        self._topic = topic
        self._options = options
        self._id = context.next_id()
        self._name = options.producer_name or ""
        self._loop = asyncio.get_running_loop()
        self._link = Link(
            context.lookup,
            str(topic),
            f"producer of {topic}",
            self._open_on,
            self._end,
            backoff=context.backoff(),
            clock=context.clock,
        )
        self._error: MilepostError | None = None
        # The sequence id of the next message. Set when the broker has told what it knows.
        self._next_sequence_id = options.initial_sequence_id or 0
        self._last_sequence_id = self._next_sequence_id - 1
        self._has_published = options.initial_sequence_id is not None
        self._epoch = 0
        self._topic_epoch: int | None = None
        self._packer = Packer(options, context.clock)
        # Sealed entries without a receipt, oldest first.
        self._pending: deque[PendingEntry] = deque()
        # Messages without a receipt, batched or sealed. Invariant: ≤ max_pending_messages.
        self._count = 0
        # Entries that wait until a transaction has this topic, and all behind them: order is kept.
        # Invariant: the last ones of `_pending`.
        self._held: deque[PendingEntry] = deque()
        self._awaited: asyncio.Task[None] | None = None
        self._batcher: Batcher | None = None
        if options.batches:
            self._batcher = Batcher(
                messages_max=options.batching_max_messages,
                size_max=options.batching_max_allowed_size_in_bytes,
                by_key=options.batching_type is BatchingType.KeyBased,
            )
        self._batch_timer: asyncio.TimerHandle | None = None
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._room = Waiters()

    # -- what it is ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        state = self._link.state.value if self._error is None else "closed"
        return f"<Producer {self._name} of {self._topic}, {state}>"

    def topic(self) -> str:
        return str(self._topic)

    def producer_name(self) -> str:
        return self._name

    def last_sequence_id(self) -> int:
        """The highest that is known to be stored; −1 if none is."""
        return self._last_sequence_id

    def is_connected(self) -> bool:
        return self._link.state is LinkState.ATTACHED

    # -- open and close ------------------------------------------------------------------------------

    async def open(self) -> None:
        try:
            await self._link.open(self._context.operation_timeout_s)
        except BaseException:
            self._end(AlreadyClosed(f"the producer of {self._topic} was never opened"))
            raise

    async def close(self) -> None:
        """Send what is batched, wait for receipts, leave; closing twice changes nothing."""
        if self._error is not None:
            return
        # Also one on which it is being opened: the broker would keep the producer.
        connection = self._link.connection
        try:
            if self.is_connected():
                async with asyncio.timeout(self._context.operation_timeout_s):
                    await self.flush()
        except (TimeoutError, MilepostError) as error:
            log.info("closing the producer of %s: %s", self._topic, error)
        finally:
            self._end(AlreadyClosed(f"the producer of {self._topic} is closed"))
            await self._link.close()
            await self._part(connection)

    async def _part(self, connection: Connection | None) -> None:
        if connection is None or connection.error is not None:
            return
        connection.producers.pop(self._id, None)
        try:
            await connection.request(
                pb.CommandCloseProducer(producer_id=self._id, request_id=0),
                self._context.operation_timeout_s,
            )
        except MilepostError as error:
            log.info("closing the producer of %s: %s", self._topic, error)

    def _end(self, error: MilepostError) -> None:
        """Fail whatever waits, and everything from now on."""
        if self._error is not None:
            return
        self._error = error
        for timer in (self._batch_timer, self._timeout_timer):
            if timer is not None:
                timer.cancel()
        batches = self._batcher.take_all() if self._batcher is not None else []
        for entry in (*self._pending, *(batch.entry for batch in batches)):
            self._fail(entry, error)
        self._pending.clear()
        self._held.clear()
        self._room.wake_all()

    def _check(self) -> None:
        self._context.check()
        if self._error is not None:
            raise self._error

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # -- the link ------------------------------------------------------------------------------------

    async def _open_on(self, connection: Connection) -> None:
        command = producer_command(
            self._options,
            topic=str(self._topic),
            producer_id=self._id,
            producer_name=self._name,
            epoch=self._epoch,
            topic_epoch=self._topic_epoch,
        )
        connection.producers[self._id] = self
        try:
            # Another may have the topic for long: who asked to wait for it waits.
            answer = await connection.request(command, self._open_timeout_s())
        except Timeout:
            # The broker may still take the request up, and then refuse others for the sake of this one.
            self._leave(connection)
            raise
        except BaseException:
            connection.producers.pop(self._id, None)
            raise
        self._name = answer.producer_name
        self._epoch += 1
        if answer.HasField("topic_epoch"):
            self._topic_epoch = answer.topic_epoch
        self._packer.attached(self._name, answer.schema_version, connection.max_message_size)
        if not self._has_published:
            self._next_sequence_id = answer.last_sequence_id + 1
            self._last_sequence_id = answer.last_sequence_id
        held = self._held[0] if self._held else None
        for entry in self._pending:
            if entry is held:
                break
            connection.writelines(entry.frame)

    def _open_timeout_s(self) -> float | None:
        waits = self._options.access_mode.name == "WaitForExclusive"
        return None if waits else self._context.operation_timeout_s

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        self._link.detached(connection, reason, url)

    def _reattach(self, connection: Connection, reason: MilepostError) -> None:
        """Leave and come back: everything without a receipt is sent again, in order."""
        if self._link.connection is not connection:
            return
        self._leave(connection)
        self.detached(connection, reason, None)

    def _leave(self, connection: Connection) -> None:
        """Without waiting for the answer."""
        connection.producers.pop(self._id, None)
        if connection.error is None:
            left = connection.ask(pb.CommandCloseProducer(producer_id=self._id, request_id=0))
            left.add_done_callback(lambda answer: answer.cancelled() or answer.exception())

    # -- send ----------------------------------------------------------------------------------------

    def send_nowait(
        self,
        content: Any,
        properties: dict[str, str] | None = None,
        partition_key: str | bytes | None = None,
        ordering_key: str | bytes | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
        *,
        txn: Transaction | None = None,
    ) -> Sent:
        """Publish a message now; await what it returns for its id. A key of bytes travels as base64.

        With `txn` it is delivered when that transaction is committed, and never if it is aborted.
        """
        self._check()
        if txn is not None:
            check_transaction(txn, self._context)
        if self._count >= self._options.max_pending_messages:
            raise ProducerQueueIsFull(f"{self._count} messages of {self._topic} wait for a receipt")
        is_null = content is None
        payload = b"" if is_null else encode(self._options.schema, content)
        if deliver_after is not None:
            after_ms = int(deliver_after.total_seconds() * 1000)
            deliver_at = self._context.clock.wall_ms() + after_ms
        if disable_replication:
            replication_clusters = ["__local__"]
        message = Outgoing(
            payload,
            self._next_sequence_id if sequence_id is None else _sequence_id(sequence_id),
            properties,
            _key_text(partition_key),
            ordering_key.encode() if isinstance(ordering_key, str) else ordering_key,
            event_timestamp,
            deliver_at,
            replication_clusters,
            is_null,
            isinstance(partition_key, bytes),
            txn,
        )
        sent = self._publish(message)
        self._has_published = True
        if message.sequence_id >= self._next_sequence_id:
            self._next_sequence_id = message.sequence_id + 1
        self._count += 1
        stats = self.stats
        stats.messages_sent += 1
        stats.bytes_sent += len(payload)
        return sent

    @like(send_nowait)
    async def send(self, *args: Any, **fields: Any) -> MessageId:
        """Publish a message; returns its id when it is stored."""
        return await (await self.enqueue(*args, **fields))

    @like(send_nowait)
    async def enqueue(self, *args: Any, **fields: Any) -> Sent:
        """Publish a message as soon as there is room for it; await what it returns for the id.

        Without `block_if_queue_full` a full queue is `ProducerQueueIsFull`.
        """
        if self._options.block_if_queue_full:
            while self._count >= self._options.max_pending_messages:
                self._check()
                self._flush_batches()
                await self._room.wait(self._is_room)
        return self.send_nowait(*args, **fields)

    def _is_room(self) -> bool:
        return self._count < self._options.max_pending_messages

    def _publish(self, message: Outgoing) -> Sent:
        batcher = self._batcher
        if batcher is None:
            return self._publish_alone(message)
        if message.deliver_at_ms is not None or message.replication_clusters is not None:
            # These are said of an entry, so it has one of its own; order is kept.
            self._flush_batches()
            return self._publish_alone(message)
        if not batcher.is_room_for(message):
            self._flush_batches()
        self._packer.check(len(message.payload))
        sent = batcher.add(message, lambda: self._begin(message))
        if batcher.is_full:
            self._flush_batches()
        elif self._batch_timer is None:
            delay_s = self._options.batching_max_publish_delay_ms / 1000
            self._batch_timer = self._loop.call_later(delay_s, self._flush_batches)
        return sent

    def _begin(self, message: Outgoing) -> PendingEntry:
        """The entry of a message, or of the first of a batch."""
        txn = message.transaction
        if txn is not None:
            txn.began(self, self._flush_batches)
        now_s = self._context.clock.monotonic()
        return PendingEntry(message.sequence_id, self._topic.partition, now_s, txn)

    def _flush_batches(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._batcher is None:
            return
        for batch in self._batcher.take_all():
            self._seal_batch(batch)

    def _seal_batch(self, batch: Batch) -> None:
        try:
            packed = self._packer.batch(batch)
        except ClientError as error:
            self._fail(batch.entry, error)
        else:
            self._seal(batch.entry, packed)

    def _publish_alone(self, message: Outgoing) -> Sent:
        packed = self._packer.alone(message)
        first = entry = self._begin(message)
        for number, part in enumerate(packed):
            if number:
                entry = self._begin(message)
            if len(packed) > 1:
                # The message counts with its last chunk.
                entry.count = 1 if number == len(packed) - 1 else 0
                entry.first_chunk = first
            self._seal(entry, part)
        return Sent(entry, -1)

    def _seal(self, entry: PendingEntry, packed: Packed) -> None:
        """The entry is what it will be: send it, and keep it until its receipt."""
        highest = entry.highest_sequence_id
        entry.frame = [
            *send_frame(
                self._id,
                entry.sequence_id,
                packed.metadata,
                packed.payload,
                num_messages=entry.count if entry.is_batch else 1,
                highest_sequence_id=highest if highest > entry.sequence_id else 0,
                is_chunk=entry.first_chunk is not None,
                txn_id=None if entry.transaction is None else entry.transaction.id,
            )
        ]
        self._pending.append(entry)
        if self._timeout_timer is None and self._options.send_timeout_millis:
            self._arm_timeout(self._options.send_timeout_millis / 1000)
        self.stats.entries_sent += 1
        if self._held or entry.transaction is not None:
            self._held.append(entry)
            self._release()
        elif self.is_connected():
            assert self._link.connection is not None
            self._link.connection.writelines(entry.frame)

    def _release(self, _: object = None) -> None:
        """Send what is held, up to the first entry whose transaction is still to hear of this topic."""
        held = self._held
        connection = self._link.connection if self.is_connected() else None
        while held:
            entry = held[0]
            if entry.transaction is not None:
                adding = entry.transaction.add_partition(str(self._topic))
                if not adding.done():
                    if adding is not self._awaited:
                        self._awaited = adding
                        adding.add_done_callback(self._release)
                    return
                if (error := _failure_of(adding)) is not None:
                    held.popleft()
                    self._pending.remove(entry)
                    self._fail(entry, error)
                    continue
            held.popleft()
            if connection is not None:
                connection.writelines(entry.frame)

    async def flush(self) -> None:
        """Send what is batched and wait until everything sent so far has its receipt."""
        self._check()
        self._flush_batches()
        for entry in list(self._pending):
            await entry.wait()
            if entry.error is not None:
                raise entry.error

    # -- what the broker says ------------------------------------------------------------------------

    def receipt(self, receipt: Receipt) -> None:
        pending = self._pending
        if not pending:
            return  # of a message that timed out
        entry = pending[0]
        if not entry.sequence_id <= receipt.sequence_id <= entry.highest_sequence_id:
            self._misfit(receipt.sequence_id)
            return
        pending.popleft()
        self._count -= entry.count
        self.stats.receipts += entry.count
        if entry.highest_sequence_id > self._last_sequence_id:
            self._last_sequence_id = entry.highest_sequence_id
        entry.settle(Position(receipt.ledger_id, receipt.entry_id))
        if self._room:
            self._room.wake(entry.count)

    def _misfit(self, sequence_id: int) -> None:
        """A receipt that is not for the oldest message: late, or the two sides disagree."""
        connection = self._link.connection
        if any(entry.sequence_id == sequence_id for entry in self._pending) and connection:
            reason = ConnectError(f"receipt of sequence id {sequence_id} out of order")
            self._reattach(connection, reason)

    def send_error(self, error: pb.CommandSendError) -> None:
        failure = refusal(error.error, error.message)
        connection = self._link.connection
        if isinstance(failure, PersistenceError) and connection is not None:
            # Not stored, and nothing behind it is: all of it is sent again, in order.
            self._reattach(connection, failure)
            return
        sequence_id = signed64(error.sequence_id)
        for entry in list(self._pending):
            if entry.sequence_id == sequence_id:
                self._pending.remove(entry)
                self._fail(entry, failure)
                if entry.first_chunk is None:
                    break

    def _fail(self, entry: PendingEntry, error: MilepostError) -> None:
        self._count -= entry.count
        self.stats.failures += entry.count
        entry.settle(None, error)
        if self._room:
            self._room.wake(entry.count)

    # -- time ----------------------------------------------------------------------------------------

    def _arm_timeout(self, delay_s: float) -> None:
        self._timeout_timer = self._loop.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        """Fail what waited for its receipt too long."""
        self._timeout_timer = None
        timeout_s = self._options.send_timeout_millis / 1000
        now_s = self._context.clock.monotonic()
        while self._pending and now_s - self._pending[0].since_s >= timeout_s:
            entry = self._pending.popleft()
            if self._held and self._held[0] is entry:
                self._held.popleft()
            trouble = self._link.trouble_since(entry.since_s)
            why = "" if trouble is None else f": {trouble}"
            self._fail(entry, Timeout(f"no receipt from {self._topic} in {timeout_s:g} s{why}"))
        if self._pending:
            self._arm_timeout(max(self._pending[0].since_s + timeout_s - now_s, 0.001))


def _failure_of(adding: asyncio.Task[None]) -> MilepostError | None:
    """Why a transaction did not take a topic."""
    if adding.cancelled():
        return AlreadyClosed("the client was closed while a transaction was to hear of a topic")
    error = adding.exception()
    assert error is None or isinstance(error, MilepostError), error
    return error


def _key_text(key: str | bytes | None) -> str | None:
    return base64.b64encode(key).decode() if isinstance(key, bytes) else key


def _sequence_id(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidInput(f"sequence id {value!r} is not a number from 0 to 2^63 − 1")
    return value
