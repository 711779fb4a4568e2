"""The stats of all open topics and namespaces of a broker.

Management tools poll these: one call for all topics, by namespace, bundle and domain. Names and nesting are
upstream's. A broker with many topics is gone through some at a time, so that others have their turn.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring import stats
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import NotFound
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.resources.bundles import bundles_of
from milepost.rest.resources.lookup import broker_name
from milepost.rest.resources.stats import Asked, consumer_stats, publisher_stats, subscription_stats
from milepost.rest.resources.stats_models import ConsumerStats, PublisherStats
from milepost.rest.route_access import needs

router = APIRouter(prefix=ADMIN, tags=["brokers"], dependencies=[needs(Operation.SUPERUSER)])


_ALL = Asked(size=True, earliest=False, publishers=True, consumers=True)


class SubscriptionNumbers(BaseModel):
    consumers: list[ConsumerStats]
    msgBacklog: int
    msgRateExpired: float
    msgRateOut: float
    msgThroughputOut: float
    msgRateRedeliver: float
    numberOfEntriesSinceFirstNotAckedMessage: int
    totalNonContiguousDeletedMessagesRange: int
    type: str


class TopicNumbers(BaseModel):
    publishers: list[PublisherStats]
    replication: dict[str, str] = {}
    subscriptions: dict[str, SubscriptionNumbers]
    producerCount: int
    averageMsgSize: float
    msgRateIn: float
    msgRateOut: float
    msgInCount: int
    bytesInCount: int
    msgOutCount: int
    bytesOutCount: int
    msgThroughputIn: float
    msgThroughputOut: float
    storageSize: int
    backlogSize: int
    pendingAddEntriesCount: int


class NamespaceOwnership(BaseModel):
    broker_assignment: str = "shared"
    is_controlled: bool = False
    is_active: bool = True


ByDomain = dict[str, dict[str, TopicNumbers]]


@router.get("/broker-stats/topics", response_model_exclude_none=True)
async def get_topics(broker: AskedBroker) -> dict[str, dict[str, ByDomain]]:
    """Every open topic: namespace, bundle, domain, topic."""
    found: dict[str, dict[str, ByDomain]] = {}
    slices = TimeSlices(broker.clock)
    for topic in list(broker.topics.values()):
        bundle = bundles_of(broker, topic.name.namespace).of(str(topic.name))
        domains = found.setdefault(str(topic.name.namespace), {}).setdefault(bundle, {})
        domains.setdefault(topic.name.domain, {})[str(topic.name)] = await _topic(topic, slices)
        if slices.is_over:
            await slices.rest()
    return found


@router.get("/brokers/{cluster}/{broker_id}/ownedNamespaces")
async def get_owned_namespaces(
    broker: AskedBroker, cluster: str, broker_id: str
) -> dict[str, NamespaceOwnership]:
    """The bundles that a broker has topics of; there is one broker, and it has them all."""
    if broker_id != broker_name(broker):
        raise NotFound(f"broker {broker_id[:80]!a} is not here; {broker_name(broker)} is")
    names = {topic.name.namespace for topic in broker.topics.values()}
    bundles = [f"{name}/{one}" for name in names for one in bundles_of(broker, name).names]
    return {bundle: NamespaceOwnership() for bundle in sorted(bundles)}


async def _topic(topic: Topic, slices: TimeSlices) -> TopicNumbers:
    log = topic.log
    rate_in, throughput_in, rate_out, throughput_out = topic.rates.per_second[:4]
    slowest = stats.slowest(topic)
    return TopicNumbers(
        publishers=[publisher_stats(one) for one in topic.producers.values()],
        subscriptions={
            name: await _subscription(one, slices)
            for name, one in list(topic.subscriptions.items())
        },
        producerCount=len(topic.producers),
        averageMsgSize=throughput_in / rate_in if rate_in else 0.0,
        msgRateIn=rate_in,
        msgRateOut=rate_out,
        msgInCount=topic.messages_in,
        bytesInCount=topic.bytes_in,
        msgOutCount=topic.messages_out,
        bytesOutCount=topic.bytes_out,
        msgThroughputIn=throughput_in,
        msgThroughputOut=throughput_out,
        storageSize=log.size_from(log.first_index),
        backlogSize=0 if slowest is None else topic.visible_size(slowest[1]),
        pendingAddEntriesCount=log.next_index - log.end_index,
    )


async def _subscription(subscription: Subscription, slices: TimeSlices) -> SubscriptionNumbers:
    found = await subscription_stats(subscription, _ALL, slices)
    same: dict[str, Any] = {
        name: getattr(found, name)
        for name in SubscriptionNumbers.model_fields
        if hasattr(found, name) and name != "consumers"
    }
    return SubscriptionNumbers(
        **same,
        consumers=[consumer_stats(one) for one in subscription.consumers],
        numberOfEntriesSinceFirstNotAckedMessage=found.msgBacklog,
        totalNonContiguousDeletedMessagesRange=found.nonContiguousDeletedMessagesRanges,
    )
