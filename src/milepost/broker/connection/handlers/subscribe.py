"""SUBSCRIBE: a consumer joins a subscription, which is created if it does not exist."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.connection.handlers.schema import reads_any, schema_of
from milepost.broker.dispatch.chunk_gate import OpenGate
from milepost.broker.dispatch.consumer import NO_EPOCH, Consumer
from milepost.broker.dispatch.dispatchers import TYPE_NAMES
from milepost.broker.messages.ids_to_indexes import start_index, start_index_at
from milepost.broker.operations.reset import obeyed
from milepost.broker.subscription.broadcast import (
    BroadcastGroup,
    member_name,
    start_rule,
    wants_broadcast,
)
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.cursor.group import Start
from milepost.errors import (
    AlreadyExists,
    ConsumerBusy,
    InvalidInput,
    NotAllowed,
    ProducerBusy,
    ServiceNotReady,
    SubscriptionNotFound,
)
from milepost.positions import signed64
from milepost.positions.labels import check_label
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind
from milepost.wire.extensions import EVERY_CHUNK, EXISTING_SUBSCRIPTION, STORED_ENTRIES, asks

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session

PRIORITY_MAX = 2**16
# Those with one active consumer.
_READ_COMPACTED = (pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Failover)


@handles(Kind.SUBSCRIBE, needs=Operation.CONSUME)
async def subscribe(session: Session, command: pb.CommandSubscribe) -> None:
    """Joins a subscription: Exclusive, Shared (priorities, round robin), Failover (the active consumer
    is told), Key_Shared (auto-split and sticky ranges; in order per key, unless the first consumer allows
    otherwise). Durable ones are created at `initialPosition`
    and keep their place; others (readers) start at `start_message_id`, whose entry is the first sent.
    `start_message_rollback_duration_sec` starts either that long ago, whatever else it names.
    `consumer_epoch` is stamped on every message (PIP-84, PIP-194). A second consumer of an Exclusive
    subscription, or another type while consumers are connected, is `ConsumerBusy`. A reader with
    `milepost.every-chunk` in its metadata is sent every chunk where it lies, whole message or not. One
    with `milepost.stored-entries`, of an Exclusive or Failover subscription, gets consecutive entries in
    one frame, as the log has them (`stored_entries` of MESSAGE says how many). With
    `milepost.existing-subscription` a durable subscription that does not exist is `SubscriptionNotFound`. A
    `schema` must be able to read what the topic has; a topic that was never used takes it for its own.
    `read_compacted` shows an Exclusive or Failover subscription the last message of each key, up to
    where compaction has come.

    With the consumer property `milepost.mode=broadcast`, of Shared consumers, the subscription is a
    broadcast group: every member gets every message from a position of its own. `milepost.member` names
    the member (else the address does), `milepost.start` (minimum, latest, earliest), sent by the member
    that makes the group, says where members start that it does not know. A member is connected once, else
    `ConsumerBusy`."""
    broker = session.broker
    consumer_id = signed64(command.consumer_id)
    if consumer_id in session.consumers:
        session.write((replies.success(command.request_id),))
        return
    _check_name(command.subscription)
    check_label("consumer", command.consumer_name)
    if not -1 <= command.priority_level <= PRIORITY_MAX:
        raise InvalidInput(
            f"priority level {command.priority_level}; allowed are 0 to {PRIORITY_MAX}"
        )
    if command.read_compacted and command.subType not in _READ_COMPACTED:
        raise NotAllowed("only exclusive and failover subscriptions can read compacted")
    key = ("consumer", consumer_id)
    if key in session.opening:
        raise ServiceNotReady(f"consumer {consumer_id} is already being opened")
    session.opening[key] = command
    try:
        topic = await broker.topic(
            TopicName.parse(command.topic), create=command.force_topic_creation
        )
        _check_policies(session, topic, command)
        await broker.schemas.admit_consumer(topic, schema_of(command))
        while True:
            topic.check_open()
            subscription = await _subscription(session, topic, command)
            settled = asyncio.Event()
            subscription.seeks.after(settled.set)
            await settled.wait()
            topic.check_open()
            if _is_there(topic, subscription):
                break  # else another consumer has unsubscribed in the meantime, and it is made again
        if not session.is_opening(key, command):
            _abandon(session, subscription)
            return
        keys = command.keySharedMeta
        try:
            consumer = _consumer(session, command, topic, subscription, consumer_id)
            subscription.add_consumer(
                consumer,
                command.subType,
                sticky=keys.keySharedMode == pb.STICKY,
                in_order=not keys.allowOutOfOrderDelivery,
            )
        except BaseException:
            _abandon(session, subscription)
            raise
        subscription.reads_compacted = command.read_compacted
        session.add_consumer(consumer)
        _welcome(session, command, consumer)
    finally:
        if session.opening.get(key) is command:
            del session.opening[key]


def _welcome(session: Session, command: pb.CommandSubscribe, consumer: Consumer) -> None:
    """SUCCESS; and for a consumer that follows in place and was away while its cursor was moved, right
    behind it what it would have heard then: acks of what it got before that are void."""
    if not consumer.follows:
        session.write((replies.success(command.request_id),))
        return
    epoch = consumer.subscription.cursor.epoch
    session.write((replies.success(command.request_id, cursor_epoch=epoch),))
    if command.HasField("cursor_epoch") and signed64(command.cursor_epoch) < epoch:
        consumer.subscription.tell_moved(consumer)
    else:  # this client has emptied its queue; others do that when they hear SUCCESS
        obeyed(session.broker, consumer)


def _check_name(name: str) -> None:
    if not name:
        # Upstream answers this code, and the C++ client has a case for it.
        raise ProducerBusy("the subscription's name is empty")
    check_label("subscription", name)


def _is_there(topic: Topic, subscription: Subscription) -> bool:
    found = topic.subscriptions.get(subscription.name)
    return found is not None and subscription in found.parts()


def _check_policies(session: Session, topic: Topic, command: pb.CommandSubscribe) -> None:
    if command.subType not in topic.policies.subscription_types:
        kind = TYPE_NAMES[command.subType]
        raise NotAllowed(f"{topic.name} allows no {kind} subscriptions")
    gate = topic.subscribe_gate
    consumer = session.address.rpartition(":")[0], command.consumer_name, command.consumer_id
    if gate is not None and not gate.admits(consumer):
        raise NotAllowed(
            f"consumer {command.consumer_name} subscribes to {topic.name} more than "
            f"{gate.rate.messages} times in {gate.rate.period_s:g} s"
        )


async def _subscription(
    session: Session, topic: Topic, command: pb.CommandSubscribe
) -> Subscription:
    """The one that is asked for; of a broadcast group the member's."""
    metadata = {item.key: item.value for item in command.metadata}
    if not wants_broadcast(metadata):
        return await _plain(session, topic, command)
    if not command.durable or command.subType != pb.CommandSubscribe.Shared:
        raise NotAllowed(
            f"members of the broadcast group {command.subscription} are Shared, and durable"
        )
    group = await _plain(session, topic, command, broadcast=start_rule(metadata))
    if not isinstance(group, BroadcastGroup):
        raise NotAllowed(f"subscription {group.name} of {topic.name} is no broadcast group")
    return await session.broker.join_group(group, member_name(metadata, session))


