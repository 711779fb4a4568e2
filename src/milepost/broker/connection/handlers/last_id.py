"""GET_LAST_MESSAGE_ID: the last message of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.errors import NotAllowed, NotFound
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.GET_LAST_MESSAGE_ID, needs=Operation.HELD)
def get_last_message_id(session: Session, command: pb.CommandGetLastMessageId) -> Work:
    """The newest message that is no marker (with its batch index, if it came in a batch; -1:-1 if there
    is none), and the subscription's mark-delete position, current also right after a seek."""
    consumer = session.consumers.get(signed64(command.consumer_id))
    if consumer is None:
        raise NotFound(f"this connection has no consumer {signed64(command.consumer_id)}")
    topic = consumer.subscription.topic
    if not topic.name.is_persistent:
        raise NotAllowed(f"{topic.name} is not persistent: it has no last message")
    partition = topic.name.partition
    view = topic.compacted if consumer.subscription.reads_compacted else None
    found = topic.last_dispatchable(view)
    if found is None:
        last = replies.message_id_data(-1, -1, partition)
    else:
        position, batch_index = found
        last = replies.message_id_data(*position, partition, batch_index)
    mark_delete = topic.acked_position(consumer.subscription.cursor.mark_delete_index)
    acked = None
    if mark_delete.ledger_id >= 0:
        acked = replies.message_id_data(*mark_delete, partition)
    session.write((replies.last_message_id(command.request_id, last, acked),))
    return None
