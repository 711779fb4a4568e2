"""`Consumer` of one topic or partition: what users call.

The subscription (subscription.py) brings messages and takes acks to the broker; here is who waits for
them, what an ack of a message means, and what is asked for again.

    consumer = await client.subscribe("orders", "billing")
    message = await consumer.receive()
    await consumer.acknowledge(message)         # returns when the ack is on disk

All of it belongs to one event loop, and every wait may be cancelled: a message that no caller took stays in
the inbox, an ack on its way goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from milepost.client.connection.context import Context
from milepost.client.consuming.receiving import DONE, Done, Receiving
from milepost.client.consuming.subscribe_options import ConsumerOptions
from milepost.client.consuming.subscription import Subscription
from milepost.client.messages.acks import AckGroup, cumulative_data
from milepost.client.messages.inbox import Start, Verdict
from milepost.client.messages.message import Message
from milepost.client.messages.redelivery import Redeliveries
from milepost.client.messages.seek_target import Target
from milepost.client.statistics import ConsumerStatistics
from milepost.client.transactions.transaction import Transaction, check_transaction
from milepost.errors import InvalidInput, InvalidMessageId, NotAllowed
from milepost.positions import EARLIEST, MessageId, Position, TopicName, signed64
from milepost.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from milepost.client.consuming.dead_letters import DeadLetters

Acked = Message | MessageId


class Consumer(Receiving):
    def __init__(
        self,
        context: Context,
        topic: TopicName,
        options: ConsumerOptions,
        *,
        start: Start | None = None,
        target: Target | None = None,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        super().__init__(options.batch_receive_policy)
        self.stats = ConsumerStatistics()
        self._context = context
        self._options = options
        self._dead_letters = dead_letters
        self._subscription = Subscription(
            context, topic, options, self, self, start=start, target=target
        )
        self._inbox = self._subscription.inbox
        self._acks = self._subscription.acks
        # Negative acks that wait out their delay, and messages whose ack is overdue by then.
        self._later = Redeliveries()
        self._overdue = Redeliveries()
        self._timer: asyncio.TimerHandle | None = None

    # -- what it is ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Consumer of {self.topic()} by {self.subscription_name()}, {self._subscription.state}>"

    def topic(self) -> str:
        return str(self._subscription.topic)

    def subscription_name(self) -> str:
        return self._options.subscription_name

    def consumer_name(self) -> str:
        return self._subscription.consumer_name

    def is_connected(self) -> bool:
        return self._subscription.is_connected

    @property
    def is_active(self) -> bool:
        """Of a Failover subscription: whether this consumer is the one that gets messages."""
        return self._subscription.is_active

    @property
    def has_reached_end(self) -> bool:
        """The topic is terminated, and the subscription has acked everything."""
        return self._subscription.has_reached_end

    # -- open and close ------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._subscription.open()

    async def close(self) -> None:
        """Send what is acked, leave the subscription; closing twice changes nothing."""
        await self.close_others()
        await self._subscription.close()

    async def unsubscribe(self, force: bool = False) -> None:
        """Delete the subscription, and close."""
        self._subscription.check()
        await self._subscription.unsubscribe(force=force)

    # -- what the subscription tells -----------------------------------------------------------------

    def arrived(self, count: int) -> None:
        self.waiters.wake(count)

    def obey(self, verdict: Verdict) -> None:
        if verdict.unreadable is not None:
            self.stats.unreadable += 1
        if verdict.released:
            delay_ms = self._options.negative_ack_redelivery_delay_ms
            self._ask_later(verdict.released[0], delay_ms, verdict.released)
        if self._options.is_durable:
            # A seek behind a message: it is done with, on the broker too.
            for message in verdict.skipped:
                self._settle(message)
        if verdict.dead:
            assert self._dead_letters is not None
            self.stats.dead_letters += len(verdict.dead)
            self._dead_letters.bury(self, verdict.dead)

    def moved(self) -> None:
        self._later.clear()
        self._overdue.clear()

    def ended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.waiters.wake_all()

    # -- receive -------------------------------------------------------------------------------------

    def check(self) -> None:
        self._subscription.check()

    def is_ready(self) -> bool:
        return bool(self._inbox.queue)

    def poll(self) -> Message | None:
        if not self._inbox.queue:
            return None
        message = self._inbox.pop()
        self._subscription.return_permits()
        if message is None:
            return None  # copies of what was acked meanwhile
        stats = self.stats
        stats.messages_received += 1
        stats.bytes_received += len(message.data())
        if self._options.unacked_messages_timeout_ms is not None:
            due_s = self._now_s() + self._options.unacked_messages_timeout_ms / 1000
            self._overdue.add(message.entry.position, due_s, message.entry.chunks)
            self._arm()
        return message

    def lacks_schema(self, message: Message) -> bool:
        readings = self._subscription.readings
        return readings is not None and readings.lacks(message.schema_version())

    async def learn_schema(self, message: Message) -> None:
        await self._subscription.learn_schema(message.schema_version())

    def demand(self) -> None:
        if self._options.receiver_queue_size == 0:
            self._subscription.ask_for_one()

    # -- acknowledge ---------------------------------------------------------------------------------

    async def acknowledge(
        self, message: Acked | Iterable[Acked], *, txn: Transaction | None = None
    ) -> None:
        """Ack a message, an id, or many of them; returns when that is on disk.

        Acking twice changes nothing, and neither does acking what was received before a seek. With
        `txn` the ack counts when that transaction is committed; if it is aborted the messages come
        again. What another transaction has acked is `TransactionConflict`.
        """
        await asyncio.shield(self.acknowledge_nowait(message, txn=txn))

    def acknowledge_nowait(
        self, message: Acked | Iterable[Acked], *, txn: Transaction | None = None
    ) -> asyncio.Future[None]:
        """Ack without waiting. The future is done when it is on disk; it is shared, so shield it."""
        self._subscription.check()
        if txn is not None:
            return self._acknowledge_in(txn, message)
        ids: list[MessageId] = []
        if isinstance(message, Message):
            self._settle(message)
            self.stats.acks += 1
        else:
            for one in (message,) if isinstance(message, MessageId) else message:
                if isinstance(one, Message):
                    self._settle(one)
                else:
                    self._check_id(one)
                    ids.append(one)
                self.stats.acks += 1
        receipt = self._acks.receipt()
        self._acks.enough()
        if not ids:
            return receipt
        return self._acknowledge_ids(ids)

    def _acknowledge_in(
        self, txn: Transaction, message: Acked | Iterable[Acked]
    ) -> asyncio.Future[None]:
        """Said in full and not kept here: whether it counts is decided by the transaction's end."""
        check_transaction(txn, self._context)
        group = AckGroup(self._inbox.seek_epoch)
        ids: list[MessageId] = []
        for one in (message,) if isinstance(message, Message | MessageId) else message:
            self.stats.acks += 1
            if not isinstance(one, Message):
                self._check_id(one)
                group.add_id(one)
                ids.append(one)
            elif self._is_current(one):
                self._add_message(group, one)
                ids.append(one.message_id())
        acking = self._send_in(txn, group)
        self._drop_copies(acking, ids, self._inbox.hide)
        return acking

    def _send_in(self, txn: Transaction, group: AckGroup) -> asyncio.Future[None]:
        txn.began()
        acking = asyncio.ensure_future(self._subscription.acknowledge_in(txn, group))

        def answered(answer: asyncio.Future[None]) -> None:
            # A task that was cancelled ended with its loop.
            txn.ended(asyncio.CancelledError() if answer.cancelled() else answer.exception())

        acking.add_done_callback(answered)
        return acking

    def _add_message(self, group: AckGroup, message: Message) -> None:
        entry = message.entry
        if entry.chunks:
            for position in entry.chunks:
                group.add_position(position)
        else:
            group.add_id(message.message_id())
        if not entry.batch_size:
            self._forget(entry.position)

    def _is_current(self, message: Message) -> bool:
        """Received by this consumer, and behind the latest seek."""
        entry = message.entry
        if entry.consumer is not self:
            raise InvalidMessageId(
                f"{message.message_id()} of {entry.topic} was not received by this"
                f" consumer of {self.topic()}"
            )
        return entry.epoch >= self._inbox.seek_epoch

    def _drop_copies(
        self,
        receipt: asyncio.Future[None],
        ids: list[MessageId],
        drop: Callable[[Position, int], None],
    ) -> None:
        """As the sender does for messages (ack_sender.py): copies that come before the answer."""
        epoch = self._inbox.seek_epoch

        def answered(answer: asyncio.Future[None]) -> None:
            is_acked = not answer.cancelled() and answer.exception() is None
            if is_acked and epoch == self._inbox.seek_epoch:
                for one in ids:
                    drop(one.position, one.batch_index)

        if not receipt.done():
            receipt.add_done_callback(answered)

    def _acknowledge_ids(self, ids: list[MessageId]) -> asyncio.Future[None]:
        apart = self._acks.send_apart(ids)
        for message_id in ids:
            self._inbox.acked(message_id.position, message_id.batch_index)
            self._forget(message_id.position)
        self._drop_copies(apart, ids, self._inbox.acked)
        grouped = self._acks.receipt()
        if grouped.done():
            return apart
        both = asyncio.ensure_future(_all(apart, grouped))
        both.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen
        return both

    def _settle(self, message: Message) -> None:
        entry = message.entry
        bit = 1 << message.batch_index if message.batch_index > 0 else 1
        if not self._is_current(message) or not entry.not_acked_here & bit:
            return
        entry.pending &= ~bit
        entry.hidden &= ~bit
        self._inbox.settled(entry)
        if not entry.pending:
            self._forget(entry.position)
        elif not self._options.batch_index_ack_enabled:
            return  # nothing is said of a batch before all of it is acked
        self._acks.gather().add(entry)

    async def acknowledge_cumulative(
        self,
        message: Acked | None = None,
        *,
        index: int | None = None,
        txn: Transaction | None = None,
    ) -> None:
        """Ack everything up to and with a message, an id or an index; returns when that is on disk.

        With `txn` it counts when that transaction is committed.
        """
        self._subscription.check()
        if self._options.is_shared:
            kind = self._options.consumer_type.name
            raise NotAllowed(f"{self.subscription_name()} is {kind}: it takes no cumulative acks")
        if (message is None) == (index is None):
            raise InvalidInput("a cumulative ack names a message or an index: give one")
        seek_epoch = self._inbox.seek_epoch
        if isinstance(message, Message):
            seek_epoch = message.entry.epoch
            message = message.message_id()
        elif index is not None:
            message = await self._context.id_by_index(self._subscription.topic, index)
        assert message is not None
        if seek_epoch < self._inbox.seek_epoch or message == EARLIEST:
            return  # a seek was later, or nothing up to there is left
        self._check_id(message)
        self.stats.acks += 1
        if txn is not None:
            check_transaction(txn, self._context)
            group = AckGroup(seek_epoch)
            group.add_cumulative(cumulative_data(message, batch_index_ack=True))
            await asyncio.shield(self._send_in(txn, group))
            return
        data = cumulative_data(message, batch_index_ack=self._options.batch_index_ack_enabled)
        self._acks.gather().add_cumulative(data)
        self._inbox.acked_through(message)
        await asyncio.shield(self._acks.receipt())

    def _check_id(self, message_id: object) -> None:
        """A partition's number tells an id of another partition; no number tells it of another topic."""
        if not isinstance(message_id, MessageId):
            raise InvalidMessageId(f"{type(message_id).__name__} is no message and no message id")
        partition = self._subscription.topic.partition
        if message_id.partition not in (-1, partition):
            raise InvalidMessageId(
                f"{message_id} is of partition {message_id.partition}, not of {self.topic()}"
            )

    # -- redelivery ----------------------------------------------------------------------------------

    def negative_acknowledge(self, message: Acked) -> Done:
        """Ask for a message again, after the delay: all of it, were it chunked. Need not be awaited."""
        self._subscription.check()
        self.stats.negative_acks += 1
        delay_ms = self._options.negative_ack_redelivery_delay_ms
        if not isinstance(message, Message):
            self._check_id(message)
            self._ask_later(message.position, delay_ms, ())
            return DONE
        entry = message.entry
        if entry.epoch < self._inbox.seek_epoch:
            return DONE
        if self._options.negative_ack_backoff is not None:
            delay_ms = self._options.negative_ack_backoff.delay_ms(entry.redelivery_count)
        self._ask_later(entry.position, delay_ms, entry.chunks)
        return DONE

    def redeliver_unacknowledged_messages(self) -> None:
        """Ask for everything again that was received and not acked."""
        self._subscription.check()
        self.moved()
        self._subscription.redeliver_all()

    async def reconsume_later(self, message: Message, delay_ms: int) -> None:
        """Send a message to the retry topic, to come again after a delay, and ack it here; with
        `retry_enabled` this consumer reads that topic too."""
        self._subscription.check()
        if self._dead_letters is None or not self._options.retry_enabled:
            raise NotAllowed(f"{self.subscription_name()} was made without retry_enabled")
        await self._dead_letters.send_later(self, message, delay_ms)

    def _ask_later(
        self, position: Position, delay_ms: int, positions: tuple[Position, ...]
    ) -> None:
        self._overdue.discard(position)
        self._later.add(position, self._now_s() + delay_ms / 1000, positions)
        self._arm()

    def _forget(self, position: Position) -> None:
        if len(self._later):
            self._later.discard(position)
        if len(self._overdue):
            self._overdue.discard(position)

    def _now_s(self) -> float:
        return self._context.clock.monotonic()

    def _arm(self) -> None:
        """Wake when the next one is due."""
        dues = [
            due_s
            for due_s in (self._later.next_due_s, self._overdue.next_due_s)
            if due_s is not None
        ]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if dues:
            delay_s = max(min(dues) - self._now_s(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._redeliver_due)

    def _redeliver_due(self) -> None:
        self._timer = None
        now_s = self._now_s()
        positions = self._later.take_due(now_s) + self._overdue.take_due(now_s)
        if positions:
            self.stats.redeliveries_asked += len(positions)
            if not self._options.is_shared:
                # One consumer in order: to have one message again is to have all behind it again.
                self.moved()
            self._subscription.redeliver(positions)
        self._arm()

    # -- positions -----------------------------------------------------------------------------------

    async def seek(
        self,
        messageid: MessageId | int | None = None,
        *,
        timestamp: int | None = None,
        index: int | None = None,
    ) -> None:
        """Go to a message id, a publish time in milliseconds, or an index; exact inside a batch.

        An id means behind its message, unless the consumer was made with
        `start_message_id_inclusive`; a time means the first message not before it, an index the
        message that has it. Returns when the new position is on disk.
        """
        inclusive = self._options.start_message_id_inclusive
        target = Target.of(messageid, timestamp=timestamp, index=index, inclusive=inclusive)
        await self._subscription.seek(target)

    async def get_last_message_id(self) -> MessageId:
        """The newest message of the topic; −1:−1 if there is none."""
        return (await self._last_ids())[0]

    async def has_message_available(self) -> bool:
        """Whether there is something to receive between here and the end of the topic."""
        self._subscription.check()
        if self._inbox.queue:
            return True
        last, mark_delete = await self._last_ids()
        if last.entry_id < 0:
            return False
        taken = self._inbox.last_taken
        if taken is not None:
            at = Start(taken.message_id(), False)
        elif self._inbox.start is not None:
            at = self._inbox.start
        elif mark_delete is None:
            return True
        else:
            return last.position > mark_delete
        if at.message_id == EARLIEST:
            return True
        return at.admits(last.ledger_id, last.entry_id, last.batch_index)

    async def _last_ids(self) -> tuple[MessageId, Position | None]:
        self._subscription.check()
        answer: pb.CommandGetLastMessageIdResponse = await self._subscription.request(
            pb.CommandGetLastMessageId(consumer_id=self._subscription.consumer_id, request_id=0)
        )
        last = answer.last_message_id
        size = last.batch_size or (last.batch_index + 1 if last.batch_index >= 0 else 0)
        message_id = MessageId(
            signed64(last.ledgerId),
            signed64(last.entryId),
            self._subscription.topic.partition,
            last.batch_index,
            size,
        )
        if not answer.HasField("consumer_mark_delete_position"):
            return message_id, None
        mark = answer.consumer_mark_delete_position
        return message_id, Position(signed64(mark.ledgerId), signed64(mark.entryId))

    async def broker_stats(self) -> pb.CommandConsumerStatsResponse:
        """The broker's view of this consumer: backlog, unacked messages, permits."""
        self._subscription.check()
        answer: pb.CommandConsumerStatsResponse = await self._subscription.request(
            pb.CommandConsumerStats(consumer_id=self._subscription.consumer_id, request_id=0)
        )
        return answer


async def _all(*receipts: asyncio.Future[None]) -> None:
    """Wait for all of them, whatever each says, then say what the first failure was."""
    await asyncio.wait(receipts)
    for receipt in receipts:
        receipt.result()
