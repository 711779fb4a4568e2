"""PRODUCER: the right to publish. SEND itself is the session's, being hot (see topic.publish)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.access import Standing
from milepost.broker.handlers.registry import handles
from milepost.broker.producer import Producer
from milepost.broker.topic import Topic
from milepost.errors import ProducerBusy, ServiceNotReady, TooManyRequests
from milepost.positions import signed64
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.session import Session


@handles(Kind.PRODUCER)
async def producer(session: Session, command: pb.CommandProducer) -> None:
    """Opens a producer. Names are given or generated; a name in use is `ProducerBusy` unless the same
    connection opens it again with a higher `epoch`. All four access modes with topic epochs: a second
    exclusive producer is `ProducerFenced`, one that waits gets `producer_ready = false` first.
    `initial_subscription_name` is created at the earliest message before the first publish.
    `last_sequence_id` is known where deduplication is on. Encryption is the clients' own."""
    broker = session.broker
    producer_id = signed64(command.producer_id)
    current = session.producers.get(producer_id)
    if current is not None and not command.epoch > current.epoch:
        # A client that asks twice has missed the first answer.
        session.write((broker.producer_success(command.request_id, current, None),))
        return
    key = ("producer", producer_id)
    if key in session.opening:
        raise ServiceNotReady(f"producer {producer_id} is already being opened")
    session.opening[key] = command.request_id
    try:
        topic = await broker.topic(TopicName.parse(command.topic))
        initial = command.initial_subscription_name
        if initial and initial not in topic.subscriptions:
            await broker.create_subscription(topic, initial, topic.log.first_index)
        made = _make(session, command, topic, producer_id)
        if topic.dedup is not None:
            if not topic.dedup.is_settled(made.name):
                # Its last sequence id is known for certain once nothing of it is on its way.
                await broker.engine.flush()
            if not topic.dedup.is_settled(made.name):
                # The journal works, and has disowned what it could not answer for.
                topic.dedup.refused()
            topic.dedup.opened(made.name)
        epoch = signed64(command.topic_epoch) if command.HasField("topic_epoch") else None
        admission = topic.access.admit(made, made.mode, epoch)
        if admission.error is not None:
            raise admission.error
        made.waiting_request_id = command.request_id
        _enter(session, topic, made)
        broker.put_out(admission)
        if admission.standing is Standing.WAITING:
            session.write((replies.producer_success(command.request_id, made.name, ready=False),))
        else:
            await broker.grant(topic, admission)
    finally:
        session.opening.pop(key, None)


def _make(
    session: Session, command: pb.CommandProducer, topic: Topic, producer_id: int
) -> Producer:
    broker = session.broker
    made = Producer(
        producer_id,
        command.producer_name or broker.new_producer_name(),
        session,
        topic,
        name_is_given=command.user_provided_producer_name,
        epoch=command.epoch,
        mode=command.producer_access_mode,
        metadata={item.key: item.value for item in command.metadata},
        connected_since_ms=broker.clock.wall_ms(),
    )
    other = topic.producers.get(made.name)
    if other is not None:
        if not made.is_successor_of(other):
            raise ProducerBusy(f"producer {made.name} is already connected to {topic.name}")
        broker.remove_producer(other)
    limit = broker.settings.max_producers_per_topic
    if limit and len(topic.producers) >= limit:
        raise TooManyRequests(f"topic {topic.name} has {limit} producers already")
    return made


def _enter(session: Session, topic: Topic, made: Producer) -> None:
    topic.producers[made.name] = made
    session.add_producer(made)
