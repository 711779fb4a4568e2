"""What consumers are told unasked: ACTIVE_CONSUMER_CHANGE, and SEEK after a reset.

An official client is never sent what it does not list (`wire/peer.py`); what is Milepost's own goes only
to consumers that asked for it when they subscribed.
"""

from __future__ import annotations

from milepost.broker.dispatch.consumer import Consumer
from milepost.wire import replies
from milepost.wire.commands import Kind


def tell_active(consumer: Consumer, is_active: bool) -> None:
    """ACTIVE_CONSUMER_CHANGE, to a consumer of a Failover subscription."""
    if not consumer.is_closed and consumer.peer.understands(Kind.ACTIVE_CONSUMER_CHANGE):
        consumer.peer.write((replies.active_consumer_change(consumer.consumer_id, is_active),))


def tell_sought(consumer: Consumer) -> None:
    """SEEK from the broker, to a consumer that follows in place: ahead of every message of its new
    epoch, and at once, however idle it is."""
    assert consumer.follows, consumer
    cursor_epoch = consumer.subscription.cursor.epoch
    consumer.peer.write((replies.sought(consumer.consumer_id, consumer.epoch, cursor_epoch),))
