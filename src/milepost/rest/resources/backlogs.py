"""The backlog of a subscription, analysed.

    POST …/subscription/billing/analyzeBacklog      {"ledgerId": 7, "entryId": 2}

Without a position, or with the earliest, all of it. No entry is filtered here, so what upstream says of its
filters says that every entry was accepted.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Body
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import SHORT_WORK_S, TimeSlices
from milepost.broker.messages.backlog_scan import scan
from milepost.positions.ids import Position
from milepost.rest.request import AskedBroker, OpenTopic, subscription_of
from milepost.rest.resources.maintenance import GivenPosition
from milepost.rest.resources.subscriptions import SUBSCRIPTION
from milepost.rest.route_access import Router

router = Router("subscriptions", Operation.CONSUME)


class BacklogAnalysis(BaseModel):
    """`messages` are those that are not acked; upstream counts their neighbours in a batch too."""

    entries: int
    messages: int
    markerMessages: int
    filterRejectedEntries: int = 0
    filterAcceptedEntries: int
    filterRescheduledEntries: int = 0
    filterRejectedMessages: int = 0
    filterAcceptedMessages: int
    filterRescheduledMessages: int = 0
    aborted: bool = False
    firstMessageId: str | None = None
    lastMessageId: str | None = None


@router.post(f"{SUBSCRIPTION}/analyzeBacklog", response_model_exclude_none=True)
async def analyze_backlog(
    broker: AskedBroker,
    topic: OpenTopic,
    subscription: str,
    at: Annotated[GivenPosition | None, Body()] = None,
) -> BacklogAnalysis:
    """Count what a subscription has not acked, from a position on."""
    one = subscription_of(topic, subscription)
    index = 0
    if at is not None and at.ledgerId >= 0:
        position = Position(at.ledgerId, max(at.entryId, 0))
        index = await broker.engine.look(lambda: topic.log.index_from(position))
    found = await scan(
        one.cursor, one.topic.log, index, TimeSlices(broker.clock, SHORT_WORK_S), broker.engine
    )
    return BacklogAnalysis(
        entries=found.entries,
        messages=found.messages,
        markerMessages=found.markers,
        filterAcceptedEntries=found.entries,
        filterAcceptedMessages=found.messages,
        firstMessageId=None if found.first is None else str(found.first),
        lastMessageId=None if found.last is None else str(found.last),
    )
