"""What a client makes of what it hears, as short text."""

from __future__ import annotations

from typing import Any

from milepost.broker.dispatch.consumer import Consumer
from milepost.positions.ackset import AckSet
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.events import Delivery, Receipt, WireId
from milepost.wire.metadata import is_batch, message_count, split_entry
from stage.acksets import is_pending


def shown(delivery: Delivery) -> list[str]:
    """The payloads that a client shows to its user: of a batch those that its ack set leaves."""
    parts = split_entry(delivery.entry)
    if not is_batch(parts.metadata):
        return [parts.payload.decode()]
    count = message_count(parts.metadata)
    pending = AckSet.from_message_words(delivery.ack_set, count)
    return [
        message.payload.decode()
        for number, message in enumerate(split_batch(parts.payload, count))
        if is_pending(pending, number)
    ]


def got(consumer: Consumer | Any) -> list[str]:
    """The payloads that a consumer's client has got since it was last asked."""
    return [one for delivery in deliveries(consumer) for one in shown(delivery)]


def deliveries(consumer: Consumer | Any) -> list[Delivery]:
    """Take what was delivered to a consumer of a recording peer, or to a client."""
    taken: list[Delivery] = getattr(consumer, "peer", consumer).take_all(Delivery)
    return taken


def entry_ids(consumer: Consumer | Any) -> list[int]:
    return [delivery.entry_id for delivery in deliveries(consumer)]


def answers(peer: Any) -> list[str]:
    """What became of sends: `5 at 1:0`, or `5 ChecksumError`."""
    texts = []
    for event in peer.take():
        if isinstance(event, Receipt):
            texts.append(f"{event.sequence_id} at {event.ledger_id}:{event.entry_id}")
        elif isinstance(event, pb.CommandSendError):
            texts.append(f"{event.sequence_id} {pb.ServerError.Name(event.error)}")
    return texts


def id_of(delivery: Delivery, ack_set: tuple[int, ...] = ()) -> WireId:
    return WireId(delivery.ledger_id, delivery.entry_id, ack_set=ack_set)
