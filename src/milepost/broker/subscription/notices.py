"""What consumers are told unasked: who is active, that the cursor was moved, that the topic has ended.

An official client is never sent what it does not list (`wire/peer.py`); what is Milepost's own goes only
to consumers that asked for it when they subscribed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.dispatch.consumer import Consumer
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription


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


def tell_end(subscription: Subscription) -> None:
    """REACHED_END_OF_TOPIC, if the topic is terminated and nothing of it is left to ack.

    Not before: a message that one consumer holds may still go to another, or come again. C++ clients
    up to 4.2.0 close their connection on the command, and are not told.
    """
    cursor = subscription.cursor
    # What is withheld waits for a chunk that will not come to a terminated topic.
    topic = subscription.topic
    if not topic.is_terminated or cursor.backlog > cursor.withheld_count:
        return
    if topic.visible_end < topic.log.end_index:
        return  # messages of an open transaction may be still to come
    for consumer in subscription.consumers:
        if consumer.knows_end:
            continue
        consumer.knows_end = True
        if consumer.peer.understands(Kind.REACHED_END_OF_TOPIC):
            consumer.peer.write((replies.reached_end_of_topic(consumer.consumer_id),))
