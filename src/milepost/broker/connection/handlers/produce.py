"""PRODUCER: a client asks for the right to publish.

SEND itself is the session's, being hot (see topic.publish).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.broker.auth.authorizer import Target
from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.connection.handlers.schema import schema_of
from milepost.broker.operations import backlog_quota
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.producer_access import Admission, Standing
from milepost.broker.topic.topic import Topic
from milepost.errors import (
    AlreadyExists,
    EncryptionRequired,
    NotAllowed,
    ProducerBusy,
    ServiceNotReady,
)
from milepost.positions import signed64
from milepost.positions.labels import check_label
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind
from milepost.wire.extensions import NEEDS_DEDUPLICATION, asks

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.PRODUCER, needs=Operation.PRODUCE)
async def producer(session: Session, command: pb.CommandProducer) -> None:
    """Opens a producer. Names are given or generated; a name in use is `ProducerBusy` unless the same
    connection opens it again with a higher `epoch`. All four access modes with topic epochs: a second
    exclusive producer is `ProducerFenced`, one that waits gets `producer_ready = false` first.
    `initial_subscription_name` is created at the earliest message before the first publish.
    `last_sequence_id` is known where deduplication is on. A `schema` is registered, or found among the
    topic's, before anything else happens, and its version answered; one that cannot be read, or that the
    strategy refuses, is `IncompatibleSchema`. A producer with `milepost.needs-deduplication` in its metadata
    is refused with `NotAllowed` where the topic does not deduplicate. Encryption is the clients' own; where a
    namespace requires it, one that is not `encrypted` is a `MetadataError`."""
    broker = session.broker
    producer_id = signed64(command.producer_id)
    key = ("producer", producer_id)
    if key in session.opening:
        raise ServiceNotReady(f"producer {producer_id} is already being opened")
    current = session.producers.get(producer_id)
    if current is not None and not command.epoch > current.epoch:
        _answer_again(session, current, command.request_id)
        return
    initial = command.initial_subscription_name
    check_label("producer", command.producer_name)
    check_label("subscription", initial)
    if initial:
        target = Target.of_topic(TopicName.parse(command.topic), initial)
        broker.access_control.check(session.credentials.identity, Operation.CONSUME, target)
    session.opening[key] = command
    try:
        topic = await broker.topic(TopicName.parse(command.topic))
        topic.check_published_to()
        past_quota = await broker.engine.look(
            lambda: backlog_quota.refusal(topic, broker.clock.wall_ms())
        )
        if past_quota is not None:
            raise past_quota
        _check_encryption(topic, command)
        _check_deduplication(topic, command)
        schema_version = await broker.schemas.admit_producer(topic.name, schema_of(command))
        if initial and initial not in topic.subscriptions:
            with suppress(AlreadyExists):  # two producers at once: the other one was first
                await broker.create_subscription(topic, initial, topic.log.first_index)
        made = _make(session, command, topic, producer_id, schema_version)
        admission = await _let_in(session, command, made)
        if admission is not None and admission.standing is Standing.WAITING:
            session.write((replies.producer_success(command.request_id, made.name, ready=False),))
        elif admission is not None:
            await broker.admissions.grant(topic, admission)
    finally:
        if session.opening.get(key) is command:
            del session.opening[key]


async def _let_in(
    session: Session, command: pb.CommandProducer, made: Producer
) -> Admission[Producer] | None:
    """Let a producer in, or into the line; None if the client does not want it any more."""
    admissions, topic = session.broker.admissions, made.topic
    had_place = _make_way(session, made)
    try:
        await _settle(session, made)
        if not session.is_opening(("producer", made.producer_id), command):
            return None
        _make_way(session, made)  # another producer may have come meanwhile
        topic.check_published_to()
        _check_encryption(topic, command)
        _check_deduplication(topic, command)
        # From here on nothing waits until the producer is in.
        admission = _admit(session, command, made)
        made.waiting_request_id = command.request_id
        topic.producers[made.name] = made
        session.add_producer(made)
        admissions.put_out(admission)
        return admission
    finally:
        if had_place:
            admissions.give_place_up(topic)


def _check_encryption(topic: Topic, command: pb.CommandProducer) -> None:
    if topic.policies.encryption_required and not command.encrypted:
        raise EncryptionRequired(f"encryption is required in {topic.name}")


def _check_deduplication(topic: Topic, command: pb.CommandProducer) -> None:
    if topic.dedup is None and asks(command, NEEDS_DEDUPLICATION):
        raise NotAllowed(
            f"{topic.name} does not deduplicate, and the producer needs it: switch deduplication on "
            f"(milepost topics set-deduplication -e {topic.name.base.text})"
        )


def _answer_again(session: Session, current: Producer, request_id: int) -> None:
    """A client that asks twice has missed the first answer."""
    if current.waiting_request_id is not None:
        current.waiting_request_id = request_id
        session.write((replies.producer_success(request_id, current.name, ready=False),))
    else:
        access = current.topic.access
        epoch = access.epoch if access.is_alone(current) else None
        session.write((session.broker.admissions.success(request_id, current, epoch),))


def _make(
    session: Session,
    command: pb.CommandProducer,
    topic: Topic,
    producer_id: int,
    schema_version: bytes | None,
) -> Producer:
    broker = session.broker
    return Producer(
        producer_id,
        command.producer_name or broker.new_producer_name(),
        session,
        topic,
        name_is_given=command.user_provided_producer_name,
        epoch=command.epoch,
        mode=command.producer_access_mode,
        metadata={item.key: item.value for item in command.metadata},
        connected_since_ms=broker.clock.wall_ms(),
        schema_version=schema_version,
        encrypts=command.encrypted,
    )


def _make_way(session: Session, made: Producer) -> bool:
    """End those in whose place the new one comes, or say why it may not. Whether it had the topic alone
    itself: its place is kept from those in line then."""
    broker, topic = session.broker, made.topic
    other, had_place = topic.producers.get(made.name), False
    limit = topic.policies.max_producers
    if other is not None:
        if not made.is_successor_of(other):
            raise ProducerBusy(f"producer {made.name} is already connected to {topic.name}")
        had_place = topic.access.is_alone(other)
        broker.admissions.remove(other, comes_again=True)
    current = session.producers.get(made.producer_id)
    if current is not None:
        broker.admissions.remove(current)
    if limit and len(topic.producers) >= limit:
        if had_place:
            broker.admissions.give_place_up(topic)
        raise ProducerBusy(f"topic {topic.name} has {limit} producers already")
    return had_place


async def _settle(session: Session, made: Producer) -> None:
    """Wait until nothing of the producer is on its way: its last sequence id is certain then."""
    dedup = made.topic.dedup
    if dedup is None or dedup.is_settled(made.name):
        return
    await session.broker.engine.flush()
    if not dedup.is_settled(made.name):
        # The journal works again. Sends whose outcome was unknown are refused now, and may come again.
        dedup.disowned(made.name)


def _admit(session: Session, command: pb.CommandProducer, made: Producer) -> Admission[Producer]:
    topic = made.topic
    if topic.dedup is not None:
        topic.dedup.opened(made.name)
        if topic.dedup.is_crowded:
            session.broker.housekeeping.forget_producers()
    epoch = signed64(command.topic_epoch) if command.HasField("topic_epoch") else None
    admission = topic.access.admit(made, made.mode, epoch)
    if admission.error is not None:
        if topic.dedup is not None:
            topic.dedup.closed(made.name, session.broker.clock.monotonic())
        raise admission.error
    return admission
