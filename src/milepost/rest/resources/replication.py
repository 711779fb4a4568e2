"""Replication: accepts this cluster, refuses any other.

Subscriptions keep whether they were to be replicated, for those who ask. A topic has no shadows: those are
topics of another kind, which read the ledgers of the one they shadow.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Body, Response
from pydantic import StrictBool

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.book import check_clusters
from milepost.errors import PreconditionFailed, UnknownCluster
from milepost.positions.names import TopicName
from milepost.rest.audit import Asked
from milepost.rest.request import (
    ADMIN,
    TOPIC,
    AskedBroker,
    AskedNamespace,
    AskedTopic,
    OpenParts,
    OpenTopic,
    check_topic,
    subscription_of,
)
from milepost.rest.route_access import Router

router = Router("replication")

NAMESPACE: Final = f"{ADMIN}/namespaces/{{tenant}}/{{namespace}}"
SHADOWS: Final = f"{TOPIC}/shadowTopics"
STATUS: Final = f"{TOPIC}/subscription/{{subscription:path}}/replicatedSubscriptionStatus"
# Keys in a namespace's document.
ALLOWED_CLUSTERS, MIGRATED = "allowed clusters", "migrated"


Clusters = Annotated[list[str], Body(max_length=100)]


# -- namespaces --------------------------------------------------------------------------------------


@router.get(f"{NAMESPACE}/replication", Operation.ADMINISTER_NAMESPACE)
async def get_clusters(broker: AskedBroker, name: AskedNamespace) -> list[str]:
    """The clusters that have the namespace: there is one."""
    broker.directory.namespace(name)
    return [broker.settings.cluster_name]


@router.post(f"{NAMESPACE}/replication", Operation.ADMINISTER_NAMESPACE, response_class=Response)
async def set_clusters(broker: AskedBroker, name: AskedNamespace, clusters: Clusters) -> None:
    """This one, and no other: 403."""
    broker.directory.namespace(name)
    _check(broker, clusters)


@router.get(f"{NAMESPACE}/allowedClusters", Operation.ADMINISTER_NAMESPACE)
async def get_allowed_clusters(broker: AskedBroker, name: AskedNamespace) -> list[str]:
    """Those that were named; none until then, which allows this one."""
    return list(broker.directory.namespace(name).get(ALLOWED_CLUSTERS, []))


@router.post(
    f"{NAMESPACE}/allowedClusters", Operation.ADMINISTER_NAMESPACE, response_class=Response
)
async def set_allowed_clusters(asked: Asked, name: AskedNamespace, clusters: Clusters) -> None:
    _check(asked.broker, clusters)
    await _note(asked.broker, name, ALLOWED_CLUSTERS, clusters)
    asked.note("set-allowed-clusters", name)


@router.post(f"{NAMESPACE}/migration", Operation.ADMINISTER_NAMESPACE, status_code=204)
async def set_migrated(
    asked: Asked, name: AskedNamespace, migrated: Annotated[StrictBool, Body()]
) -> None:
    """Kept for those who ask: there is no cluster to migrate to."""
    await _note(asked.broker, name, MIGRATED, migrated)
    asked.note("set-migrated", name, migrated=migrated)


async def _note(broker: Broker, name: AskedNamespace, key: str, value: Any) -> None:
    await broker.directory.change_namespace(name, lambda doc: {**doc, key: value})


def _check(broker: Broker, clusters: list[str]) -> None:
    here = broker.settings.cluster_name
    check_clusters(clusters, here)
    if here not in clusters:
        raise UnknownCluster(f"cluster {clusters[0][:80]!a} does not exist; {here} does")


# -- subscriptions -----------------------------------------------------------------------------------


@router.get(STATUS, Operation.CONSUME)
async def get_replicated_status(topics: OpenParts, subscription: str) -> dict[str, bool]:
    """By topic: whether the subscription was to be replicated."""
    return {str(topic.name): subscription_of(topic, subscription).is_replicated for topic in topics}


@router.post(STATUS, Operation.CONSUME, status_code=204)
async def set_replicated_status(
    asked: Asked, topics: OpenParts, subscription: str, replicated: Annotated[StrictBool, Body()]
) -> None:
    """Kept; there is no other cluster that would hear of it."""
    for one in [subscription_of(topic, subscription) for topic in topics]:
        await topic_lifecycle.set_subscription_replicated(asked.broker, one, replicated)
    asked.note("set-replicated", topics[0].name.base, subscription=subscription)


# -- shadow topics -----------------------------------------------------------------------------------


@router.get(SHADOWS, Operation.ADMINISTER_TOPIC, response_class=Response)
async def get_shadow_topics(broker: AskedBroker, name: AskedTopic) -> None:
    """None: nothing is answered, as upstream has it."""
    check_topic(broker, name)


@router.put(SHADOWS, Operation.ADMINISTER_TOPIC, status_code=204)
async def set_shadow_topics(
    topic: OpenTopic, shadows: Annotated[list[str], Body(max_length=100)]
) -> None:
    """412: a topic that shadows another can not be made here."""
    if not shadows:
        raise PreconditionFailed("no shadow topic is named")
    shadow = TopicName.parse(shadows[0])
    raise PreconditionFailed(f"{shadow} is no shadow topic of {topic.name}: there are none")


@router.delete(SHADOWS, Operation.ADMINISTER_TOPIC, status_code=204)
async def delete_shadow_topics(broker: AskedBroker, name: AskedTopic) -> None:
    check_topic(broker, name)
