"""SEND: a producer publishes.

SENDs are too many to become protobuf commands: the scanner makes one event of those of one producer that
came together, and the session calls `send` with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.connection.handlers.registry import hears
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.storage.ledgers.paging import UNREADABLE
from milepost.wire.commands import Kind
from milepost.wire.events import Sends

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@hears(Kind.SEND)
def send(session: Session, event: Sends) -> None:
    """Publishes an entry: a message, a batch or a chunk.

    - The entry is stored as sent, with the index of its last message and a timestamp beside it.
      Compression and encryption are passed through.
    - The number of messages comes from the metadata, not from `num_messages`.
    - Receipts leave in order, when the entry is on disk. `highest_sequence_id` is honoured and echoed.
    - With deduplication a repeated sequence id is answered with id -1:-1 and stored once, batches and
      chunked messages included.
    - A chunk that continues a message and is stored already is answered with its id, also without
      deduplication. No chunk is delivered before its message is whole (PIP-107).
    - Entries with a `marker_type` are stored and indexed, and never dispatched.
    - A message of a transaction takes an index and is durable, and is not delivered before the
      transaction is committed, nor anything behind it. The topic must have been added to it. All chunks of
      a message are of one transaction, or of none: another one is `NotAllowedError`.
    - A wrong checksum is `ChecksumError` for that message alone; entries without a checksum are taken.
    - Metadata that no client could read, or that contradicts itself or its payload, is
      `NotAllowedError`. So is, with deduplication, metadata that names another producer.
    - Behind a SEND that the disk has refused nothing of its producer is stored: each is `PersistenceError`,
      and when all are answered the producer is closed. Its client opens it again and resends in order.
    - A SEND for a producer that was closed is dropped. For one that never was, or that still
      waits for exclusive access, the connection is closed.
    """
    producer = session.producers.get(event.producer_id)
    if producer is None:
        if event.producer_id not in session.closed_producers:
            session.broker.counters.frames_refused["unknown_producer"] += 1
            session.fail(
                f"SEND for producer {event.producer_id}, which is not open on this connection"
            )
        return
    if producer.waiting_request_id is not None:
        session.broker.counters.frames_refused["producer_not_ready"] += 1
        session.fail(f"SEND for {producer}, which still waits for exclusive access")
        return
    session.began(len(event.sends))
    if session.singles.publish(producer, event.sends):
        return
    topic = producer.topic
    try:
        publication = topic.publish(producer, event.sends)
    except NotInMemory:
        session.began(-len(event.sends))
        raise
    except UNREADABLE as error:  # earlier chunks of these messages cannot be read
        session.began(-len(event.sends))
        session.fail(f"SEND for {producer}: {error}")
        return
    if topic.throttle is not None:
        topic.throttle.published(session, publication.count, publication.size_bytes)
    if topic.group_throttle is not None:
        topic.group_throttle.published(session, publication.count, publication.size_bytes)
