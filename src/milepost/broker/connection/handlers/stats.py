"""CONSUMER_STATS: the broker's numbers of one consumer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.errors import NotFound
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.CONSUMER_STATS, needs=Operation.HELD)
def consumer_stats(session: Session, command: pb.CommandConsumerStats) -> Work:
    """Permits, unacked messages, whether it is blocked, and the backlog in messages. Rates are averages
    since the consumer connected."""
    consumer = session.consumers.get(signed64(command.consumer_id))
    if consumer is None:
        raise NotFound(f"this connection has no consumer {signed64(command.consumer_id)}")
    subscription = consumer.subscription
    now_ms = session.broker.clock.wall_ms()
    seconds = max(now_ms - consumer.connected_since_ms, 1) / 1000
    since = datetime.fromtimestamp(consumer.connected_since_ms / 1000, UTC)
    dispatcher = subscription.dispatcher
    answer = pb.CommandConsumerStatsResponse(
        request_id=command.request_id,
        msgRateOut=consumer.messages_out / seconds,
        msgThroughputOut=consumer.bytes_out / seconds,
        msgRateRedeliver=consumer.messages_redelivered / seconds,
        consumerName=consumer.name,
        availablePermits=max(consumer.permits, 0),
        unackedMessages=max(consumer.unacked, 0),
        blockedConsumerOnUnackedMsgs=consumer.is_blocked,
        address=consumer.peer.address,
        connectedSince=since.isoformat(timespec="milliseconds"),
        type=dispatcher.type_name if dispatcher else "",
        msgRateExpired=0.0,
        msgBacklog=subscription.cursor.backlog,
        messageAckRate=consumer.messages_acked / seconds,
    )
    session.write((replies.reply(answer),))
    return None
