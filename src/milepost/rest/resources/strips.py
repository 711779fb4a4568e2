"""The strip of a subscription: which indexes are acked, inflight, ready, delayed or trimmed.

    GET …/subscriptions/reports/strip?first=0&end=10000000&columns=1200
    GET …/subscriptions/reports/strip/messages?first=4711&end=4731

Exact at every zoom: the columns of a range add up to what `progress` says of it. The numbers of one answer
are of one moment.
"""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring import strip_view
from milepost.broker.monitoring.strip_view import COLUMNS_MAX, MARKS_MAX, Mark
from milepost.errors import InvalidInput
from milepost.positions.spans import INDEX_MAX
from milepost.rest.models import model_of
from milepost.rest.request import AskedBroker, open_topic, subscription_of
from milepost.rest.resources.reset import SUBSCRIPTION, PersistentTopic
from milepost.rest.route_access import needs

router = APIRouter(prefix="/milepost/v1", tags=["progress"])

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Bound = Annotated[int | None, Query(ge=0, le=INDEX_MAX)]

MarkModel = model_of(Mark)


class StripAnswer(BaseModel):
    """Column c of n holds the indexes from `first + (end − first) × c / n` on, rounded down, to where the
    next one begins. Of what is not there yet nothing is counted."""

    topic: str
    subscription: str
    at_ms: int
    epoch: int
    retained_first: int
    retained_end: int
    first: int
    end: int
    columns: int
    acked: list[int]
    inflight: list[int]
    ready: list[int]
    delayed: list[int]
    trimmed: list[int]


class MarksAnswer(BaseModel):
    at_ms: int
    messages: list[MarkModel]  # type: ignore[valid-type]


@router.get(
    f"{SUBSCRIPTION}/strip",
    response_model=StripAnswer,
    dependencies=[needs(Operation.LOOK_UP)],
)
async def get_strip(
    request: Request,
    broker: AskedBroker,
    name: PersistentTopic,
    subscription: str,
    first: Bound = None,
    end: Bound = None,
    columns: Annotated[int, Query(ge=1, le=COLUMNS_MAX)] = 200,
) -> Response:
    """How many indexes of each column of a range are in which state; by default of all that is retained.
    Of a topic without partitions, or of one partition. A range of no more indexes than columns has a
    column for each."""
    found = subscription_of(await open_topic(request, name), subscription)
    cursor = found.cursor
    first = cursor.first if first is None else first
    end = max(cursor.end, first) if end is None else end
    if end < first:
        raise InvalidInput(f"query end: {end} is below first, {first}")
    at_ms, epoch, retained = broker.clock.wall_ms(), cursor.epoch, (cursor.first, cursor.end)
    counted = await strip_view.columns_of(found, first, end, columns, TimeSlices(broker.clock))
    found_so = {
        "topic": str(name),
        "subscription": subscription,
        "at_ms": at_ms,
        "epoch": epoch,
        "retained_first": retained[0],
        "retained_end": retained[1],
        "columns": len(counted.acked),
        **counted._asdict(),
    }
    # Written by hand: the framework would check and copy ten thousand numbers while those who publish wait.
    return Response(_encoder.encode(found_so), media_type="application/json")


@router.get(f"{SUBSCRIPTION}/strip/messages", dependencies=[needs(Operation.CONSUME)])
async def get_strip_messages(
    request: Request,
    broker: AskedBroker,
    name: PersistentTopic,
    subscription: str,
    first: Annotated[int, Query(ge=0, le=INDEX_MAX)],
    end: Annotated[int, Query(ge=0, le=INDEX_MAX)],
) -> MarksAnswer:
    """Single messages of a range: state, holder, how often delivered, age, key. 200 at most."""
    found = subscription_of(await open_topic(request, name), subscription)
    if not first <= end <= first + MARKS_MAX:
        raise InvalidInput(f"query end: {end} is not in [{first}, {first + MARKS_MAX}]")
    marks = await strip_view.marks_of(found, first, end, broker)
    return MarksAnswer(
        at_ms=broker.clock.wall_ms(), messages=[MarkModel(**mark._asdict()) for mark in marks]
    )
