"""Starts the compaction of a topic, and shows its state."""

from __future__ import annotations

from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import compaction_run
from milepost.rest.audit import Asked
from milepost.rest.request import TOPIC, FoundTopic, OpenParts
from milepost.rest.route_access import Router

router = Router("compaction", Operation.ADMINISTER_TOPIC)


class CompactionStatus(BaseModel):
    """`status` is NOT_RUN, RUNNING, SUCCESS or ERROR."""

    status: str
    lastError: str


@router.put(f"{TOPIC}/compaction", status_code=204)
async def compact(asked: Asked, topics: OpenParts) -> None:
    """Keep the last message of each key for those who read compacted."""
    for topic in topics:
        compaction_run.start(asked.broker, topic)
        asked.note("compact", topic.name)


@router.get(f"{TOPIC}/compaction")
async def compaction_status(topic: FoundTopic) -> CompactionStatus:
    """How the last compaction went, or how the one that runs goes."""
    runs = topic.compactions
    return CompactionStatus(status=runs.status, lastError=runs.last_error)
