"""SEEK: a client moves its cursor. PIP-194: with a consumer epoch, in place and without a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.broker.messages.ids_to_indexes import index_start, start_index, start_index_at
from milepost.broker.operations.reset import obeyed
from milepost.broker.topic.topic import Topic
from milepost.errors import InvalidInput, NotFound, PersistenceError
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


_ECHO = {"consumer_id", "request_id", "consumer_epoch"}


@handles(Kind.SEEK, needs=Operation.HELD)
def seek(session: Session, command: pb.CommandSeek) -> Work:
    """Moves the subscription to a message id, or to the first message not before a time. Exact inside a
    batch when the client says where (`batch_index`, or `ack_set` as Java does); a chunked message's id
    means its first chunk; earliest and latest, and ids that are no longer there, go to the nearest that
    is. `index` (Milepost's own field) is the dense index itself: one that is trimmed means the first that
    is not, the end means what comes next, one behind it is an error. With `consumer_epoch` (PIP-194) the
    consumer stays, its permits start again at its next FLOW, and every message from now on carries the
    new epoch, which must be higher than the old one. Without it the consumers that share the cursor are
    closed and come back at the target, and never get a message after the close. SUCCESS means that the
    new position is on disk.

    A consumer that subscribed with a `consumer_epoch` and the property `milepost.reset=in-place` is not
    closed when another client or an operator moves its cursor: the broker sends it SEEK with its new
    epoch, at once. It drops what it holds and every message of an older epoch, gives the permits of all
    that it drops back with FLOW, and says that it has obeyed with a SEEK of that epoch and no target,
    which is answered with SUCCESS; its acks until then are answered and change nothing. `cursor_epoch`
    (Milepost's own field, here and in the SUCCESS of SEEK and SUBSCRIBE to such consumers) says how often
    the cursor was moved. One that sends what it knows of in SUBSCRIBE, and has missed a move, is sent SEEK
    right behind its SUCCESS.
    """
    consumer = session.consumers.get(signed64(command.consumer_id))
    if consumer is None:
        raise NotFound(f"this connection has no consumer {signed64(command.consumer_id)}")
    subscription = consumer.subscription
    if consumer.follows and _is_echo(command, consumer.epoch):
        if signed64(command.consumer_epoch) == consumer.owes_echo:
            consumer.owes_echo = None
        if signed64(command.consumer_epoch) == consumer.epoch:  # else a later epoch is on its way
            obeyed(session.broker, consumer)
        session.write((replies.success(command.request_id),))
        return None
    index = _target(subscription.topic, command)

    # A consumer that is closed hears CLOSE_CONSUMER before SUCCESS: the other way round the client takes the
    # seek for one in place. A reader's seek is done at once, so its answer may have to wait here.
    early: list[bytes] = []
    is_told = False

    def done(error: PersistenceError | None) -> None:
        if error is None:
            session.broker.counters.seeks += 1
            epoch = subscription.cursor.epoch if consumer.follows else None
            answer = replies.success(command.request_id, cursor_epoch=epoch)
        else:
            answer = replies.error(command.request_id, error.wire_code, str(error))
        if is_told:
            session.write((answer,))
        else:
            early.append(answer)

    if command.HasField("consumer_epoch"):
        epoch = signed64(command.consumer_epoch)
        closed = subscription.seek_in_place(consumer, index, epoch, done)
    else:
        closed = subscription.seek(index, done)
    for other in closed:
        session.broker.tell_closed(other)
    is_told = True
    session.write(early)
    return None


def _is_echo(command: pb.CommandSeek, epoch: int) -> bool:
    """Does the client say that it has obeyed a SEEK of ours: an epoch that we gave, and no target?"""
    said = {field.name for field, _ in command.ListFields()}
    return said == _ECHO and signed64(command.consumer_epoch) <= epoch


def _target(topic: Topic, command: pb.CommandSeek) -> int:
    if command.HasField("message_id"):
        target = command.message_id
        ledger_id, entry_id = signed64(target.ledgerId), signed64(target.entryId)
        if target.HasField("first_chunk_message_id"):
            first = target.first_chunk_message_id
            if (signed64(first.ledgerId), signed64(first.entryId)) > (ledger_id, entry_id):
                raise InvalidInput(
                    f"a chunked message that ends at {ledger_id}:{entry_id} before it begins"
                )
        return start_index(
            topic, ledger_id, entry_id, batch_index=target.batch_index, ack_set=target.ack_set
        )
    if command.HasField("message_publish_time"):
        return start_index_at(topic, signed64(command.message_publish_time))
    if command.HasField("index"):
        return index_start(topic, signed64(command.index))
    raise InvalidInput("a seek to neither a message id, a time nor an index")
