"""Lists, creates and deletes topics; partitions, properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, Query, Response
from pydantic import BaseModel, StrictInt

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import partition_growth, topic_lifecycle
from milepost.broker.transactions.coordinator import is_coordinator_topic
from milepost.errors import AlreadyExists, CorruptData, PreconditionFailed
from milepost.positions.names import TopicName
from milepost.rest.audit import Asked
from milepost.rest.name_lists import name_list
from milepost.rest.request import (
    ADMIN,
    NAMESPACE,
    PERSISTENT_ONLY,
    TOPIC,
    AskedBroker,
    AskedNamespace,
    AskedTopic,
    Domain,
    DryRun,
    check_topic,
    no_content,
    open_topic,
    opened_parts,
)
from milepost.rest.resources.bundles import bundles_of
from milepost.rest.route_access import Router

router = Router("topics")

PARTITIONS = f"{TOPIC}/partitions"

Properties = dict[str, str]


class PartitionedTopicMetadata(BaseModel):
    partitions: int
    deleted: bool = False
    properties: Properties | None = None


class NewPartitionedTopic(BaseModel):
    """What `application/vnd.partitioned-topic-metadata+json` carries."""

    partitions: StrictInt
    properties: Properties | None = None


class WouldLose(BaseModel):
    """What a dry run says: this much would be gone."""

    messages: int
    sizeBytes: int
    ledgers: int
    subscriptions: int

    @classmethod
    def of(cls, losses: list[topic_lifecycle.Loss]) -> WouldLose:
        return cls(
            messages=sum(one.messages for one in losses),
            sizeBytes=sum(one.size_bytes for one in losses),
            ledgers=sum(one.ledgers for one in losses),
            subscriptions=sum(one.subscriptions for one in losses),
        )

    def response(self) -> Response:
        return Response(self.model_dump_json(), media_type="application/json")


# -- lists -------------------------------------------------------------------------------------------


@router.get(NAMESPACE, Operation.LIST_TOPICS, response_model=list[str])
async def get_topics(
    broker: AskedBroker, domain: Domain, name: AskedNamespace, bundle: str | None = None
) -> Response:
    """Full names; each partition by its own. Of non-persistent topics those that are open. With
    `bundle` only those that fall into it."""
    bundles = bundles_of(broker, name)
    mode = "PERSISTENT" if domain == "persistent" else "NON_PERSISTENT"
    found = broker.topics_of_namespace(str(name), mode)
    if bundle is not None:
        bundles.bounds(bundle)
        found = bundles.within(bundle, found)
    return name_list(found)


@router.get(
    f"{ADMIN}/non-persistent/{{tenant}}/{{namespace}}/{{bundle:bundle}}",
    Operation.LIST_TOPICS,
    response_model=list[str],
)
async def get_topics_of_bundle(broker: AskedBroker, name: AskedNamespace, bundle: str) -> Response:
    """The non-persistent topics that are open in a bundle."""
    return await get_topics(broker, "non-persistent", name, bundle)


@router.get(f"{NAMESPACE}/partitioned", Operation.LIST_TOPICS)
async def get_partitioned_topics(
    broker: AskedBroker, domain: Domain, name: AskedNamespace
) -> list[str]:
    broker.directory.namespace(name)
    return broker.directory.partitioned_topics(str(name), domain)


# -- one topic ---------------------------------------------------------------------------------------


@router.put(TOPIC, Operation.ADMINISTER_TOPIC, status_code=204)
async def create_topic(
    asked: Asked, name: AskedTopic, properties: Annotated[Properties | None, Body()] = None
) -> None:
    """Create a topic without partitions; the body, if there is one, is its properties. One that is not
    persistent has none, and is there until it is unloaded, deleted or the broker ends."""
    await topic_lifecycle.create_topic(asked.broker, name, properties or {})
    asked.note("create-topic", name)


@router.delete(
    TOPIC, Operation.ADMINISTER_TOPIC, status_code=204, responses={200: {"model": WouldLose}}
)
async def delete_topic(
    asked: Asked, name: AskedTopic, force: bool = False, dry_run: DryRun = False
) -> Response:
    """Delete a topic with its messages and subscriptions; with `force`, also while it is in use. Of one
    that is not persistent nothing may be there already: 204 all the same, as upstream."""
    if asked.broker.directory.partitions(name) is not None:
        raise AlreadyExists(f"{name} is partitioned; delete its partitions")
    if not name.is_persistent and str(name) not in asked.broker.topics:
        return no_content()
    try:
        topic = asked.broker.topics.get(str(name)) or await open_topic(asked.request, name)
    except CorruptData as error:
        if dry_run or not force:
            raise PreconditionFailed(f"{error}; it can be deleted with force only") from error
        loss = await topic_lifecycle.delete_damaged(asked.broker, name, error)
        asked.note("delete-topic", name, damage=str(error), **loss._asdict())
        return no_content()
    loss = topic_lifecycle.loss_of(topic, topic.log.end_index, subscriptions=True)
    if dry_run:
        return WouldLose.of([loss]).response()
    await topic_lifecycle.delete_topic(asked.broker, topic, force=force)
    asked.note("delete-topic", name, **loss._asdict())
    return no_content()


@router.get(f"{TOPIC}/properties", Operation.LOOK_UP, PERSISTENT_ONLY)
async def get_properties(asked: Asked, name: AskedTopic) -> Properties:
    if asked.broker.directory.partitions(name) is not None:
        return dict(asked.broker.directory.partitioned_doc(name).get("properties", {}))
    topic = await open_topic(asked.request, name)
    return dict(topic.row.doc.get("properties", {}))


@router.put(f"{TOPIC}/properties", Operation.ADMINISTER_TOPIC, PERSISTENT_ONLY, status_code=204)
async def set_properties(
    asked: Asked, name: AskedTopic, properties: Annotated[Properties, Body()]
) -> None:
    """Add to the topic's properties, or change them. Those of a partitioned topic are its own."""
    await _change_properties(asked, name, lambda before: {**before, **properties})
    asked.note("set-properties", name)


