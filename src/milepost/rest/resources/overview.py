"""What a person sees first: the broker's numbers with what is in trouble, and topics to search.

    GET /milepost/v1/overview?limit=50
    GET /milepost/v1/topics?search=orders&limit=100
    GET /milepost/v1/namespaces/{tenant}/{namespace}/overview, …/topics

Every answer is bounded, however many topics there are.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from milepost import __version__
from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.monitoring.broker_watch import Line, Survey
from milepost.broker.monitoring.overview import survey
from milepost.broker.monitoring.self_check import room_at
from milepost.broker.topic.topic import Topic
from milepost.errors import NotFound
from milepost.positions import severity
from milepost.positions.names import TopicName
from milepost.positions.severity import Verdict
from milepost.rest.models import model_of
from milepost.rest.request import AskedBroker, AskedNamespace
from milepost.rest.route_access import needs

router = APIRouter(prefix="/milepost/v1", tags=["overview"])

LINES_MAX = 200
TOPICS_MAX = 200

LineModel = model_of(Line, verdict=str)


class Disk(BaseModel):
    size_bytes: int
    free_bytes: int


class Rates(BaseModel):
    """A second, of the last ten."""

    messages_in: float
    bytes_in: float
    messages_out: float
    bytes_out: float


class OverviewAnswer(BaseModel):
    version: str
    at_ms: int
    """When the survey began; each line is of a moment since then."""
    is_complete: bool
    """Else it is under way, and has seen `topics_seen`; ask again."""
    topics: int
    """Partitions are counted each."""
    topics_seen: int
    subscriptions: int
    producers: int
    consumers: int
    connections: int
    """Of the whole broker, HTTP included."""
    backlog: int
    stored_bytes: int
    rates: Rates
    disk: Disk | None
    """Of the data directory; null where the file system does not say."""
    verdicts: dict[str, int]
    """How many subscriptions have which, the worst first."""
    in_trouble: int
    """Those that need an operator."""
    lines: list[LineModel]  # type: ignore[valid-type]
    """The most troubled first."""


class ListedTopic(BaseModel):
    name: str
    partitions: int
    """0 for a topic without partitions."""
    subscriptions: int
    producers: int
    consumers: int
    messages: int
    """Retained, of all partitions."""
    backlog: int
    """Of all subscriptions together."""
    stored_bytes: int
    rate_in: float
    rate_out: float
    verdict: str
    """The worst of its subscriptions; empty without one."""


class TopicsAnswer(BaseModel):
    found: int
    """How many fit the search."""
    after: str | None
    """Where the next page begins; null at the end."""
    topics: list[ListedTopic]


Skip = Annotated[int, Query(ge=0, le=10_000)]
Limit = Annotated[int, Query(ge=1, le=LINES_MAX)]
Search = Annotated[str, Query(max_length=1024)]
PageSize = Annotated[int, Query(ge=1, le=TOPICS_MAX)]


@router.get("/overview", dependencies=[needs(Operation.SUPERUSER)])
async def get_overview(
    request: Request, broker: AskedBroker, skip: Skip = 0, limit: Limit = 50
) -> OverviewAnswer:
    """The broker's numbers, and its most troubled subscriptions: the worst thousand can be had in pages."""
    return _overview(broker, await request.app.state.watch.look(), skip, limit)


@router.get(
    "/namespaces/{tenant}/{namespace}/overview", dependencies=[needs(Operation.LIST_TOPICS)]
)
async def get_namespace_overview(
    request: Request, broker: AskedBroker, name: AskedNamespace, skip: Skip = 0, limit: Limit = 50
) -> OverviewAnswer:
    """The same of one namespace."""
    broker.directory.namespace(name)
    return _overview(broker, await request.app.state.watch.look(str(name)), skip, limit)


def _overview(broker: Broker, found: Survey, skip: int, limit: int) -> OverviewAnswer:
    room = room_at(broker.settings.data)
    verdicts = sorted(found.verdicts.items(), key=lambda item: -item[0].severity)
    return OverviewAnswer(
        version=__version__,
        at_ms=found.at_ms,
        is_complete=found.is_complete,
        topics=found.topics,
        topics_seen=found.topics_seen,
        subscriptions=found.subscriptions,
        producers=found.producers,
        consumers=found.consumers,
        connections=broker.connections.count,
        backlog=found.backlog,
        stored_bytes=found.stored_bytes,
        rates=Rates(**dict(zip(Rates.model_fields, found.rates, strict=True))),
        disk=None if room is None else Disk(**room._asdict()),
        verdicts={str(verdict): count for verdict, count in verdicts},
        in_trouble=sum(count for verdict, count in verdicts if Verdict(verdict).is_trouble),
        lines=[LineModel(**line._asdict()) for line in found.lines(skip, limit)],
    )


# -- topics ------------------------------------------------------------------------------------------


@router.get("/topics", dependencies=[needs(Operation.SUPERUSER)])
async def search_topics(
    broker: AskedBroker, search: Search = "", after: Search = "", limit: PageSize = 50
) -> TopicsAnswer:
    """Topics by name, those that hold a text in theirs; a partitioned topic is one line."""
    return await _search(broker, broker.directory.whole_topics(), search, after, limit)


@router.get("/namespaces/{tenant}/{namespace}/topics", dependencies=[needs(Operation.LIST_TOPICS)])
async def search_namespace_topics(
    broker: AskedBroker,
    name: AskedNamespace,
    search: Search = "",
    after: Search = "",
    limit: PageSize = 50,
) -> TopicsAnswer:
    """The same of one namespace."""
    broker.directory.namespace(name)
    names = broker.directory.whole_topics(str(name))
    return await _search(broker, names, search, after, limit)


async def _search(
    broker: Broker, names: list[str], search: str, after: str, limit: int
) -> TopicsAnswer:
    found = [name for name in names if search in name] if search else names
    at = bisect_right(found, after)
    page = found[at : at + limit]
    topics = [await _listed(broker, TopicName.parse(name)) for name in page]
    is_last = at + limit >= len(found)
    return TopicsAnswer(found=len(found), after=None if is_last else page[-1], topics=topics)


async def _listed(broker: Broker, name: TopicName) -> ListedTopic:
    partitions = broker.directory.partitions(name)
    names = [name] if partitions is None else [name.partition_name(n) for n in range(partitions)]
    lines = [line async for line in survey(broker, names) if not line.member]
    topics: list[Topic] = []
    for one in names:
        try:
            topics.append(broker.topics.get(str(one)) or await broker.topic(one, create=False))
        except NotFound:
            continue  # deleted since it was listed, or a partition that was never used
    rates = [topic.rates.per_second for topic in topics]
    return ListedTopic(
        name=str(name),
        partitions=partitions or 0,
        subscriptions=len({line.subscription for line in lines}),
        producers=len({one for topic in topics for one in topic.producers}),
        consumers=sum(len(line.consumers) for line in lines),
        messages=sum(topic.visible_end - topic.log.first_index for topic in topics),
        backlog=sum(line.backlog for line in lines),
        stored_bytes=sum(topic.log.size_bytes for topic in topics),
        rate_in=sum(one[0] for one in rates),
        rate_out=sum(one[2] for one in rates),
        verdict=severity.worst(line.verdict for line in lines) if lines else "",
    )
