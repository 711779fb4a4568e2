"""Progress and verdicts of subscriptions, trouble first.

    GET /milepost/v1/progress                                          ?subscription=reports
    GET /milepost/v1/namespaces/{tenant}/{namespace}/progress
    GET /milepost/v1/topics/{tenant}/{namespace}/{topic}/progress      with its partitions

The numbers are those of `broker/monitoring/progress.py`, each line of one moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import itemgetter
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.monitoring.overview import survey, trouble
from milepost.broker.monitoring.progress import ConsumerProgress, Progress
from milepost.broker.monitoring.verdicts import HeldBack, Hole
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.rest.models import model_of
from milepost.rest.request import AskedBroker, AskedNamespace
from milepost.rest.resources.reset import PersistentTopic
from milepost.rest.route_access import Router

router = Router("progress", prefix="/milepost/v1")

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

OneSubscription = Annotated[str | None, Query(max_length=1024)]


# Only to be described: what is answered is written by hand.
HoleModel = model_of(Hole)
HeldBackModel = model_of(HeldBack)
ConsumerModel = model_of(ConsumerProgress)
ProgressModel = model_of(
    Progress,
    hole=HoleModel | None,
    held_back_by=HeldBackModel | None,
    consumers=list[ConsumerModel],  # type: ignore[valid-type]
)


class ProgressAnswer(BaseModel):
    """Of each subscription on one partition; ready, inflight, delayed and acked are end − first."""

    at_ms: int
    subscriptions: list[ProgressModel]  # type: ignore[valid-type]


@router.get("/progress", Operation.SUPERUSER, response_model=ProgressAnswer)
async def get_all_progress(broker: AskedBroker, subscription: OneSubscription = None) -> Response:
    names = broker.directory.all_topics()
    return await _answer(broker, names, subscription)


@router.get(
    "/namespaces/{tenant}/{namespace}/progress",
    Operation.LIST_TOPICS,
    response_model=ProgressAnswer,
)
async def get_namespace_progress(
    broker: AskedBroker, name: AskedNamespace, subscription: OneSubscription = None
) -> Response:
    broker.directory.namespace(name)  # one that is not there is a 404
    return await _answer(broker, broker.directory.topics(str(name)), subscription)


@router.get(
    "/topics/{tenant}/{namespace}/{topic}/progress",
    Operation.LOOK_UP,
    response_model=ProgressAnswer,
)
async def get_topic_progress(
    broker: AskedBroker, name: PersistentTopic, subscription: OneSubscription = None
) -> Response:
    """Of a partitioned topic, a line for each partition."""
    partitions = broker.directory.partitions(name)
    names = [name] if not partitions else [name.partition_name(n) for n in range(partitions)]
    if not partitions and broker.directory.row(name) is None:
        raise TopicNotFound(f"topic {name} does not exist")
    return await _answer(broker, map(str, names), subscription)


async def _answer(broker: Broker, names: Iterable[str], subscription: str | None) -> Response:
    """Written by hand and on the way: the framework would check, copy and write a thousand lines in one
    go, while everyone who publishes waits."""
    found = survey(broker, map(TopicName.parse, names), subscription)
    lines = [(trouble(line), _json(line)) async for line in found]
    lines.sort(key=itemgetter(0))
    written = ",".join([text for _, text in lines])
    body = f'{{"at_ms":{broker.clock.wall_ms()},"subscriptions":[{written}]}}'
    return Response(body, media_type="application/json")


def _json(line: Progress) -> str:
    """A line as `ProgressModel` describes it."""
    fields = line._asdict()
    if line.hole is not None:
        fields["hole"] = line.hole._asdict()
    if line.held_back_by is not None:
        fields["held_back_by"] = line.held_back_by._asdict()
    fields["consumers"] = [consumer._asdict() for consumer in line.consumers]
    return _encoder.encode(fields)
