"""What consumers ask: receive, ack, change the invisible time, move to the dead letters.

A handle names one delivery. It is good while its lease lasts; after a restart of the broker, which forgets
leases, until the time that it names is over or the message was delivered again. An ack of a message that is
acked is answered with OK, one with a handle that is no longer good with INVALID_RECEIPT_HANDLE: on every
other code clients repeat an ack for ever.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.duration_pb2 import Duration

from milepost.broker.auth.operations import Operation
from milepost.broker.messages.browse import message_of as stored_message
from milepost.broker.operations import leases as broker_leases
from milepost.broker.operations.leases import Standing
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError, NotFound
from milepost.positions.names import TopicName
from milepost.positions.ranges import Range
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import BACKOFF_S, POLL_S_MAX, RECEIVE_BATCH_MAX, Clients
from milepost.rocketmq.codes import OK, Code, Refused, code_of, status
from milepost.rocketmq.consuming import subscriptions
from milepost.rocketmq.consuming.answer_size import answer_limit, fitted
from milepost.rocketmq.consuming.groups import Group, Groups, Poll
from milepost.rocketmq.consuming.leases import Lease
from milepost.rocketmq.consuming.queues import Held, Manner, Queue, manner_of
from milepost.rocketmq.durable import Done, durable
from milepost.rocketmq.filters.expressions import wanted_by
from milepost.rocketmq.handles import KEY_SIZE, PROCESS_SIZE, Handle, Signer
from milepost.rocketmq.mapping import message_of
from milepost.rocketmq.remoting.group_settings import properties_for
from milepost.rocketmq.removals.burials import Burials, Corpse
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import Sending

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

INVISIBLE_S_MIN, INVISIBLE_S_MAX = 10, 12 * 3600
# What a push consumer holds is prolonged while it lives.
PUSH_INVISIBLE_S, PUSH_RENEWS_S = 60.0, 30.0
# The answer leaves this long before the client gives up.
HEAD_START_S = 0.5
ACKS_MAX = 1024
# Clients that go on with the next message of an answer while one before it waits to be tried again.
FORGETS_ORDER = ("GO",)
# Bytes of messages that clients have asked for and do not read. Polls are refused while there are more.
UNREAD_SIZE_MAX = 64 * 1024 * 1024
# Bytes of the request of a poll, which is kept while the poll waits.
POLL_SIZE_MAX = 64 * 1024
# Topics of a client's settings that are looked at.
SETTINGS_TOPICS_MAX = 16

# In the catalog.
FOLDER, KEY_NAME = "rocketmq", "handles"

logger = logging.getLogger(__name__)
_GONE = "the receipt handle is no longer good: the lease is over, or the group was moved"


class Delivered(NamedTuple):
    """What a handle means now."""

    topic: Topic
    subscription: Subscription
    group: Group | None
    queue: Queue | None
    """None: no client polls."""
    lease: Lease | None
    """None: the broker was started again since."""
    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    epoch: int
    """Of the subscription, when it was delivered."""
    standing: Standing


class Receiving:
    def __init__(
        self,
        broker: Broker,
        callers: Callers,
        routes: Routes,
        clients: Clients,
        sending: Sending,
    ) -> None:
        self._broker = broker
        self._callers = callers
        self._routes = routes
        self.groups = Groups(broker, clients, self._bury)
        # Those that wait, and those whose answers are written.
        self._polls = 0
        # Of messages that polls have taken, until their answers are written.
        self._unread_size = 0
        self._burials = Burials(broker, sending, self._store_host)
        self._process = secrets.token_bytes(PROCESS_SIZE)
        self.signer = Signer(secrets.token_bytes(KEY_SIZE))

    async def load(self) -> None:
        """Take the key of handles from the catalog, so that those of before a restart can be read."""
        made = {"key": secrets.token_hex(KEY_SIZE)}

        def found(catalog: Any) -> dict[str, Any]:
            doc = catalog.doc(FOLDER, KEY_NAME)
            if doc is None:
                catalog.put_doc(FOLDER, KEY_NAME, made)
            return doc or made

        doc = await self._broker.engine.catalog(found)
        self.signer = Signer(bytes.fromhex(doc["key"]))

    async def manner(self, call: Call, told: pb.Subscription) -> Manner:
        """How the group that a client names in its settings gets its messages: in order if it does on one
        of its topics, and as often as on the topic where that is the most."""
        group = names.group_of(told.group)
        manners: list[Manner] = []
        for entry in told.subscriptions[:SETTINGS_TOPICS_MAX]:
            with suppress(MilepostError):  # a topic that is not there says nothing
                name = self._routes.known(entry.topic)
                self._callers.check(call, Operation.CONSUME, name, group)
                queue = self._routes.queue(name, 0)
                topic = await self._broker.topic(queue, create=False)
                subscription, _ = names.split_group(group)
                found = topic.subscriptions.get(subscription)
                if found is None:
                    properties = await properties_for(self._broker, name.namespace, subscription)
                else:
                    properties = found.properties
                manners.append(manner_of(properties))
        if not manners:
            return Manner()
        is_fifo = any(one.is_fifo for one in manners)
        return Manner(is_fifo, max(one.attempts_max for one in manners))

    # -- receive -----------------------------------------------------------------------------------

    async def receive(
        self, call: Call, request: pb.ReceiveMessageRequest
    ) -> tuple[Group | None, list[Held]]:
        """The messages for a poll, and the group to give them back to if they cannot be sent."""
        if request.ByteSize() > POLL_SIZE_MAX:
            raise Refused(Code.BAD_REQUEST, f"a poll of more than {POLL_SIZE_MAX} bytes")
        asked = request.message_queue.topic
        name, group_name = self._routes.name_of(asked), names.group_of(request.group)
        self._callers.check(call, Operation.CONSUME, name, group_name)
        self._routes.known(asked)
        wanted = wanted_by(request.filter_expression)
        invisible_s, renews_s = _invisible_s(request)
        wait_s = _wait_s(request, call.remaining_s)
        count = min(request.batch_size, RECEIVE_BATCH_MAX)
        if count <= 0:
            return None, []
        polls_max = self._broker.settings.rocketmq_calls_max // 2
        if self._polls >= polls_max:
            raise Refused(Code.TOO_MANY_REQUESTS, f"{polls_max} polls wait already")
        group = self.groups.group(name, group_name)
        changes = self._callers.changes

        def check() -> None:
            self._callers.check_served()
            if self._unread_size > UNREAD_SIZE_MAX:
                raise Refused(Code.TOO_MANY_REQUESTS, "too much of the answers is not read yet")
            if changes != self._callers.changes:
                self._callers.check(call, Operation.CONSUME, name, group_name)

        keeps_order = call.language not in FORGETS_ORDER

        def took(taken: list[Held]) -> None:
            self._unread_size += _size(taken)

        poll = Poll(call.client, wanted, count, invisible_s, renews_s, check, took, keeps_order)
        self._polls += 1
        try:
            return group, await group.receive(poll, wait_s)
        except BaseException:
            if poll.taken.done() and not poll.taken.cancelled() and not poll.taken.exception():
                self._unread_size -= _size(poll.taken.result())  # the client is gone
            raise
        finally:
            self._polls -= 1

    @contextmanager
    def answering(self, taken: list[Held]) -> Iterator[None]:
        """The answer to a poll is written. Clients that read none of it count with those that wait, so
        that calls are left for others, and all that the poll has taken counts as unread."""
        size = _size(taken)
        self._polls += 1
        try:
            yield
        finally:
            self._polls -= 1
            self._unread_size -= size

    async def messages(
        self, call: Call, group: Group, topic: pb.Resource, taken: list[Held]
    ) -> AsyncIterator[pb.Message]:
        """The messages of an answer, as the client can read them.

        One that is too large for it is withheld: it counts as a delivery that has failed, so that another
        client of the group may get it, and at last it is among the dead letters. What the client gets in
        the same answer is not lost with it.
        """
        limit = answer_limit(call.language, call.version)
        # Of a FIFO group: the queues and message groups that are stopped by what was withheld.
        stopped: set[tuple[Queue, str]] = set()
        for held in taken:
            place = held.queue, held.lease.key
            if place in stopped:
                group.give_back([held])
                continue
            message = await fitted(self.message(group, topic, held), limit)
            if message is not None:
                yield message
                continue
            self._withheld(call, group, held)
            if held.queue.is_fifo:
                stopped.add(place)

    def _withheld(self, call: Call, group: Group, held: Held) -> None:
        attempt, size = held.arrived.attempt, len(held.arrived.view.payload)
        self._broker.counters.rocketmq_refused["too_large_for_client"] += 1
        if attempt == 1:
            logger.warning(
                "index %d of %s, %d bytes, is larger than a client of group %s reads (%.40a %.40a)",
                *(held.lease.index, held.queue.topic.name, size, group.name),
                *(call.language, call.version),
            )
        group.withhold(held, BACKOFF_S[min(attempt, len(BACKOFF_S)) - 1])

    def message(self, group: Group, topic: pb.Resource, held: Held) -> pb.Message:
        """A message as the client gets it."""
        queue, lease, arrived = held
        message = message_of(
            arrived.view,
            topic,
            topic_id=queue.topic.row.topic_id,
            queue_id=queue.number,
            store_host=self._store_host(),
        )
        message.system_properties.delivery_attempt = arrived.attempt
        message.system_properties.receipt_handle = self._handle(
            group.topic, group.name, queue.topic, queue.epoch, lease.index, lease
        )
        return message

    def _store_host(self) -> str:
        return f"{self._broker.settings.advertised_host}:{self._broker.rocketmq_port}"

    def _handle(
        self, name: TopicName, group: str, topic: Topic, epoch: int, index: int, lease: Lease
    ) -> str:
        clock = self._broker.clock
        left_s = max(lease.until - clock.monotonic(), 0)
        handle = Handle(
            topic.row.topic_id,
            topic.name.partition if topic.name != name else -1,
            index,
            epoch,
            self._process,
            lease.number,
            clock.wall_ms() + int(left_s * 1000),
        )
        return self.signer.write(handle, name.text, group)

    # -- ack ---------------------------------------------------------------------------------------

    async def ack_message(self, call: Call, request: pb.AckMessageRequest) -> pb.AckMessageResponse:
        name, group = self._routes.name_of(request.topic), names.group_of(request.group)
        self._callers.check(call, Operation.CONSUME, name, group)
        if not 0 < len(request.entries) <= ACKS_MAX:
            raise Refused(
                Code.BAD_REQUEST, f"{len(request.entries)} acks in one call; 1 to {ACKS_MAX} are"
            )
        acks = [self._ack(name, group, entry.receipt_handle) for entry in request.entries]
        # Official clients ack one message a call: that needs no task of its own.
        statuses = [await acks[0]] if len(acks) == 1 else await asyncio.gather(*acks)
        entries = [
            pb.AckMessageResultEntry(
                message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=one
            )
            for entry, one in zip(request.entries, statuses, strict=True)
        ]
        codes = {one.code for one in statuses}
        whole = statuses[0] if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
        return pb.AckMessageResponse(status=whole, entries=entries)

    async def _ack(self, name: TopicName, group: str, text: str) -> pb.Status:
        try:
            found = await self._find(name, group, text)
            ranges: Sequence[Range] = ()
            if found.lease is not None:
                ranges = found.lease.ranges
            elif found.standing is Standing.OPEN:
                ranges = await broker_leases.ranges_of(
                    found.topic, found.index, self._broker.engine
                )
                # Meanwhile the group may have been moved or deleted, or its topic closed.
                found = await self._find(name, group, text)
            await self._settle(found, ranges)
        except MilepostError as error:
            return status(code_of(error), str(error))
        return OK

    async def _settle(self, found: Delivered, ranges: Sequence[Range]) -> None:
        """Ack, and return when that is on disk; `Refused` if the group was moved since the handle was read:
        the disk may have been asked what the message is."""
        if broker_leases.epoch_of(found.subscription) != found.epoch:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, _GONE)

        def begin(done: Done) -> None:
            consumer = None if found.queue is None else found.queue.consumer
            if found.queue is not None and found.lease is not None:
                found.queue.acked(found.lease)
            broker_leases.ack(found.subscription, consumer, ranges, done)
            if found.group is not None:
                found.group.lease_acked()

        await durable(begin)

    async def _find(self, name: TopicName, group_name: str, text: str) -> Delivered:
        """What a handle means; `Refused` if it is not good, or no longer."""
        handle = self.signer.read(text, name.text, group_name)
        if handle is None:
            raise Refused(
                Code.INVALID_RECEIPT_HANDLE,
                f"receipt handle {text[:40]!a} is not one of group {group_name} of {name}",
            )
        partition = name if handle.partition < 0 else name.partition_name(handle.partition)
        try:
            topic = await self._broker.topic(partition, create=False)
        except NotFound as error:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, str(error)) from None
        subscription = subscriptions.find(topic, group_name)
        if topic.row.topic_id != handle.topic_id or subscription is None:
            raise Refused(
                Code.INVALID_RECEIPT_HANDLE,
                f"topic {partition} or group {group_name} was deleted since the delivery",
            )
        group = self.groups.find(name, group_name)
        queue = None if group is None else group.queues.get(max(handle.partition, 0))
        if queue is not None and (queue.is_closed or queue.subscription is not subscription):
            queue = None
        standing = broker_leases.standing(subscription, handle.index, handle.epoch)
        lease = None if queue is None else queue.leases.find(handle.index, handle.lease)
        if handle.process != self._process:
            lease = None
        found = Delivered(
            topic, subscription, group, queue, lease, handle.index, handle.epoch, standing
        )
        if standing is Standing.DONE or (standing is Standing.OPEN and lease is not None):
            return found
        if standing is Standing.OPEN and self._outlived(handle, queue):
            return found
        raise Refused(Code.INVALID_RECEIPT_HANDLE, _GONE)

    def _outlived(self, handle: Handle, queue: Queue | None) -> bool:
        """Was it made by an earlier process, for a lease that would still last, and no other client has
        the message by now?"""
        return (
            handle.process != self._process
            and self._broker.clock.wall_ms() < handle.until_ms
            and (queue is None or queue.leases.at(handle.index) is None)
        )

    # -- the invisible time ------------------------------------------------------------------------

    async def change_invisible_duration(
        self, call: Call, request: pb.ChangeInvisibleDurationRequest
    ) -> pb.ChangeInvisibleDurationResponse:
        """The answer has a handle whatever its status: clients forget the one that they had."""
        try:
            handle = await self._change(call, request)
        except MilepostError as error:
            return pb.ChangeInvisibleDurationResponse(
                status=status(code_of(error), str(error)), receipt_handle=request.receipt_handle
            )
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=handle)

    async def _change(self, call: Call, request: pb.ChangeInvisibleDurationRequest) -> str:
        name, group = self._routes.name_of(request.topic), names.group_of(request.group)
        self._callers.check(call, Operation.CONSUME, name, group)
        seconds = _seconds(request.invisible_duration)
        if not 0 <= seconds <= INVISIBLE_S_MAX:
            raise Refused(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"an invisible time of {seconds:g} s; 0 to {INVISIBLE_S_MAX} s are allowed",
            )
        found = await self._find(name, group, request.receipt_handle)
        if found.queue is None or found.lease is None or found.group is None:
            if found.standing is Standing.DONE:
                return request.receipt_handle
            # The broker was started again: the message is ready, and no lease is left to be changed.
            raise Refused(Code.INVALID_RECEIPT_HANDLE, _GONE)
        until = self._broker.clock.monotonic() + seconds
        found.queue.leases.move(found.lease, until)
        text = self._handle(name, group, found.topic, found.queue.epoch, found.index, found.lease)
        found.group.lease_moved()
        return text

    # -- dead letters ------------------------------------------------------------------------------

    async def forward_to_dead_letters(
        self, call: Call, request: pb.ForwardMessageToDeadLetterQueueRequest
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        name, group = self._routes.name_of(request.topic), names.group_of(request.group)
        self._callers.check(call, Operation.CONSUME, name, group)
        found = await self._find(name, group, request.receipt_handle)
        if found.standing is Standing.OPEN:
            await self._forward(name, found)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)

    async def _forward(self, name: TopicName, found: Delivered) -> None:
        engine, epoch = self._broker.engine, broker_leases.epoch_of(found.subscription)
        if found.lease is not None:
            ranges = found.lease.ranges
        else:
            ranges = await broker_leases.ranges_of(found.topic, found.index, engine)
        view = await stored_message(found.topic, found.index, engine)
        if view is None:  # no client can have it any more
            await self._settle(found, ranges)
            return
        try:
            await self._burials.bury(Corpse(name, found.subscription, epoch, view, ranges))
        except NotFound:
            standing = broker_leases.standing(found.subscription, found.index, epoch)
            if standing is not Standing.DONE:
                raise Refused(Code.INVALID_RECEIPT_HANDLE, _GONE) from None
        if found.queue is not None and found.lease is not None and found.group is not None:
            found.queue.acked(found.lease)
            found.group.lease_acked()

    async def _bury(self, held: Held, group: Group) -> None:
        """Move a message that was delivered too often to the dead letters of its group.

        Where that fails, the message stays held, and comes again at the end of its lease.
        """
        queue, lease, arrived = held
        corpse = Corpse(group.topic, queue.subscription, queue.epoch, arrived.view, arrived.ranges)
        try:
            await self._burials.bury(corpse)
        except NotFound:  # the group was moved, or an operator has skipped it
            group.give_back([held])
            return
        except MilepostError as error:
            self._broker.unexpected("rocketmq", error)
            return
        queue.acked(lease)
        group.lease_acked()


def _size(taken: list[Held]) -> int:
    return sum(len(held.arrived.view.payload) for held in taken)


def _invisible_s(request: pb.ReceiveMessageRequest) -> tuple[float, float]:
    """How long messages are invisible, and by how much that is prolonged while the client lives."""
    if request.auto_renew:
        return PUSH_INVISIBLE_S, PUSH_RENEWS_S
    seconds = _seconds(request.invisible_duration)
    if not INVISIBLE_S_MIN <= seconds <= INVISIBLE_S_MAX:
        raise Refused(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"an invisible time of {seconds:g} s; {INVISIBLE_S_MIN} to {INVISIBLE_S_MAX} s are allowed",
        )
    return seconds, 0.0


def _wait_s(request: pb.ReceiveMessageRequest, remaining_s: float | None) -> float:
    """How long a poll waits: as long as the client asks for and waits itself."""
    asked_s = float(POLL_S_MAX)
    if request.HasField("long_polling_timeout"):
        asked_s = min(_seconds(request.long_polling_timeout), asked_s)
    if remaining_s is not None:
        asked_s = min(asked_s, remaining_s - HEAD_START_S)
    if asked_s <= 0:
        raise Refused(
            Code.ILLEGAL_POLLING_TIME, "the client waits for less time than an answer takes"
        )
    return asked_s


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9
