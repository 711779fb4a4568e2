"""Looks at both sides before the first write: what would be done, and what stands against it.

Everything that either side can refuse is asked here, so that a migration does not stop half way for a reason
that could have been known: addresses, credentials, rights, names, partitions, schemas, policies, sizes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from milepost.admin import Missing, Refused, ServerFault
from milepost.broker.policies.policy import Level
from milepost.cli.migrate.copying import PROPERTY, Checkpoint, end_of
from milepost.cli.migrate.policies import Policies, faults, read_policies
from milepost.cli.migrate.reading import EntryReader
from milepost.cli.migrate.side import Side
from milepost.cli.migrate.standings import ByIndex, ByPosition, Standing, acked_indexes
from milepost.cli.migrate.writing import PRODUCER
from milepost.errors import InvalidInput, InvalidSchema, NotAllowed
from milepost.positions.names import PERSISTENT, NamespaceName, TopicName
from milepost.schemas.compatibility import Strategy
from milepost.schemas.history import History, Version
from milepost.schemas.key_value import data_from_json
from milepost.schemas.types import SchemaInfo, SchemaType

# Topics that are looked at, and partitions that are copied, at the same time.
AT_ONCE: Final = 4

# Subscriptions that brokers make for themselves.
_OF_BROKERS: Final = ("__compaction", "pulsar.repl.", "pulsar.dedup")
_TERMINATED: Final = "Terminated"
NOT_IMPLEMENTED: Final = 501

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class PartitionPlan:
    """A topic without partitions, or one partition."""

    name: str
    is_there: bool
    """In the source. One that was never used may be missing there."""
    entries: int = 0
    checkpoint: Checkpoint | None = None
    """Where an earlier run came to; None if the target is new."""
    held: int = 0
    """Messages that the target has already."""
    is_terminated: bool = False
    is_terminated_there: bool = False
    subscriptions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Durable ones, with their properties."""


@dataclass
class TopicPlan:
    name: str
    partitions: int
    """0: it has none."""
    parts: list[PartitionPlan]
    is_new: bool = True
    schemas: list[dict[str, Any]] = field(default_factory=list)
    """Versions that the target does not have, oldest first."""
    policies: Policies = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    permissions: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    @property
    def entries(self) -> int:
        return sum(one.entries for one in self.parts)

    @property
    def held(self) -> int:
        return sum(one.held for one in self.parts)

    @property
    def subscriptions(self) -> set[str]:
        return {name for one in self.parts for name in one.subscriptions}


@dataclass
class NamespacePlan:
    name: str
    is_new: bool
    policies: Policies
    """None are carried where single topics are asked for."""
    permissions: dict[str, list[str]]


@dataclass
class Plan:
    namespaces: list[NamespacePlan]
    tenants: list[str]
    """Those that are missing."""
    topics: list[TopicPlan]
    refusals: list[str]
    left_out: list[str]
    """What is there and is not carried, in words."""


async def each(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], at_once: int = AT_ONCE
) -> list[R]:
    """Do the work for each item, a few at a time; the first failure ends the others."""
    room = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with room:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def make_plan(
    source: Side,
    target: Side,
    namespaces: Sequence[str],
    topics: Sequence[str],
    done: Callable[[int, int], None],
) -> Plan:
    """Look at everything in the scope; nothing is written."""
    await source.recognise()
    await target.recognise()
    whole = [str(NamespaceName.parse(one)) for one in namespaces]
    if not whole and not topics:
        whole = await _all_namespaces(source)
    left_out: list[str] = []
    names: dict[str, int] = {}
    for namespace in whole:
        names |= await _topics_of(source, namespace, left_out)
    for topic in topics:
        names |= await _topic(source, topic)
    spaces = sorted({*whole, *(str(TopicName.parse(one).namespace) for one in names)})
    tenants = await _missing_tenants(target, spaces)
    plan = Plan([], tenants, [], [], left_out)
    for namespace in spaces:
        is_missing = NamespaceName.parse(namespace).tenant in tenants
        found = await _namespace(source, target, namespace, namespace in whole, is_missing)
        plan.namespaces.append(found)
        if not found.is_new and await target.admin.get_policy(namespace, "encryptionRequired"):
            plan.refusals.append(
                f"{namespace}: the target requires encryption there, which messages of the source need not "
                "have; switch it off until they are copied"
            )
        plan.refusals += (f"{namespace}: {one}" for one in faults(Level.NAMESPACE, found.policies))
    new = {one.name for one in plan.namespaces if one.is_new}
    looked = 0

    async def look(name: str) -> TopicPlan:
        nonlocal looked
        namespace = str(TopicName.parse(name).namespace)
        found = await _look(source, target, name, names[name], is_new=namespace in new)
        looked += 1
        done(looked, len(names))
        return found

    done(0, len(names))
    plan.topics = await each(sorted(names), look)
    plan.refusals += await _check_sides(source, target, plan)
    plan.refusals += (f"{one.name}: {why}" for one in plan.topics for why in one.refusals)
    return plan


