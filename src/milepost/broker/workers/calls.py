"""What a worker answers to the others, and how the broker asks them.

Each function answers at once for a topic of this worker's own shard, and asks the owner for any other.
Without workers everything is the broker's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.directory.schema_registry import schema_name
from milepost.broker.workers import transaction_parts
from milepost.broker.workers.link import Answer, Doc
from milepost.errors import SchemaNotFound
from milepost.positions.names import NamespaceName, TopicName
from milepost.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from milepost.broker.broker import Broker


async def partitions(broker: Broker, name: TopicName, *, create: bool) -> tuple[int, bool]:
    """How many partitions a topic has, and whether it is there; `create` as `Broker.partitions_of`."""
    workers = broker.workers
    if workers is None or workers.placement.has(name):
        count = await broker.partitions_of(name, create=create)
        return count, bool(count) or broker.exists(name)
    values = {"name": str(name), "create": create}
    said, _ = await workers.ask_owner(workers.placement.shard_of(name), "partitions", values)
    return said["count"], said["exists"]


async def topics(broker: Broker, namespace: str, mode: str) -> list[str]:
    """The topics of a namespace, at every worker."""
    own = broker.topics_of_namespace(namespace, mode)
    workers = broker.workers
    if workers is None:
        return own
    values = {"namespace": namespace, "mode": mode}
    said = await workers.ask_others("topics", values)
    return sorted({*own, *(name for one, _ in said for name in one["names"])})


async def schema(broker: Broker, name: TopicName, version: int | None) -> tuple[pb.Schema, int]:
    """A topic's schema, the latest or by its version, with its version; `SchemaNotFound` if it has none."""
    workers = broker.workers
    if workers is not None and not workers.placement.has(name):
        values = {"name": str(name), "version": version}
        owner = workers.placement.shard_of(name)
        said, body = await workers.ask_owner(owner, "schema", values)
        return pb.Schema.FromString(body), said["version"]
    schemas = broker.schemas
    found = await (schemas.latest(name) if version is None else schemas.get(name, version))
    if found is None:
        raise SchemaNotFound(f"{name} has no schema, or no such version of it")
    info = found.info
    answer = pb.Schema(
        name=schema_name(name),
        schema_data=info.data,
        type=cast("pb.Schema.Type", int(info.type)),
        properties=[pb.KeyValue(key=key, value=value) for key, value in info.properties.items()],
    )
    return answer, found.number


async def count_elsewhere(broker: Broker, namespace: NamespaceName) -> int:
    """How many topics the other workers have in a namespace."""
    workers = broker.workers
    if workers is None:
        return 0
    values = {"namespace": str(namespace)}
    said = await workers.ask_others("count", values)
    return sum(one["count"] for one, _ in said)


def answer(broker: Broker) -> None:
    """Let the broker answer the other workers."""
    workers = broker.workers
    assert workers is not None, "there are no others"

    async def follow(said: Doc, body: bytes) -> Answer:
        await workers.follow()
        return {}, b""

    async def tell_partitions(said: Doc, body: bytes) -> Answer:
        found = await partitions(broker, TopicName.parse(said["name"]), create=said["create"])
        return {"count": found[0], "exists": found[1]}, b""

    async def tell_topics(said: Doc, body: bytes) -> Answer:
        return {"names": broker.topics_of_namespace(said["namespace"], said["mode"])}, b""

    async def tell_schema(said: Doc, body: bytes) -> Answer:
        found, number = await schema(broker, TopicName.parse(said["name"]), said["version"])
        return {"version": number}, found.SerializeToString()

    async def tell_count(said: Doc, body: bytes) -> Answer:
        return {"count": broker.directory.count(said["namespace"])}, b""

    async def tell_use(said: Doc, body: bytes) -> Answer:
        # It may not have been told yet that no topic is to be made there.
        await workers.catch_up()
        return {"used": broker.uses(NamespaceName.parse(said["namespace"]))}, b""

    async def tell_parts(said: Doc, body: bytes) -> Answer:
        return await transaction_parts.answer(broker, said)

    workers.link.answers |= {
        "txn_parts": tell_parts,
        "follow": follow,
        "partitions": tell_partitions,
        "topics": tell_topics,
        "schema": tell_schema,
        "count": tell_count,
        "uses": tell_use,
        "watch_topics": broker.watched_topics.answer,
    }
    assert broker.transactions.shared is not None, "there are no others"
    workers.link.answers |= broker.transactions.shared.answers