@router.delete(f"{TOPIC}/properties", Operation.ADMINISTER_TOPIC, PERSISTENT_ONLY, status_code=204)
async def remove_property(asked: Asked, name: AskedTopic, key: Annotated[str, Query()]) -> None:
    await _change_properties(
        asked, name, lambda before: {one: value for one, value in before.items() if one != key}
    )
    asked.note("remove-property", name)


async def _change_properties(
    asked: Asked, name: TopicName, change: Callable[[Properties], Properties]
) -> None:
    def changed(doc: dict[str, Any]) -> dict[str, Any]:
        return {**doc, "properties": change(doc.get("properties", {}))}

    directory = asked.broker.directory
    if directory.partitions(name) is not None:
        await directory.change_partitioned_doc(name, changed)
    else:
        topic = await open_topic(asked.request, name)
        await asked.broker.change_topics([topic], changed)


# -- partitions --------------------------------------------------------------------------------------


@router.get(PARTITIONS, Operation.LOOK_UP, response_model_exclude_none=True)
async def get_partitions(
    broker: AskedBroker,
    name: AskedTopic,
    may_create: Annotated[bool, Query(alias="checkAllowAutoCreation")] = False,
) -> PartitionedTopicMetadata:
    """0 for a topic that is not partitioned, and for one that a producer or consumer would create."""
    partitions = await broker.partitions_of(name, create=may_create)
    if is_coordinator_topic(name):
        return PartitionedTopicMetadata(partitions=partitions)
    if partitions:
        doc = broker.directory.partitioned_doc(name)
        return PartitionedTopicMetadata(partitions=partitions, properties=doc.get("properties"))
    if not may_create:
        check_topic(broker, name)
    return PartitionedTopicMetadata(partitions=0)


@router.put(PARTITIONS, Operation.ADMINISTER_TOPIC, status_code=204)
async def create_partitions(
    asked: Asked, name: AskedTopic, partitions: Annotated[StrictInt | NewPartitionedTopic, Body()]
) -> None:
    """Create a partitioned topic; the body is the number of its partitions."""
    if isinstance(partitions, int):
        partitions = NewPartitionedTopic(partitions=partitions)
    if str(name) in asked.broker.topics:  # one that is not persistent is known there only
        raise AlreadyExists(f"topic {name} exists")
    await asked.broker.directory.create_partitioned(
        name, partitions.partitions, partitions.properties or {}
    )
    asked.note("create-partitioned-topic", name, partitions=partitions.partitions)


@router.post(PARTITIONS, Operation.ADMINISTER_TOPIC, status_code=204)
async def grow_partitions(
    asked: Asked, name: AskedTopic, partitions: Annotated[StrictInt, Body()]
) -> None:
    """Give a partitioned topic more partitions. Each of its durable subscriptions has them at once, from
    their first message on."""
    await partition_growth.grow(asked.broker, name, partitions)
    asked.note("update-partitioned-topic", name, partitions=partitions)


@router.post(f"{TOPIC}/createMissedPartitions", Operation.ADMINISTER_TOPIC, status_code=204)
async def create_missed_partitions(broker: AskedBroker, name: AskedTopic) -> None:
    """None is ever missing: a partition is there as soon as its topic says how many it has."""
    broker.directory.partitioned_doc(name)


@router.delete(
    PARTITIONS, Operation.ADMINISTER_TOPIC, status_code=204, responses={200: {"model": WouldLose}}
)
async def delete_partitions(
    asked: Asked, name: AskedTopic, force: bool = False, dry_run: DryRun = False
) -> Response:
    """Delete a partitioned topic, all of it; with `force`, also while it is in use."""
    if dry_run and asked.broker.directory.partitions(name) is not None:
        topics = await opened_parts(asked.request, name)
        return WouldLose.of(
            [topic_lifecycle.loss_of(one, one.log.end_index, subscriptions=True) for one in topics]
        ).response()
    await topic_lifecycle.delete_partitioned(asked.broker, name, force=force)
    asked.note("delete-partitioned-topic", name)
    return no_content()
