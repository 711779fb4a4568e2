"""UNSUBSCRIBE: a client deletes its subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.subscription.broadcast import MemberSubscription
from milepost.errors import NotFound, SubscriptionInUse
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.UNSUBSCRIBE, needs=Operation.HELD)
async def unsubscribe(session: Session, command: pb.CommandUnsubscribe) -> None:
    """Deletes the subscription. Only its single consumer may, or one that says `force`: then the others
    are closed. A member of a broadcast group leaves it for good; the group stays."""
    consumer = session.consumers.get(signed64(command.consumer_id))
    if consumer is None:
        raise NotFound(f"this connection has no consumer {signed64(command.consumer_id)}")
    subscription = consumer.subscription
    if len(subscription.consumers) > 1 and not command.force:
        raise SubscriptionInUse(
            f"subscription {subscription.name} has {len(subscription.consumers)} consumers"
        )
    session.broker.remove_consumer(consumer, keep=True)
    if isinstance(subscription, MemberSubscription):
        await session.broker.forget_member(subscription)
    else:
        await session.broker.delete_subscription(subscription)
    session.write((replies.success(command.request_id),))
