"""Publishes messages of RocketMQ producers, and answers when they are on disk.

There is one producer a queue, for all RocketMQ clients together. It is opened by the first message and
closed when none has come for a while, so that a Pulsar producer can have the topic alone again.

    check ─▶ which queue ─▶ Topic.publish ─▶ durable, visible ─▶ receipt with id and index
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import backlog_quota
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.producer_access import AccessMode
from milepost.broker.topic.topic import Topic
from milepost.errors import EncryptionRequired, MilepostError, ProducerBusy, ServiceNotReady
from milepost.positions.names import TopicName
from milepost.rocketmq import message_check
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import HEAD_SIZE, body_size_max
from milepost.rocketmq.codes import OK, Code, Refused, code_of, status
from milepost.rocketmq.mapping import sends_of
from milepost.rocketmq.message_check import millis
from milepost.rocketmq.peer import EdgePeer
from milepost.rocketmq.routes import Routes
from milepost.wire import pulsar_pb2
from milepost.wire.events import Command, Receipt, Send
from milepost.wire.murmur import murmur3_32

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# Bytes of messages whose receipts are awaited. A client that sends more is asked to wait.
PENDING_SIZE_MAX = 64 * 1024 * 1024
# A producer that has sent nothing for so long is closed.
IDLE_S = 30.0

_REFUSALS = {
    pulsar_pb2.PersistenceError: Code.MASTER_PERSISTENCE_TIMEOUT,
    pulsar_pb2.ChecksumError: Code.MESSAGE_CORRUPTED,
    pulsar_pb2.ServiceNotReady: Code.TOO_MANY_REQUESTS,
    pulsar_pb2.ProducerBlockedQuotaExceededError: Code.TOO_MANY_REQUESTS,
    pulsar_pb2.ProducerBlockedQuotaExceededException: Code.TOO_MANY_REQUESTS,
}


class Sender(EdgePeer):
    """The producer of one queue."""

    def __init__(self, broker: Broker, topic: Topic) -> None:
        super().__init__()
        self._broker = broker
        self.producer = Producer(
            0,
            broker.new_producer_name(),
            self,
            topic,
            name_is_given=False,
            connected_since_ms=broker.clock.wall_ms(),
        )
        self.used = broker.clock.monotonic()
        self._next_sequence_id = 0
        # Sequence id → who waits for its receipt.
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._holds = 0
        self._released = asyncio.Event()
        self._released.set()

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    async def ready(self) -> None:
        """Return when the topic's publish rate lets more in."""
        await self._released.wait()

    def publish(self, message: pb.Message, body: bytes) -> tuple[int, asyncio.Future[None]]:
        """Send a message on its way; its index, and what is done when it is on disk."""
        size_max = self._broker.settings.max_message_size - HEAD_SIZE
        return self.publish_entries(partial(sends_of, message, body, size_max))

    def publish_entries(self, make: Callable[..., list[Send]]) -> tuple[int, asyncio.Future[None]]:
        """The same for entries, made for the producer, the sequence id and the time that it is told; the
        last index. It is -1 for those that were refused at once."""
        topic, sequence_id = self.producer.topic, self._next_sequence_id
        self._next_sequence_id += 1
        self.used = self._broker.clock.monotonic()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[sequence_id] = done
        if self.producer.is_closed:  # by the disk, which refused the message before this one
            self._fail(sequence_id, ServiceNotReady(f"{topic.name} was closed meanwhile"))
            return -1, done
        sends = make(
            producer=self.producer.name,
            sequence_id=sequence_id,
            now_ms=self._broker.clock.wall_ms(),
        )
        publication = topic.publish(self.producer, sends)
        for throttle in (topic.throttle, topic.group_throttle):
            if throttle is not None:
                throttle.published(self, publication.count, publication.size_bytes)
        index = -1 if publication.block is None else publication.block.last_indexes[-1]
        return index, done

    def stored(self, receipt: Receipt) -> None:
        done = self._waiting.pop(receipt.sequence_id, None)
        if done is not None and not done.done():
            done.set_result(None)

    def told(self, command: Command) -> None:
        error = command.message
        if isinstance(error, pulsar_pb2.CommandSendError):
            code = _REFUSALS.get(error.error, Code.FORBIDDEN)
            self._fail(error.sequence_id, Refused(code, error.message))

    def hold(self) -> None:
        self._holds += 1
        self._released.clear()

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self._released.set()

    def restart_producer(self, producer: Producer) -> None:
        """The next call opens another one."""
        self._broker.admissions.remove(producer)

    def forget_producer(self, producer: Producer) -> None:
        """The producer was closed: what waits may be stored or not, and its clients send it again."""
        self._released.set()
        for sequence_id in list(self._waiting):
            self._fail(sequence_id, ServiceNotReady(f"{producer.topic.name} was closed meanwhile"))

    def fail(self, reason: str) -> None:
        self._broker.admissions.remove(self.producer)

    def _fail(self, sequence_id: int, error: MilepostError) -> None:
        done = self._waiting.pop(sequence_id, None)
        if done is not None and not done.done():
            done.set_exception(error)
            done.exception()  # so that asyncio does not warn if the client is gone


