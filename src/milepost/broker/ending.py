"""Ending: consumers of a terminated topic that have got everything are told so, each once.

Only those whose client understands it: C++ clients up to 4.2.0 close their connection on the command.
"""

from __future__ import annotations

from milepost.broker.subscription import Subscription
from milepost.wire import replies
from milepost.wire.commands import Kind


def tell(subscription: Subscription) -> None:
    """REACHED_END_OF_TOPIC, if there is nothing more to come."""
    from milepost.broker.session import Session  # which needs the handlers, and they need this

    cursor = subscription.cursor
    has_more = cursor.first_ready is not None or cursor.next_due_ms is not None
    if not subscription.topic.is_terminated or has_more:
        return
    for consumer in subscription.consumers:
        session = consumer.peer
        if consumer.knows_end or not isinstance(session, Session):
            continue
        consumer.knows_end = True
        peer = session.protocol.peer
        if peer is not None and peer.understands(Kind.REACHED_END_OF_TOPIC):
            session.write((replies.reached_end_of_topic(consumer.consumer_id),))
