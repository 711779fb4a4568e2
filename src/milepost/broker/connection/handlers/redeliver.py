"""REDELIVER_UNACKNOWLEDGED_MESSAGES: negative acks and ack timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.broker.dispatch.consumer import NO_EPOCH
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.events import WireId

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session
    from milepost.broker.messages.ids_to_indexes import Named


@handles(Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES, needs=Operation.HELD)
def redeliver(session: Session, command: pb.CommandRedeliverUnacknowledgedMessages) -> Work:
    """Releases messages: on Shared and Key_Shared those named, each with its redelivery count one up, or
    all that the consumer holds; on Exclusive and Failover always all. The id of any chunk of a
    chunked message brings back all of it. Very many ids are obeyed in parts. `consumer_epoch` only grows
    (PIP-84). There is no answer."""
    consumer = session.consumers.get(signed64(command.consumer_id))
    if consumer is not None:
        ids = [WireId(signed64(m.ledgerId), signed64(m.entryId)) for m in command.message_ids]
        named: Named = None
        if session.protocol.part or session.protocol.has_more:
            # Obeyed in parts: a message that went out again between two parts is not meant by the second.
            if not session.protocol.part:
                session.released.clear()
            named = session.released
            dispatcher = consumer.subscription.dispatcher
            names_them = dispatcher is not None and dispatcher.releases_by_id
            if session.protocol.part and not (ids and names_them):
                return None
        epoch = signed64(command.consumer_epoch) if command.HasField("consumer_epoch") else NO_EPOCH
        consumer.subscription.redeliver(consumer, ids, epoch, named)
    return None
