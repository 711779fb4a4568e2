"""The stats of all open topics and namespaces of a broker.

Management tools poll these: one call for all topics, by namespace, bundle and domain. Names and nesting are
upstream's. A broker with many topics is gone through some at a time, so that others have their turn.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring import stats
from milepost.broker.monitoring.topic_walk import listed, walk_topics
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import NotFound
from milepost.rest.hosts import broker_name
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.resources.bundles import bundles_of
from milepost.rest.resources.stats import Asked, consumer_stats, publisher_stats, subscription_stats
from milepost.rest.resources.stats_models import ConsumerStats, PublisherStats
from milepost.rest.route_access import Router

router = Router("brokers", Operation.SUPERUSER, prefix=ADMIN)


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
    slices, topics = TimeSlices(broker.clock), listed(list(broker.topics.values()))
    # What the numbers of a topic begin with is brought for many topics at once.
    async for topic, _ in walk_topics(broker.engine, topics, stats.touch, slices):
        bundle = bundles_of(broker, topic.name.namespace).of(str(topic.name))
        domains = found.setdefault(str(topic.name.namespace), {}).setdefault(bundle, {})
        by_name = domains.setdefault(topic.name.domain, {})
        by_name[str(topic.name)] = await _topic(topic, slices, broker)
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


async def _topic(topic: Topic, slices: TimeSlices, broker: Broker) -> TopicNumbers:
    log = topic.log
    subscriptions = {
        name: await _subscription(one, slices, broker)
        for name, one in list(topic.subscriptions.items())
    }
    backlog_size = await broker.engine.look(lambda: stats.backlog_size(topic))
    rate_in, throughput_in, rate_out, throughput_out = topic.rates.per_second[:4]
    return TopicNumbers(
        publishers=[publisher_stats(one) for one in topic.producers.values()],
        subscriptions=subscriptions,
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
        backlogSize=backlog_size,
        pendingAddEntriesCount=log.next_index - log.end_index,
    )


async def _subscription(
    subscription: Subscription, slices: TimeSlices, broker: Broker
) -> SubscriptionNumbers:
    found = await subscription_stats(subscription, _ALL, slices, broker)
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
