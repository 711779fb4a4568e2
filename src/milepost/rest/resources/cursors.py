"""Resets in upstream's own paths, by time and by position.

    POST …/subscription/s/resetcursor/1700000000000
    POST …/subscription/s/resetcursor      {"ledgerId": 7, "entryId": 2, "batchIndex": -1}

A position that is no longer there, or not yet, means the nearest that is, as upstream has it. On a
partitioned topic a time resets every partition, all or none; a position is refused with 405.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Path, Response

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import reset as resets
from milepost.broker.operations.reset import EARLIEST, LATEST, Reset, Target
from milepost.broker.topic.topic import Topic
from milepost.positions.ids import MessageId
from milepost.positions.names import TopicName
from milepost.rest.audit import Asked
from milepost.rest.request import (
    AskedTopic,
    DryRun,
    OpenParts,
    OpenTopic,
    json_list,
    no_content,
    subscription_of,
)
from milepost.rest.resources.message_ids import LONG_MAX
from milepost.rest.resources.reset import MoveModel
from milepost.rest.resources.subscriptions import SUBSCRIPTION, CursorPosition
from milepost.rest.route_access import Router, who

router = Router("subscriptions", Operation.CONSUME)

_MOVES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": list[MoveModel],  # type: ignore[valid-type]
        "description": "Of a dry run: for each partition.",
    }
}


@router.post(f"{SUBSCRIPTION}/resetcursor/{{timestamp}}", status_code=204, responses=_MOVES)
async def reset_cursor(
    asked: Asked,
    name: AskedTopic,
    topics: OpenParts,
    subscription: str,
    timestamp: Annotated[int, Path(ge=0, le=LONG_MAX)],
    dry_run: DryRun = False,
) -> Response:
    """Move a subscription to the first message that came not before a time, in milliseconds."""
    for topic in topics:
        subscription_of(topic, subscription)
    wanted = Reset(Target(time_ms=timestamp), dry_run=dry_run)
    return await _reset(asked, name, subscription, wanted)


@router.post(f"{SUBSCRIPTION}/resetcursor", status_code=204, responses=_MOVES)
async def reset_cursor_to_position(
    asked: Asked,
    topic: OpenTopic,
    subscription: str,
    at: Annotated[CursorPosition, Body()],
    dry_run: DryRun = False,
) -> Response:
    """Move a subscription to a message, or behind it if that is `excluded`."""
    subscription_of(topic, subscription)
    wanted = Reset(_target(topic, at), after=at.is_excluded, dry_run=dry_run)
    return await _reset(asked, topic.name, subscription, wanted)


def _target(topic: Topic, at: CursorPosition) -> Target:
    last = topic.log.last_position()
    if at.ledgerId < 0:
        return Target(edge=EARLIEST)
    if last is None or at.position > last:
        return Target(edge=LATEST)
    return Target(id=MessageId(at.ledgerId, max(at.entryId, 0), batch_index=at.batchIndex))


async def _reset(asked: Asked, name: TopicName, subscription: str, wanted: Reset) -> Response:
    moves = await resets.reset(asked.broker, name, subscription, wanted, by=who(asked.request))
    if wanted.dry_run:
        return json_list([MoveModel(**move._asdict()) for move in moves])
    for move in moves:
        asked.note("reset", move.topic, subscription=subscription, was=move.was, to=move.to)
    return no_content()