async def _plain(
    session: Session,
    topic: Topic,
    command: pb.CommandSubscribe,
    *,
    broadcast: Start | None = None,
) -> Subscription:
    broker = session.broker
    name = command.subscription
    found = topic.subscriptions.get(name)
    if found is not None and not topic.name.is_persistent:
        return found
    if found is not None:
        if found.is_durable != command.durable:
            kind = "durable" if found.is_durable else "not durable"
            raise NotAllowed(f"subscription {name} of {topic.name} is {kind}")
        return found
    if not command.durable or not topic.name.is_persistent:
        start = await broker.engine.look(lambda: _reader_start(session, topic, command))
        if (found := topic.subscriptions.get(name)) is not None:
            return found  # another consumer has made it in the meantime
        reader = broker.create_reader(topic, name, start)
        if asks(command, EVERY_CHUNK):
            reader.gate = OpenGate(reader.cursor)
        return reader
    if not topic.policies.auto_subscriptions or asks(command, EXISTING_SUBSCRIPTION):
        raise SubscriptionNotFound(f"subscription {name} of {topic.name} does not exist")
    properties = {item.key: item.value for item in command.subscription_properties}
    try:
        start = await broker.engine.look(lambda: _initial_index(session, topic, command))
        return await broker.create_subscription(topic, name, start, properties, broadcast=broadcast)
    except AlreadyExists:  # two consumers at once: the other one was first
        if name not in topic.subscriptions:
            raise ServiceNotReady(f"subscription {name} of {topic.name} is being deleted") from None
        return topic.subscriptions[name]


def _initial_index(session: Session, topic: Topic, command: pb.CommandSubscribe) -> int:
    """Where a new subscription starts: so many seconds ago, or at either end of the topic."""
    ago_s = signed64(command.start_message_rollback_duration_sec)
    if ago_s > 0:
        return start_index_at(topic, session.broker.clock.wall_ms() - ago_s * 1000)
    if command.initialPosition == pb.CommandSubscribe.Earliest:
        return topic.log.first_index
    return topic.visible_end


def _reader_start(session: Session, topic: Topic, command: pb.CommandSubscribe) -> int:
    """Readers start with the entry they name; the client drops what it does not want of it.

    A time ago counts more than an id: the Java client sends `earliest` beside it.
    """
    goes_back = signed64(command.start_message_rollback_duration_sec) > 0
    if command.HasField("start_message_id") and not goes_back:
        start = command.start_message_id
        return start_index(
            topic, signed64(start.ledgerId), signed64(start.entryId), whole_entry=True
        )
    return _initial_index(session, topic, command)


def _consumer(
    session: Session,
    command: pb.CommandSubscribe,
    topic: Topic,
    subscription: Subscription,
    consumer_id: int,
) -> Consumer:
    limit = topic.policies.max_consumers_per_subscription
    if limit and len(subscription.consumers) >= limit:
        raise ConsumerBusy(f"subscription {subscription.name} has {limit} consumers already")
    limit = topic.policies.max_consumers
    if limit and sum(len(s.consumers) for s in topic.subscriptions.values()) >= limit:
        raise ConsumerBusy(f"topic {topic.name} has {limit} consumers already")
    ranges = [(item.start, item.end) for item in command.keySharedMeta.hashRanges]
    holder = session.broker.next_holder()
    return Consumer(
        holder,
        consumer_id,
        command.consumer_name or f"{holder:x}",
        session,
        subscription,
        partition=topic.name.partition,
        priority=max(command.priority_level, 0),
        epoch=signed64(command.consumer_epoch) if command.HasField("consumer_epoch") else NO_EPOCH,
        metadata={item.key: item.value for item in command.metadata},
        key_ranges=ranges or None,
        connected_since_ms=session.broker.clock.wall_ms(),
        reads_any=reads_any(command),
        takes_runs=asks(command, STORED_ENTRIES),
    )


def _abandon(session: Session, subscription: Subscription) -> None:
    """No consumer came of it: a subscription that lives by its consumers goes as well."""
    session.broker.drop_reader(subscription)
