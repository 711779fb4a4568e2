"""CLOSE_PRODUCER and CLOSE_CONSUMER, from the client."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.errors import PersistenceError
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.CLOSE_PRODUCER, needs=Operation.HELD)
async def close_producer(session: Session, command: pb.CommandCloseProducer) -> None:
    """Ends a producer; SUCCESS comes behind the receipts of what it sent. One that is not there was
    closed already: SUCCESS."""
    producer_id = signed64(command.producer_id)
    session.opening.pop(("producer", producer_id), None)
    producer = session.producers.get(producer_id)
    if producer is not None:
        if producer.pending:
            with suppress(PersistenceError):  # then its sends were answered with errors
                await session.broker.engine.flush()
        session.broker.admissions.remove(producer)
    session.write((replies.success(command.request_id),))


@handles(Kind.CLOSE_CONSUMER, needs=Operation.HELD)
async def close_consumer(session: Session, command: pb.CommandCloseConsumer) -> None:
    """Ends a consumer: what it holds is ready for others at once. SUCCESS comes when its acks are on
    disk; one that is not there was closed already."""
    consumer_id = signed64(command.consumer_id)
    session.opening.pop(("consumer", consumer_id), None)
    consumer = session.consumers.get(consumer_id)
    if consumer is not None:
        consumer.subscription.flush_acks()
        session.broker.remove_consumer(consumer)
        await session.broker.engine.flush()
    session.write((replies.success(command.request_id),))
