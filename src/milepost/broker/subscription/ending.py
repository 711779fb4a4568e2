"""Tells consumers of a terminated topic that they have acked everything.

Not before: a message that one consumer holds may still go to another, or come again.

Only those whose client understands it: C++ clients up to 4.2.0 close their connection on the command.
"""

from __future__ import annotations

from milepost.broker.subscription.subscription import Subscription
from milepost.wire import replies
from milepost.wire.commands import Kind


def tell(subscription: Subscription) -> None:
    """REACHED_END_OF_TOPIC, if the topic is terminated and nothing of it is left to ack."""
    cursor = subscription.cursor
    # What is withheld waits for a chunk that will not come to a terminated topic.
    if not subscription.topic.is_terminated or cursor.backlog > cursor.withheld_count:
        return
    for consumer in subscription.consumers:
        if consumer.knows_end:
            continue
        consumer.knows_end = True
        if consumer.peer.understands(Kind.REACHED_END_OF_TOPIC):
            consumer.peer.write((replies.reached_end_of_topic(consumer.consumer_id),))