async def _all_namespaces(source: Side) -> list[str]:
    found: list[str] = []
    for tenant in await source.admin.list_tenants():
        found += await source.admin.list_namespaces(tenant)
    return [one for one in found if one != "pulsar/system"]


async def _topics_of(source: Side, namespace: str, left_out: list[str]) -> dict[str, int]:
    """Topics of a namespace, and how many partitions each has."""
    found: dict[str, int] = {}
    for name in await source.admin.list_partitioned_topics(namespace):
        found |= await _topic(source, name)
    for name in await source.admin.list_topics(namespace):
        topic = TopicName.parse(name)
        base = str(topic.base)
        if base not in found:
            found[str(topic)] = 0
    volatile = [one for one in found if not TopicName.parse(one).is_persistent]
    for one in volatile:
        left_out.append(f"{one}: a non-persistent topic has nothing to copy")
        del found[one]
    return {one: count for one, count in found.items() if not _is_system(one)}


def _is_system(topic: str) -> bool:
    return TopicName.parse(topic).local_name.startswith("__")


async def _topic(source: Side, topic: str) -> dict[str, int]:
    name = TopicName.parse(topic)
    if name.domain != PERSISTENT:
        return {str(name): 0}
    if name.partition >= 0:
        count = await _count(source, str(name.base))
        if name.partition < count:
            raise InvalidInput(
                f"{name} is a partition: name the whole topic, {name.base}, which is copied with all of them"
            )
    count = await _count(source, str(name))
    return {str(name): count}


async def _count(side: Side, topic: str) -> int:
    try:
        return int((await side.admin.get_partitioned_topic_metadata(topic))["partitions"])
    except Missing:
        return 0


async def _missing_tenants(target: Side, namespaces: Sequence[str]) -> list[str]:
    there = set(await target.admin.list_tenants())
    return sorted({NamespaceName.parse(one).tenant for one in namespaces} - there)


async def _namespace(
    source: Side, target: Side, name: str, is_whole: bool, is_tenant_missing: bool
) -> NamespacePlan:
    tenant = NamespaceName.parse(name).tenant
    is_new = is_tenant_missing or name not in await target.admin.list_namespaces(tenant)
    if not is_whole:
        return NamespacePlan(name, is_new, {}, {})
    policies = await read_policies(source.admin, Level.NAMESPACE, name)
    return NamespacePlan(name, is_new, policies, await namespace_permissions(source, name))


async def _look(
    source: Side, target: Side, name: str, partitions: int, *, is_new: bool
) -> TopicPlan:
    topic = TopicName.parse(name)
    parts = [str(topic.partition_name(one)) for one in range(partitions)] or [str(topic)]
    plan = TopicPlan(str(topic), partitions, [])
    if not topic.is_persistent:
        plan.refusals.append("a non-persistent topic has nothing to copy")
        return plan
    there = await _there(target, topic, partitions, plan, is_new=is_new)
    for part in parts:
        plan.parts.append(await _part(source, target, part, part in there, plan))
    if not any(one.is_there for one in plan.parts) and not partitions:
        plan.refusals.append("the source has no such topic")
        return plan
    plan.policies = await read_policies(source.admin, Level.TOPIC, str(topic))
    plan.refusals += faults(Level.TOPIC, plan.policies)
    plan.properties = await _properties(source, str(topic))
    plan.permissions = await _permissions(source, str(topic))
    await _schemas(source, target, plan, is_new=is_new)
    return plan


async def _there(
    target: Side, topic: TopicName, partitions: int, plan: TopicPlan, *, is_new: bool
) -> set[str]:
    """The partitions that the target has of a topic; empty if it has none of it."""
    if is_new:
        return set()
    count = await _count(target, str(topic))
    names = [str(topic.partition_name(one)) for one in range(count)] or [str(topic)]
    found = set(await target.admin.list_topics(str(topic.namespace), domain=PERSISTENT))
    there = {one for one in names if one in found}
    plan.is_new = not there and not count
    if not plan.is_new and count != partitions:
        plan.refusals.append(
            f"it has {_partitions(count)} in the target and {_partitions(partitions)} in the source; "
            "delete it in the target, or migrate other topics"
        )
        return set()
    return there


def _partitions(count: int) -> str:
    return {0: "no partitions", 1: "1 partition"}.get(count, f"{count} partitions")


async def _part(
    source: Side, target: Side, name: str, is_in_target: bool, plan: TopicPlan
) -> PartitionPlan:
    part = PartitionPlan(name, is_there=True)
    try:
        internal = await source.admin.get_internal_stats(name)
    except Missing:
        part.is_there = False
    else:
        part.entries = int(internal["numberOfEntries"])
        part.is_terminated = internal["state"] == _TERMINATED
        stats = await source.admin.get_stats(name)
        part.subscriptions = {
            one: dict(known.get("subscriptionProperties") or {})
            for one, known in stats["subscriptions"].items()
            if known.get("durable", True) and not one.startswith(_OF_BROKERS)
        }
        # A reader asks for the right to consume, and where the topic ends.
        async with EntryReader(source, name):
            pass
    if is_in_target:
        await _look_at_target(target, part, plan)
    return part