class Sending:
    def __init__(self, broker: Broker, callers: Callers, routes: Routes) -> None:
        self._broker = broker
        self._callers = callers
        self._routes = routes
        self._senders: dict[str, Sender] = {}
        # Topic → how many of its messages went to the next queue in turn.
        self._turns: Counter[str] = Counter()
        self._pending_size = 0
        self.recall_handle: Callable[[TopicName, Topic, int, str, int], str] = _no_handle
        """Makes the recall handle of a delayed message."""

    async def send_message(
        self, call: Call, request: pb.SendMessageRequest
    ) -> pb.SendMessageResponse:
        messages = request.messages
        name, bodies = self.checked(call, request)
        with self.pending(sum(map(len, bodies))):
            queues = self._routes.queue_count(name)
            places = [self._place(name, one, queues) for one in messages]
            senders = {
                place: await self.sender(self._routes.queue(name, place)) for place in set(places)
            }
            if any(one.producer.is_closed for one in senders.values()):
                raise ServiceNotReady(f"{name} was closed meanwhile")
            # From here on nothing waits until all are on their way: they lie side by side.
            sent = [
                senders[place].publish(one, body)
                for place, one, body in zip(places, messages, bodies, strict=True)
            ]
            entries = [
                await _entry(one.system_properties.message_id, index, done)
                for one, (index, done) in zip(messages, sent, strict=True)
            ]
            for place, one, entry in zip(places, messages, entries, strict=True):
                if one.system_properties.HasField("delivery_timestamp"):
                    self._add_recall_handle(entry, one, name, senders[place].producer.topic)
        return pb.SendMessageResponse(
            status=_whole([one.status for one in entries]), entries=entries
        )

    def _add_recall_handle(
        self, entry: pb.SendResultEntry, message: pb.Message, name: TopicName, topic: Topic
    ) -> None:
        if entry.status.code == Code.OK:
            due_ms = millis(message.system_properties.delivery_timestamp)
            made = self.recall_handle(name, topic, entry.offset, entry.message_id, due_ms)
            entry.recall_handle = made

    def checked(self, call: Call, request: pb.SendMessageRequest) -> tuple[TopicName, list[bytes]]:
        """The topic of the messages of a call, and their bodies; `Refused` for what cannot be sent."""
        messages = request.messages
        name = message_check.check_together([self._routes.name_of(one.topic) for one in messages])
        self._callers.check(call, Operation.PRODUCE, name)
        self._routes.known(messages[0].topic)
        now_ms, size_max = self._broker.clock.wall_ms(), body_size_max(self._broker)
        checked = message_check.check_all(messages, now_ms, size_max)
        accepted = self._routes.accepted(name)
        for kind, _ in checked:
            if kind not in accepted:
                raise Refused(
                    Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                    f"a message of type {pb.MessageType.Name(kind)}; {name} takes "
                    f"{pb.MessageType.Name(accepted[0])}",
                )
        return name, [body for _, body in checked]

    @contextmanager
    def pending(self, size: int) -> Iterator[None]:
        """So many bytes wait to be stored; `Refused` if that is too much."""
        if self._broker.memory.is_short or self._pending_size + size > PENDING_SIZE_MAX:
            raise Refused(Code.TOO_MANY_REQUESTS, "too much waits to be stored: send it again")
        self._pending_size += size
        try:
            yield
        finally:
            self._pending_size -= size

    async def next_sender(self, name: TopicName) -> Sender:
        """The producer of the queue of a topic whose turn it is."""
        turn = self._turn(name) % self._routes.queue_count(name)
        return await self.sender(self._routes.queue(name, turn))

    def _place(self, name: TopicName, message: pb.Message, queues: int) -> int:
        """The queue of a message: that of its message group, or the next in turn."""
        system = message.system_properties
        if system.HasField("message_group"):
            # As Pulsar's producers choose the partition of a key.
            return (murmur3_32(system.message_group.encode()) & 0x7FFF_FFFF) % queues
        return self._turn(name) % queues

    def _turn(self, name: TopicName) -> int:
        turn = self._turns[name.text]
        self._turns[name.text] += 1
        return turn

    async def sender(self, name: TopicName) -> Sender:
        """The producer of a queue, which may send now."""
        while True:
            sender = self._senders.get(name.text)
            if sender is None:
                sender = await self._open(name)
            await sender.ready()
            if not sender.producer.is_closed:
                return sender
            if self._senders.get(name.text) is sender:
                del self._senders[name.text]

    async def _open(self, name: TopicName) -> Sender:
        broker = self._broker
        topic = await broker.topic(name, create=False)
        past_quota = await broker.engine.look(
            lambda: backlog_quota.refusal(topic, broker.clock.wall_ms())
        )
        if past_quota is not None:
            raise past_quota
        await broker.schemas.admit_producer(topic.name, None)
        # From here on nothing waits until the producer is in.
        if (found := self._senders.get(name.text)) is not None and not found.producer.is_closed:
            return found
        topic.check_published_to()
        if topic.policies.encryption_required:
            raise EncryptionRequired(f"encryption is required in {topic.name}")
        limit = topic.policies.max_producers
        if limit and len(topic.producers) >= limit:
            raise ProducerBusy(f"topic {topic.name} has {limit} producers already")
        sender = Sender(broker, topic)
        producer = sender.producer
        admission = topic.access.admit(producer, AccessMode.SHARED)
        if admission.error is not None:
            raise admission.error
        if topic.dedup is not None:
            topic.dedup.opened(producer.name)
        topic.producers[producer.name] = producer
        self._senders[name.text] = sender
        return sender

    def tick(self, now: float) -> None:
        """Close producers that have nothing to do."""
        for name, sender in list(self._senders.items()):
            if sender.producer.is_closed:
                del self._senders[name]
            elif not sender.is_busy and now - sender.used >= IDLE_S:
                del self._senders[name]
                self._broker.admissions.remove(sender.producer)
        for name in [name for name in self._turns if not self._is_there(name)]:
            del self._turns[name]

    def _is_there(self, name: str) -> bool:
        return self._broker.directory.exists(TopicName.parse(name))


def _no_handle(name: TopicName, topic: Topic, index: int, message_id: str, due_ms: int) -> str:
    """Messages cannot be recalled."""
    return ""


async def _entry(message_id: str, index: int, done: asyncio.Future[None]) -> pb.SendResultEntry:
    try:
        await done
    except MilepostError as error:
        refusal = status(code_of(error), str(error))
        return pb.SendResultEntry(status=refusal, message_id=message_id)
    return pb.SendResultEntry(
        status=OK, message_id=message_id, transaction_id=message_id, offset=index
    )


def _whole(statuses: list[pb.Status]) -> pb.Status:
    """The status of a call: that of all its entries, if they are alike."""
    codes = {one.code for one in statuses}
    return statuses[0] if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
