"""The wire side of one consumer: subscribing, deliveries, permits, seeks.

Owns the link, the inbox and the acks on their way. What is done with a message is the consumer's
business (consumer.py), which hears of everything through `Listener`.

    subscription = Subscription(context, topic, options, listener)
    await subscription.open()
    await subscription.seek(Target.of(message_id, inclusive=True))

A seek (PIP-194): the epoch grows, everything received and everything acked but not sent is dropped, SEEK
carries the epoch, and when it is answered both sides count permits anew. A broker that closes the
consumer instead, as Apache Pulsar does, is subscribed to again, with the new epoch, before `seek`
returns. A seek that fails, is cancelled or not answered in time leaves this side a step ahead of the
broker: it subscribes again, and finds the position that holds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from milepost.client.connection.connection import Connection
from milepost.client.connection.context import Context
from milepost.client.connection.link import Link, LinkState
from milepost.client.consuming.subscribe_command import subscribe_command
from milepost.client.consuming.subscribe_options import ConsumerOptions
from milepost.client.messages.ack_sender import AckSender
from milepost.client.messages.acks import AckGroup
from milepost.client.messages.cursor_epoch import CursorEpoch
from milepost.client.messages.encryption import Opener
from milepost.client.messages.inbox import Inbox, Start, Verdict
from milepost.client.messages.seek_target import Target
from milepost.client.policies import ConsumerCryptoFailureAction
from milepost.client.schemas import Readings, schema_info
from milepost.client.transactions.transaction import Transaction
from milepost.errors import (
    AlreadyClosed,
    ConnectError,
    MilepostError,
    NotAllowed,
    NotFound,
    Timeout,
)
from milepost.positions import Position, TopicName, signed64, unsigned64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

log = logging.getLogger("milepost.client")

CHUNK_EXPIRY_TICK_S: Final = 5.0

# How often a seek is tried with a higher epoch, when an operator's reset was there first.
STALE_EPOCHS_MAX: Final = 8


class Listener(Protocol):
    """Who is told."""

    def arrived(self, count: int) -> None:
        """So many messages more are in the inbox."""
        ...

    def obey(self, verdict: Verdict) -> None:
        """What the inbox decided about an entry, beside its messages."""
        ...

    def moved(self) -> None:
        """A seek, a reset or a new subscription: what was received before comes again, or never."""
        ...

    def ended(self) -> None:
        """It will not come back; `error` says why."""
        ...


class Subscription:
    def __init__(
        self,
        context: Context,
        topic: TopicName,
        options: ConsumerOptions,
        listener: Listener,
        owner: object,
        *,
        start: Start | None = None,
        target: Target | None = None,
    ) -> None:
        self.topic = topic
        self.options = options
        self.consumer_id = context.next_id()
        self.consumer_name = options.consumer_name or context.random_name()
        # Why it is of no use any more; None while it is.
        self.error: MilepostError | None = None
        self.is_active = True
        self.has_reached_end = False
        # None: bytes are handed out as they are.
        self.readings = None if options.schema is None else Readings(options.schema)
        policy, keys = options.dead_letter_policy, options.crypto_key_reader
        self.inbox = Inbox(
            owner,
            str(topic),
            queue_size=options.receiver_queue_size,
            readings=self.readings,
            start=Target(start=start).filter if start is not None else None,
            chunked_messages_max=options.max_pending_chunked_message,
            acks_given_up_chunks=options.auto_ack_oldest_chunked_message_on_queue_full,
            chunk_expiry_ms=options.expire_time_of_incomplete_chunked_message_ms,
            redeliveries_max=policy.max_redeliver_count if policy is not None else None,
            opener=None if keys is None else Opener(keys),
            hands_out_sealed=(options.crypto_failure_action is ConsumerCryptoFailureAction.CONSUME),
        )
        self.acks = AckSender(
            self.consumer_id,
            has_receipts=options.ack_receipt_enabled,
            timeout_s=context.operation_timeout_s,
            settled=self.inbox.settled,
        )
        self._context = context
        self._listener = listener
        # Where a cursor that the broker forgets begins, until something was read. One of the two.
        self._start = start
        self._target = target
        # Where Apache Pulsar has sought it, has closed us, and keeps the cursor for who subscribes next.
        self._sought_on: Connection | None = None
        self._link = Link(
            context.lookup,
            str(topic),
            f"consumer of {topic} by {options.subscription_name}",
            self._open_on,
            self._end,
            backoff=context.backoff(),
            clock=context.clock,
        )
        self._attached = asyncio.Event()
        # Counts subscriptions: a seek that finds it moved on was closed by the broker.
        self._attachments = 0
        self._cursor_epoch = CursorEpoch()
        self._seeking = asyncio.Lock()
        self._chunk_timer: asyncio.TimerHandle | None = None
        self._is_one_asked = False

    # -- open and close ------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self._link.state is LinkState.ATTACHED

    @property
    def state(self) -> str:
        return self._link.state.value if self.error is None else "closed"

    async def open(self) -> None:
        try:
            await self._link.open(self._context.operation_timeout_s)
        except BaseException:
            self._end(AlreadyClosed(f"the consumer of {self.topic} was never opened"))
            raise

    async def close(self) -> None:
        """Send what is acked, leave, and be of no use any more."""
        if self.error is not None:
            return
        # Also one on which it is being opened: the broker would keep the consumer.
        connection = self._link.connection
        try:
            if self.is_connected:
                async with asyncio.timeout(self._context.operation_timeout_s):
                    await self.acks.drain()
        except TimeoutError:
            log.info("closing the consumer of %s: acks were not answered", self.topic)
        finally:
            await self._part(connection, AlreadyClosed(f"the consumer of {self.topic} is closed"))

    async def _part(self, connection: Connection | None, error: MilepostError) -> None:
        self._end(error)
        await self._link.close()
        if connection is None or connection.error is not None:
            return
        connection.consumers.pop(self.consumer_id, None)
        try:
            await connection.request(
                pb.CommandCloseConsumer(consumer_id=self.consumer_id, request_id=0),
                self._context.operation_timeout_s,
            )
        except MilepostError as failure:
            log.info("closing the consumer of %s: %s", self.topic, failure)

    async def unsubscribe(self, *, force: bool) -> None:
        command = pb.CommandUnsubscribe(consumer_id=self.consumer_id, request_id=0)
        if force:
            command.force = True
        await self.request(command)
        await self._part(None, AlreadyClosed(f"the consumer of {self.topic} has unsubscribed"))

    def _end(self, error: MilepostError) -> None:
        if self.error is not None:
            return
        self.error = error
        if self._chunk_timer is not None:
            self._chunk_timer.cancel()
        self.acks.close(error)
        self._attached.set()  # the waiting caller finds the error
        self._listener.ended()

    def check(self) -> None:
        """Raise why it is of no use, if it is not."""
        self._context.check()
        if self.error is not None:
            raise self.error

    # -- the link ------------------------------------------------------------------------------------

    async def _open_on(self, connection: Connection) -> None:
        self.inbox.detach()
        self._listener.moved()
        if self._target is not None and self.inbox.last_taken is None:
            found = await self._context.resolve(self.topic, self._target, connection)
            if found.start is not None:  # an index, on a broker that knows ids only
                self._start, self._target, self.inbox.start = found.start, None, found.filter
        connection.consumers[self.consumer_id] = self
        is_sought, self._sought_on = self._sought_on is connection, None
        try:
            answer = await connection.request(
                subscribe_command(
                    self.options,
                    topic=str(self.topic),
                    consumer_id=self.consumer_id,
                    consumer_name=self.consumer_name,
                    # "Consumer reconnect need reset epoch": the broker's count begins with ours.
                    epoch=self.inbox.epoch,
                    cursor_epoch=self._cursor_epoch.known,
                    start=None if self.options.is_durable else self._resume(),
                ),
                self._context.operation_timeout_s,
            )
            if self.options.is_durable:  # any other cursor went with its connection
                self._cursor_epoch.subscribed(answer)
            if self._target is not None and not is_sought:
                epoch = self.inbox.begin_seek(None)
                self.acks.begin_epoch(epoch)
                await connection.request(
                    self._seek_command(self._target, epoch), self._context.operation_timeout_s
                )
                if self.consumer_id not in connection.consumers:
                    self._sought_on = connection
            if connection.consumers.get(self.consumer_id) is not self:
                raise ConnectError(f"{self.topic} was closed while it was opened")
        except Timeout:
            # The broker may still take the request up, and then refuse others for the sake of this one.
            self._leave(connection)
            raise
        except BaseException:
            connection.consumers.pop(self.consumer_id, None)
            raise
        self._attachments += 1
        self.acks.attached(connection)
        self._is_one_asked = False
        self._flow(connection, self.inbox.restart_permits())
        self._attached.set()
        if self._chunk_timer is None:
            self._expire_chunks()

    def _resume(self) -> Start | None:
        """Where a cursor that the broker forgot begins again."""
        taken = self.inbox.last_taken
        if taken is not None:
            self._target = None
            self._start = self.inbox.start = Start(taken.message_id(), False)
        return self._start

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        self._attached.clear()
        self.inbox.detach()
        self.acks.detached()
        self._link.detached(connection, reason, url)

    def _reattach(self, connection: Connection) -> None:
        """Leave and subscribe again: what the broker thinks of us is not known."""
        if self._link.connection is not connection or connection.error is not None:
            return
        self._leave(connection)
        self.detached(connection, ConnectError("a seek was left open"), None)

    def _leave(self, connection: Connection) -> None:
        """Without waiting for the answer."""
        connection.consumers.pop(self.consumer_id, None)
        if connection.error is None:
            left = connection.ask(
                pb.CommandCloseConsumer(consumer_id=self.consumer_id, request_id=0)
            )
            left.add_done_callback(_seen)

    async def connection(self) -> Connection:
        """The connection on which we are subscribed, once we are."""
        while True:
            self.check()
            connection = self._link.connection
            if connection is None:
                self._attached.clear()
            elif self._attached.is_set():
                return connection
            await self._attached.wait()

    async def acknowledge_in(self, txn: Transaction, group: AckGroup) -> None:
        """Have acks taken into a transaction, once it has heard of this subscription."""
        timeout_s = self._context.operation_timeout_s
        # It has a time-out of its own, which says what kept the coordinator from it.
        name = self.options.subscription_name
        await asyncio.shield(txn.add_subscription(str(self.topic), name))
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self.connection()
                await asyncio.gather(*self.acks.ask_in(txn.id, group, connection))
        except TimeoutError:
            raise Timeout(f"{self.topic}: no answer to an ack in {timeout_s:g} s") from None

    async def request(self, command: Any) -> Any:
        """A request that may be repeated, as often as connections are lost, until its time is up."""
        timeout_s = self._context.operation_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    connection = await self.connection()
                    try:
                        return await connection.request(command, None)
                    except ConnectError:
                        self.check()
        except TimeoutError:
            name = type(command).__name__.removeprefix("Command")
            raise Timeout(f"{self.topic}: {name} was not answered in {timeout_s:g} s") from None

    # -- permits -------------------------------------------------------------------------------------

    def _flow(self, connection: Connection | None, permits: int) -> None:
        if permits and connection is not None:
            connection.send(pb.CommandFlow(consumer_id=self.consumer_id, messagePermits=permits))

    def return_permits(self) -> None:
        if permits := self.inbox.permits_due():
            self._flow(self._link.connection, permits)

    def ask_for_one(self) -> None:
        """Without a queue every message is asked for by itself."""
        if not self._is_one_asked and self.is_connected:
            self._is_one_asked = True
            self._flow(self._link.connection, 1)

    # -- what comes ----------------------------------------------------------------------------------

    def message(self, delivery: Delivery) -> None:
        queue = self.inbox.queue
        before = len(queue)
        verdict = self.inbox.take(delivery, self._context.clock.wall_ms())
        if verdict is not None:
            self._obey(delivery, verdict)
            before = 0 if verdict.is_reset else before
        if len(queue) > before:
            self._is_one_asked = False
            self._listener.arrived(len(queue) - before)
        self.return_permits()

    def _obey(self, delivery: Delivery, verdict: Verdict) -> None:
        if verdict.is_reset:
            self._follow()
        if verdict.unreadable is not None:
            self._ack_unreadable(delivery, verdict.unreadable)
        for position in verdict.acked:
            self.acks.gather().add_position(position)
        self._listener.obey(verdict)

    def reset(self, told: pb.CommandSeek) -> None:
        """The broker tells of an operator's reset before any message of the new epoch does."""
        epoch = signed64(told.consumer_epoch)
        self._cursor_epoch.moved(told)
        if self.inbox.follow(epoch):
            self._follow()
        connection = self._link.connection
        if connection is not None:
            obeyed = pb.CommandSeek(
                consumer_id=self.consumer_id, request_id=0, consumer_epoch=epoch
            )
            connection.ask(obeyed).add_done_callback(_seen)
        self.return_permits()

    def _follow(self) -> None:
        log.info("%s was reset by an operator: epoch %d", self.topic, self.inbox.epoch)
        self.acks.begin_epoch(self.inbox.seek_epoch)
        self._target = self._start = None
        self._listener.moved()

    def _ack_unreadable(self, delivery: Delivery, error: int) -> None:
        connection = self._link.connection
        discards = self.options.crypto_failure_action is ConsumerCryptoFailureAction.DISCARD
        if connection is None or (error == pb.CommandAck.DecryptionError and not discards):
            return  # a consumer with the key may read it
        connection.send(
            pb.CommandAck(
                consumer_id=self.consumer_id,
                ack_type=pb.CommandAck.Individual,
                message_id=[_data(Position(delivery.ledger_id, delivery.entry_id))],
                validation_error=pb.CommandAck.ValidationError.Name(error),
            )
        )

    def active_changed(self, is_active: bool) -> None:
        self.is_active = is_active

    def end_of_topic(self) -> None:
        self.has_reached_end = True

    def _expire_chunks(self) -> None:
        for position in self.inbox.expire_chunks(self._context.clock.wall_ms()):
            self.acks.gather().add_position(position)
        loop = asyncio.get_running_loop()
        self._chunk_timer = loop.call_later(CHUNK_EXPIRY_TICK_S, self._expire_chunks)

    async def learn_schema(self, version: bytes) -> None:
        """Ask which schema a version is, so that what was written with it can be read."""
        assert self.readings is not None
        command = pb.CommandGetSchema(
            request_id=0, topic=str(self.topic.base), schema_version=version
        )
        try:
            answer: pb.CommandGetSchemaResponse = await self.request(command)
        except NotFound:
            self.readings.learn(version, None)
        else:
            self.readings.learn(version, schema_info(answer.schema))

    # -- redelivery ----------------------------------------------------------------------------------

    def redeliver(self, positions: list[Position]) -> None:
        """Ask for these entries again; on Exclusive and Failover that is to ask for all."""
        connection = self._link.connection
        if connection is None or not self.is_connected:
            return  # everything comes again by itself
        if not self.options.is_shared or not positions:
            self.redeliver_all()
            return
        connection.send(
            pb.CommandRedeliverUnacknowledgedMessages(
                consumer_id=self.consumer_id, message_ids=[_data(one) for one in positions]
            )
        )

    def redeliver_all(self) -> None:
        """Ask for everything again that was received and not acked (PIP-84)."""
        connection = self._link.connection
        if connection is None or not self.is_connected:
            return
        epoch = self.inbox.begin_redelivery()
        connection.send(
            pb.CommandRedeliverUnacknowledgedMessages(
                consumer_id=self.consumer_id, consumer_epoch=epoch
            )
        )
        self._is_one_asked = False
        self.return_permits()

    # -- seek ----------------------------------------------------------------------------------------

    def _seek_command(self, target: Target, epoch: int) -> pb.CommandSeek:
        command = pb.CommandSeek(consumer_id=self.consumer_id, request_id=0, consumer_epoch=epoch)
        target.fill(command)
        return command

    async def seek(self, target: Target) -> None:
        """Go there. Seeks are done one after the other: the last one wins, and all return."""
        self.check()
        timeout_s = self._context.operation_timeout_s
        try:
            async with asyncio.timeout(timeout_s), self._seeking:
                await self._seek(target)
        except TimeoutError:
            raise Timeout(f"{self.topic}: seek to {target} took over {timeout_s:g} s") from None

    async def _seek(self, target: Target) -> None:
        for _ in range(STALE_EPOCHS_MAX):
            connection = await self.connection()
            found = await self._context.resolve(self.topic, target, connection)
            connection = await self.connection()
            attachments = self._attachments
            epoch = self.inbox.begin_seek(found.filter)
            self.acks.begin_epoch(epoch)
            self._listener.moved()
            try:
                answer = await connection.request(self._seek_command(found, epoch), None)
                self._cursor_epoch.moved(answer)
            except ConnectError:
                continue  # unknown whether it was done: do it again
            except NotAllowed as error:
                if "epoch" in str(error):
                    continue  # an operator's reset was there first
                self._reattach(connection)
                raise
            except BaseException:
                self._reattach(connection)
                raise
            self._start, self._target = (found.start, None) if found.start else (None, found)
            if self.options.is_durable:
                self._start = self._target = None
            self._sought_on = None if self._attached.is_set() else connection
            if self._attachments == attachments and self._attached.is_set():
                self._is_one_asked = False
                self._flow(connection, self.inbox.restart_permits())
            else:
                await self.connection()
            return
        raise Timeout(f"{self.topic}: seek to {target} was overtaken {STALE_EPOCHS_MAX} times")


def _seen(answer: asyncio.Future[Any]) -> None:
    """Whatever the answer is, no caller waits for it."""
    if not answer.cancelled():
        answer.exception()


def _data(position: Position) -> pb.MessageIdData:
    return pb.MessageIdData(
        ledgerId=unsigned64(position.ledger_id), entryId=unsigned64(position.entry_id)
    )