async def _check_sides(source: Side, target: Side, plan: Plan) -> list[str]:
    """What the binary sides say: whether the target takes the credentials, and takes messages
    as large as those of the source."""
    namespaces = [one.name for one in plan.namespaces if not one.is_new]
    if not namespaces:
        for tenant in await target.admin.list_tenants():
            namespaces += await target.admin.list_namespaces(tenant)
    if not namespaces and target.endpoint.url is None:
        return []  # nothing is there that the HTTP side could tell the address for
    there = await target.service(f"persistent://{(namespaces or ['public/default'])[0]}/{PRODUCER}")
    if not plan.topics:
        return []
    here = await source.service(plan.topics[0].name)
    if here.max_message_size <= there.max_message_size:
        return []
    return [
        f"messages of the source may have {here.max_message_size} bytes, and the target takes "
        f"{there.max_message_size}: raise max_message_size there"
    ]


async def _look_at_target(target: Side, part: PartitionPlan, plan: TopicPlan) -> None:
    internal = await target.admin.get_internal_stats(part.name)
    stats = await target.admin.get_stats(part.name)
    part.held = end_of(target, internal)
    part.is_terminated_there = internal["state"] == _TERMINATED
    known = await _properties(target, part.name)
    if PROPERTY in known:
        try:
            part.checkpoint = Checkpoint.read(known[PROPERTY])
            if part.checkpoint.source != part.name:
                raise NotAllowed(f"it was copied from {part.checkpoint.source}")
        except NotAllowed as error:
            plan.refusals.append(str(error))
    elif part.held:
        plan.refusals.append(
            f"{part.name} has {part.held} messages in the target that no migration wrote; delete it there"
        )
    if others := [one for one in stats["publishers"] if one.get("producerName") != PRODUCER]:
        plan.refusals.append(
            f"{len(others)} producers publish to {part.name} in the target; stop them first"
        )
    for name, subscription in stats["subscriptions"].items():
        if name in part.subscriptions and subscription.get("consumers"):
            plan.refusals.append(
                f"{name} has consumers on {part.name} in the target; stop them first"
            )


async def _properties(side: Side, topic: str) -> dict[str, str]:
    try:
        return dict(await side.admin.get_topic_properties(topic) or {})
    except (Missing, Refused):
        return {}


async def _permissions(side: Side, topic: str) -> dict[str, list[str]]:
    """What is granted on a topic itself, and not by its namespace."""
    namespace = await namespace_permissions(side, str(TopicName.parse(topic).namespace))
    try:
        found = await side.admin.get_topic_permissions(topic)
    except (Missing, ServerFault):
        return {}
    return {role: actions for role, actions in found.items() if actions != namespace.get(role)}


async def namespace_permissions(side: Side, namespace: str) -> dict[str, list[str]]:
    try:
        return await side.admin.get_namespace_permissions(namespace)
    except ServerFault as error:
        if error.status != NOT_IMPLEMENTED:
            raise
        return {}  # Apache Pulsar without authorization


async def _schemas(source: Side, target: Side, plan: TopicPlan, *, is_new: bool) -> None:
    """Which versions the target lacks; numbers must become the same, since messages name them."""
    versions = await _versions(source, plan.name)
    there = [] if is_new else await _versions(target, plan.name)
    history = History()
    for number, version in enumerate(versions):
        try:
            info = _info(version)
            if version["version"] != number:
                raise InvalidSchema(f"versions before it are deleted, so it would become {number}")
            known = history.register(info, Strategy.ALWAYS_COMPATIBLE)
            if known is not None:
                raise InvalidSchema(f"it is the same as version {known}")
            if number < len(there) and not _info(there[number]).is_same(info):
                raise InvalidSchema("the target has another one of that number")
            history.add(Version(number, info, 0))
        except (InvalidInput, NotAllowed) as error:
            plan.refusals.append(f"schema version {version['version']}: {error}")
            return
    if len(there) > len(versions):
        plan.refusals.append("the target has more versions of its schema than the source")
    plan.schemas = versions[len(there) :]


async def _versions(side: Side, topic: str) -> list[dict[str, Any]]:
    try:
        return await side.admin.get_all_schemas(topic)
    except Missing:
        return []


def _info(version: dict[str, Any]) -> SchemaInfo:
    kind = SchemaType.named(version["type"])
    text = version["data"]
    data = data_from_json(text) if kind is SchemaType.KEY_VALUE else text.encode()
    return SchemaInfo("", kind, data, dict(version.get("properties") or {}))


async def read_standings(source: Side, part: PartitionPlan) -> dict[str, Standing]:
    """Where every subscription of a partition stands in the source."""
    if not part.is_there or not part.subscriptions:
        return {}
    found: dict[str, Standing] = {}
    if source.is_milepost:
        for name in part.subscriptions:
            found[name] = ByIndex(*await acked_indexes(source, part.name, name))
        return found
    cursors = (await source.admin.get_internal_stats(part.name))["cursors"]
    for name in part.subscriptions:
        if (cursor := cursors.get(name)) is not None:  # it may be deleted meanwhile
            found[name] = ByPosition.of(
                cursor["markDeletePosition"], cursor["individuallyDeletedMessages"]
            )
    return found
