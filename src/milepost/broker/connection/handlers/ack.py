"""ACK: a consumer says what it is done with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from milepost.broker.connection.handlers.registry import Unfinished, hears
from milepost.broker.messages import ids_to_indexes
from milepost.broker.metrics.counters import error_name
from milepost.broker.subscription import pending_acks
from milepost.errors import MilepostError, PersistenceError
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.wire import replies
from milepost.wire.commands import Kind
from milepost.wire.events import Ack, WireId
from milepost.wire.scanners.ack_slices import distinct
from milepost.wire.scanners.encode import ack_response

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session

Done: TypeAlias = Callable[[MilepostError | None], None]


@hears(Kind.ACK)
def ack(session: Session, event: Ack) -> None:
    """Acknowledges messages, individually or cumulatively.

    - An id stands for a whole entry, or by `ack_set` for single messages of a batch (PIP-54). Sets are
      merged by AND; bits beyond the batch are ignored.
    - ACK_RESPONSE leaves when the ack is on disk.
    - The id of a chunked message's last chunk acks all its chunks. The id of another chunk acks nothing.
      A cumulative ack leaves chunked messages that end later.
    - Acks of messages that were delivered before a seek, and not again since, change nothing and are
      answered.
    - An id of an entry, an ack set and a cumulative ack do not speak for messages that the consumer was not
      shown: those that a transaction has acked, or that an abort has brought back alone. Nor does an ack of
      an entry for those that the consumer has acked in a transaction, nor a cumulative ack of it if they are
      its last. An id that names nothing else is taken at its word.
    - A cumulative ack on Shared or Key_Shared is answered and ignored, as upstream does.
    - An ack for a consumer that is not there is dropped.
    - An id that is not there is an error for the command; its other ids are acked all the same.
    - An ack in a transaction (`txnid_most_bits`, `txnid_least_bits`) is pending until the transaction
      ends. The subscription must have been added to it. A message that is acked, or pending in another
      transaction, is `TransactionConflict`, and nothing of that ack counts; nor does one that the disk
      refuses, whose messages are ready again. One of more than 10,000 ids or
      ranges of batch indexes is `TooManyRequests`: it is obeyed as a whole, and others wait meanwhile.
    - Sets that come to more than 250,000 ranges are `TooManyRequests`.
    - An ack of very many ids, or of messages of very many chunks, is obeyed in parts, with turns of other
      clients between them, and answered once.
    """
    whole, rest = event, None
    if len(event.ids) > 1 and not event.is_cumulative and event.transaction is None:
        event, rest = _first_part(session, event)
    failures = session.ack_failures
    if event.goes_on:
        if failures is None:
            failures = session.ack_failures = []
        done: Done = partial(_note_failure, failures)
    else:
        session.ack_failures = None
        session.broker.counters.acks += 1
        done = partial(_answer, session, event.consumer_id, event.request_id, failures)
    consumer = session.consumers.get(event.consumer_id)
    if consumer is None:
        return  # upstream: an ack for a consumer that is gone is dropped, even one with a request
    subscription = consumer.subscription
    obey = subscription.ack
    if event.transaction is not None:
        obey = pending_acks.pend
        topic = subscription.topic
        try:
            session.broker.transactions.coordinator.check_ack(
                event.transaction, topic.row.name, subscription.name, session.role
            )
        except MilepostError as error:
            done(error)
            return
    asked = event if len(event.ids) <= 1 else event._replace(ids=distinct(event.ids))
    try:
        obey(consumer, asked, done)
    except NotInMemory:
        # The session calls again with the same event, which is one ack.
        session.ack_failures = failures
        session.broker.counters.acks -= not event.goes_on
        raise
    except OSError as error:  # what the ids mean cannot be read from the disk
        done(PersistenceError(str(error)))
    if rest:
        raise Unfinished(whole._replace(ids=rest))


def _note_failure(failures: list[MilepostError], error: MilepostError | None) -> None:
    """A part of an ack, of which more follows, is durable or failed."""
    if error is not None:
        failures.append(error)


def _answer(
    session: Session,
    consumer_id: int,
    request_id: int | None,
    failures: list[MilepostError] | None,
    error: MilepostError | None,
) -> None:
    """An ack, or the last part of one, is durable or failed. `failures`: of the parts before it."""
    if failures and error is None:
        error = failures[0]
    if error is not None:
        session.broker.counters.acks_refused[error_name(error)] += 1
    if request_id is None:
        return
    if error is None:
        session.write((ack_response(consumer_id, request_id),))
    else:
        code, text = error.wire_code, str(error)
        session.write((replies.ack_failed(consumer_id, request_id, code, text),))


def _first_part(session: Session, event: Ack) -> tuple[Ack, list[WireId]]:
    """What of an ack is obeyed now, and the ids that are left."""
    consumer = session.consumers.get(event.consumer_id)
    if consumer is None or not consumer.subscription.topic.chunked.has_wholes:
        return event, []
    ids = distinct(event.ids)
    count = ids_to_indexes.ids_at_once(consumer.subscription.topic, ids)
    if count == len(ids):
        return event, []
    return event._replace(ids=ids[:count], goes_on=True), ids[count:]
