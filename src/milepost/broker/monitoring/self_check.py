"""The health check: publishes a message, has it delivered and acked; and free disk space.

The other end is here, in memory, and reads frames as a client does. One check runs at a time; who asks
meanwhile gets its outcome. What the checks publish is dropped again when it has become much.

    await SelfCheck(broker).check()        # returns, or raises what is wrong

A topic that takes no messages because some of its own are lost is told too: what an operator has to see
must not hide behind topics that are well.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE
from milepost.broker.operations import topic_lifecycle
from milepost.broker.peer import Buffer
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Topic
from milepost.errors import CorruptData, PersistenceError, ServiceNotReady
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.events import PLAIN, Ack, Command, Delivery, Send, WireId
from milepost.wire.metadata import split_entry
from milepost.wire.peer import PROTOCOL_VERSION
from milepost.wire.protocol import ClientProtocol
from milepost.wire.scanners.encode import encode_entry_head

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

TOPIC = TopicName.parse("persistent://pulsar/system/healthcheck")
NAME = "healthcheck"
# Messages of earlier checks that may lie there.
KEPT_MAX = 1000


class Room(NamedTuple):
    """The file system that the data directory lies on."""

    size_bytes: int
    free_bytes: int
    """What the broker may still use, without what is kept for root."""


def room_at(data: Path) -> Room | None:
    """The free and total space of the disk; None where the file system does not say."""
    try:
        found = os.statvfs(data)
    except (OSError, AttributeError):
        return None
    return Room(found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail)


class SelfCheck:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._running: asyncio.Task[None] | None = None
        self._checks = 0

    async def check(self) -> None:
        """Return when a message has made its way; raise if it cannot."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._check())
            # If the check fails after its last caller has given up, asyncio must not warn.
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._running)

    async def _check(self) -> None:
        broker = self._broker
        if broker.engine.failure is not None:
            raise PersistenceError(broker.engine.failure)
        if broker.engine.checkpoint_failure is not None and broker.memory.is_short:
            raise PersistenceError(
                "producers are paused: memory is full of messages that cannot be stored: "
                f"{broker.engine.checkpoint_failure}"
            )
        workers = broker.workers
        topic = await broker.topic(TOPIC if workers is None else workers.placement.own_name(TOPIC))
        self._checks += 1
        payload = b"check %d" % self._checks
        subscription = broker.create_reader(topic, f"{NAME}-{self._checks}", topic.log.next_index)
        probe = _Probe()
        consumer = Consumer(broker.next_holder(), 0, NAME, probe, subscription)
        try:
            subscription.add_consumer(consumer, EXCLUSIVE)
            subscription.flow(consumer, 1)
            topic.publish(
                Producer(0, NAME, probe, topic), [_send(payload, self._checks, topic.now_ms())]
            )
            delivery = await probe.delivery
            found = split_entry(delivery.entry).payload
            if found != payload:
                raise PersistenceError(f"{payload!r} was published, {found!r} came")
            await _ack(consumer, delivery)
        finally:
            broker.remove_consumer(consumer)
        await self._tidy(topic)
        damages = broker.store.damages()
        if damages:
            topic_id, reason = next(iter(damages.items()))
            name = broker.directory.name_of(topic_id) or f"topic {topic_id}"
            raise CorruptData(f"{len(damages)} topics take no messages, first {name}: {reason}")

    async def _tidy(self, topic: Topic) -> None:
        if topic.log.end_index - topic.log.first_index > KEPT_MAX and not topic.is_closed:
            await topic_lifecycle.truncate(self._broker, topic)


def _send(payload: bytes, sequence_id: int, now_ms: int) -> Send:
    metadata = pb.MessageMetadata(
        producer_name=NAME, sequence_id=sequence_id, publish_time=now_ms
    ).SerializeToString()
    entry = encode_entry_head(metadata, payload) + payload
    return Send(sequence_id, 0, 1, now_ms, entry, PLAIN)


async def _ack(consumer: Consumer, delivery: Delivery) -> None:
    acked = asyncio.get_running_loop().create_future()

    def done(error: Exception | None) -> None:
        acked.set_exception(error) if error else acked.set_result(None)

    ids = [WireId(delivery.ledger_id, delivery.entry_id)]
    consumer.subscription.ack(consumer, Ack(0, False, ids, 0), done)
    await acked


class _Probe:
    """A peer (`broker/peer.py`) that waits for one message."""

    address = "healthcheck"
    client_version = "healthcheck"
    role = None
    wants_broker_entry = False
    is_writable = True
    unwritable_since = 0.0
    has_consumers = True

    def __init__(self) -> None:
        self.delivery: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._protocol = ClientProtocol()
        self._protocol.connect(pb.CommandConnect(client_version=self.client_version))
        self._protocol.receive(
            replies.connected(NAME, PROTOCOL_VERSION, 1 << 20, pb.FeatureFlags())
        )

    def write(self, buffers: Sequence[Buffer]) -> None:
        for event in self._protocol.receive(b"".join(buffers)):
            if isinstance(event, Delivery):
                if not self.delivery.done():
                    self.delivery.set_result(event)
            elif isinstance(event, Command):
                self._hear(event)

    def _hear(self, command: Command) -> None:
        message = command.message
        if isinstance(message, pb.CommandSendError):
            self.fail(message.message)
        elif isinstance(message, pb.CommandCloseConsumer):
            self.fail("the topic of health checks was closed meanwhile", ServiceNotReady)

    def hold(self) -> None:
        """It sends one message."""

    def release(self) -> None: ...

    def settled(self, publishes: int) -> None:
        """It sends one, and waits."""

    def resume(self) -> None: ...

    def understands(self, kind: int) -> bool:
        """It waits for its message and for no notice."""
        return False

    def unsent_size(self) -> int:
        return 0

    def restart_producer(self, producer: Producer) -> None:
        """The next check has a producer of its own."""

    def forget_producer(self, producer: Producer) -> None:
        """It keeps no list of them."""

    def forget_consumer(self, consumer: Consumer) -> None:
        """It keeps no list of them."""

    def abort(self, reason: str) -> None:
        self.fail(reason)

    def fail(self, reason: str, kind: type[Exception] = PersistenceError) -> None:
        if not self.delivery.done():
            self.delivery.set_exception(kind(reason))
