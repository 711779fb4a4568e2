"""FLOW: a consumer gives permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.connection.handlers.registry import hears
from milepost.broker.operations.reset import obeyed
from milepost.wire.commands import Kind
from milepost.wire.events import Flow

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@hears(Kind.FLOW)
def flow(session: Session, event: Flow) -> None:
    """Gives permits, counted in messages.

    - It never moves a cursor (PIP-194, stage 1).
    - Permits are debited by the messages that the client will really see (PIP-54).
    - One permit is enough for a batch or a chunked message to begin. It goes out whole and takes one
      permit for each message or chunk, so the sum may be below zero. The same holds for limits of unacked
      messages and for dispatch rates.
    - The sum is capped at 2^31 - 1. Zero permits, and permits of unknown consumers, are ignored.
    """
    consumer = session.consumers.get(event.consumer_id)
    if consumer is not None and event.permits:
        if consumer.subscription.owner.resets.waiting and not consumer.follows:
            # Official clients empty their queue before they ask anew.
            obeyed(session.broker, consumer)
        consumer.subscription.flow(consumer, event.permits)
