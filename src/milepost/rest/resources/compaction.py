"""Starts the compaction of a topic, and shows its state."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import compaction_run
from milepost.rest import audit
from milepost.rest.request import TOPIC, AskedBroker, FoundTopic, OpenParts
from milepost.rest.route_access import needs

router = APIRouter(tags=["compaction"], dependencies=[needs(Operation.ADMINISTER_TOPIC)])


class CompactionStatus(BaseModel):
    """`status` is NOT_RUN, RUNNING, SUCCESS or ERROR."""

    status: str
    lastError: str


@router.put(f"{TOPIC}/compaction", status_code=204)
async def compact(request: Request, broker: AskedBroker, topics: OpenParts) -> None:
    """Keep the last message of each key for those who read compacted."""
    for topic in topics:
        compaction_run.start(broker, topic)
        audit.note(request, "compact", topic.name)


@router.get(f"{TOPIC}/compaction")
async def compaction_status(topic: FoundTopic) -> CompactionStatus:
    """How the last compaction went, or how the one that runs goes."""
    runs = topic.compactions
    return CompactionStatus(status=runs.status, lastError=runs.last_error)
