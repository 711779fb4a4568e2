"""GET_MESSAGE_ID_BY_INDEX: the lookup by index (PIP-415), a command of Milepost's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.messages.lookup_by_index import id_at
from milepost.positions import signed64
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.GET_MESSAGE_ID_BY_INDEX, needs=Operation.LOOK_UP)
async def message_id_by_index(session: Session, command: pb.CommandGetMessageIdByIndex) -> None:
    """The id of the message with an index, exact inside a batch (`batch_index`, `batch_size`); for the last
    chunk of a chunked message with its first chunk. As PIP-415 has it: an index that is trimmed is answered
    with the earliest id, one that points to a marker with the message behind it, one that is negative or
    not published yet is refused."""
    topic = await session.broker.topic(TopicName.parse(command.topic), create=False)
    found = await id_at(topic, signed64(command.index), session.broker.engine)
    session.write((replies.message_id_by_index(command.request_id, found),))
