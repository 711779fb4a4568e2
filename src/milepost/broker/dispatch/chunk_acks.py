"""What acks, skips and give-backs mean for chunked messages: all chunks of a message, or none.

Clients name a chunked message by its last chunk, or by the chunks that they have; a cumulative ack names
what lies behind it. Here that becomes ranges of whole messages. Changes the cursor for cumulative acks, and
for handovers that are called off or cut short.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.messages import ids_to_indexes
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.spans import Span
from milepost.storage.ledgers.not_in_memory import taken_together

if TYPE_CHECKING:
    from milepost.broker.dispatch.chunk_handover import Handover
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.messages.ids_to_indexes import Named
    from milepost.broker.subscription.subscription import Subscription
    from milepost.cursor.outcomes import Acked
    from milepost.wire.events import WireId


def unmet_chunks(subscription: Subscription, end: int) -> list[Range]:
    """The chunks of messages that end below an index, and whose end was not met yet: those that were met
    wait for it. Of messages that end later, the gate knows the chunks behind this, though none was met."""
    gate, topic, cursor = subscription.gate, subscription.topic, subscription.cursor
    first = gate.unsure_from
    if first is None or first >= end:
        return []
    chunks = topic.chunks_within(first, min(end, cursor.end))
    if not chunks:
        return []
    found = taken_together(
        partial(topic.chunk_ranges, chunk.ledger_id, chunk.entry_id)
        for chunk in chunks
        if chunk.is_last and gate.message_of(chunk.log_index) is None
    )
    ending = [one for ranges in found for one in ranges]
    later = IndexRanges(
        (chunk.log_index, chunk.log_index + 1)
        for chunk in chunks
        if not chunk.is_last and cursor.is_ready(chunk.log_index)
    )
    later.discard_all(IndexRanges(ending))
    gate.note_parts(later)
    return ending


def acked_end(subscription: Subscription, message_id: WireId, holder: int) -> int:
    """Behind the last index that a cumulative ack of an id means."""
    unshown, by_index = subscription.unshown, subscription.limits.batch_index_ack
    meant = unshown.end_meant_by(holder) if unshown.in_use else None
    return ids_to_indexes.acked_end(
        subscription.topic, message_id, batch_index_ack=by_index, meant=meant
    )


def ack_up_to(subscription: Subscription, end: int, holder: int) -> Acked:
    """Obey a cumulative ack; it leaves what its sender was not shown, too."""
    cursor, unshown = subscription.cursor, subscription.unshown
    if end > cursor.end or cursor.is_stale(end - 1):
        # Nothing is acked: the gate must not take it that cumulative acks have come so far.
        return cursor.ack_up_to(end, holder)
    # First: where those lie may have to be read, and then this is heard again.
    unmet = unmet_chunks(subscription, end)
    hidden = unshown.hidden_below(end, holder) if unshown.in_use else None
    ranges = subscription.gate.ack_ranges(end, hidden)
    if ranges is not None:
        ranges += unmet
    if hidden is not None:
        covered = [(cursor.first, end)] if ranges is None else ranges
        # Of what is left, for what is acked between the hidden ones was named by each ack before.
        left = cursor.backlog_ranges()
        left.discard_all(hidden)
        ranges = [piece for one in covered for piece in left.within(*one)]
    if ranges is None:
        return cursor.ack_up_to(end, holder)
    return cursor.skip_ranges(ranges, holder)


def call_off(subscription: Subscription) -> list[Acked]:
    """Do not send messages whose beginning was acked before a chunk of them went out; acks the rest."""
    rests: list[Acked] = []
    if not subscription.topic.name.is_persistent:
        return rests  # acked when a consumer was chosen: that says nothing of what was sent
    cursor, handovers = subscription.cursor, subscription.handovers
    for handover in handovers.not_begun():
        if cursor.is_acked(Span(handover.next_index, 1)):
            handovers.drop(handover)
            subscription.gate.end(handover.message)
            rests.append(cursor.skip_ranges(handover.message.ranges, handover.consumer.holder))
    return rests


def whole_messages(
    subscription: Subscription, asked: Sequence[Range], consumer: Consumer, named: Named = None
) -> list[Range]:
    """The same ranges, and all chunks of the messages that they have chunks of. Official clients
    name the last chunk only, or those that they have; without the others it is nothing. A message
    that waits for the disk is on its way: the client means an older delivery, and nothing stops.
    `named` learns of all chunks: later parts of the same command may name more of them."""
    ranges = list(asked)
    going = consumer.handover if consumer.held is None else None
    for first, end in asked:
        if end - first == 1 and (message := subscription.gate.message_of(first)) is not None:
            ranges += message.ranges
            if named is not None:
                for one in message.ranges:
                    named.add(*one)
            if going is not None and going.message is message:
                subscription.handovers.drop(going)
                going = None
    return ranges


def cut_short(subscription: Subscription, handover: Handover) -> None:
    """A chunk of a message that has begun cannot be read: its owner gives the message back."""
    subscription.handovers.drop(handover)
    message, consumer = handover.message, handover.consumer
    released = subscription.cursor.release(message.ranges, consumer.holder, count=False)
    consumer.unacked -= released.count
    subscription.unacked -= released.count
    subscription.gate.forget(message)
    if subscription.dispatcher is not None:
        subscription.dispatcher.settled(message.ranges)
    subscription.unblock()
