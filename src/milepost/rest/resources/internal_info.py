"""What the catalog knows of a topic: ledgers, cursors, creation.

Where statistics show what is, this shows what would be found after a restart; it opens the topic for it. A
partitioned topic answers for each of its partitions.
"""

from __future__ import annotations

from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.messages.entry_view import time_text
from milepost.broker.monitoring import stats
from milepost.broker.topic.topic import Topic
from milepost.rest.audit import Asked
from milepost.rest.request import TOPIC, AskedTopic, open_parts
from milepost.rest.resources.topics import Properties
from milepost.rest.route_access import Router

router = Router("statistics", Operation.LOOK_UP)


class LedgerInfo(BaseModel):
    ledgerId: int
    entries: int
    size: int
    timestamp: int
    isOffloaded: bool = False


class PositionInfo(BaseModel):
    ledgerId: int
    entryId: int


class CursorInfo(BaseModel):
    version: int
    cursorsLedgerId: int = -1
    markDelete: PositionInfo
    properties: Properties = {}


class TopicInfo(BaseModel):
    """`version` counts the partitions' changes upstream; here it is the number of ledgers there were."""

    version: int
    creationDate: str
    ledgers: list[LedgerInfo]
    cursors: dict[str, CursorInfo]
    properties: Properties


class PartitionedTopicInfo(BaseModel):
    version: int = 0
    partitions: dict[str, TopicInfo]


@router.get(f"{TOPIC}/internal-info")
async def get_internal_info(asked: Asked, name: AskedTopic) -> TopicInfo | PartitionedTopicInfo:
    """Ledgers and cursors, as they are stored."""
    topics = await open_parts(asked.request, name)
    if asked.broker.directory.partitions(name) is None:
        return info_of(topics[0])
    return PartitionedTopicInfo(partitions={str(one.name): info_of(one) for one in topics})


def info_of(topic: Topic) -> TopicInfo:
    ledgers = [
        LedgerInfo(
            ledgerId=one.ledger_id,
            entries=one.entries,
            size=one.size_bytes if one.entries else 0,
            timestamp=one.first_time_ms,
        )
        for one in topic.log.ledgers
    ]
    cursors = {}
    for name, one in topic.subscriptions.items():
        if one.is_durable:
            at = stats.mark_delete_position(one)
            cursors[name] = CursorInfo(
                version=one.cursor.epoch,
                markDelete=PositionInfo(ledgerId=at.ledger_id, entryId=at.entry_id),
                properties=one.properties,
            )
    return TopicInfo(
        version=len(ledgers),
        creationDate=time_text(topic.created_ms),
        ledgers=ledgers,
        cursors=cursors,
        properties=dict(topic.row.doc.get("properties", {})),
    )
