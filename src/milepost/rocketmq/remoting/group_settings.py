"""Settings of consumer groups, as `updateSubGroup` gives them: kept in the catalog, beside the subscriptions.

In Milepost a group is its subscriptions, one for each queue of each topic. RocketMQ makes a group before it
has read anything, so its settings are kept apart: a group may have settings and no subscription yet, or
subscriptions and no settings. What has a meaning here is also a property of the subscriptions:

    consumeMessageOrderly   a FIFO group (`rocketmq.fifo`)
    retryMaxTimes           how often a message that failed comes again (`rocketmq.retries`)

Everything else is kept and shown again as it was said.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring.overview import opened
from milepost.broker.operations import topic_lifecycle
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import InvalidInput
from milepost.positions.names import NamespaceName
from milepost.rocketmq.consuming.queues import FIFO, RETRIES, RETRIES_DEFAULT, RETRIES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from milepost.broker.broker import Broker
    from milepost.positions.names import TopicName

Doc = dict[str, Any]

FOLDER = "rocketmq"
# Of objects and lists in one another; upstream's settings have four.
DEPTH_MAX = 8

# What upstream shows of a group that was given no settings.
DEFAULTS: dict[str, Any] = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": RETRIES_DEFAULT,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


def _key(namespace: str, group: str) -> str:
    return f"group:{namespace}:{group}"


async def all_groups(broker: Broker) -> dict[str, Doc]:
    """The groups that have settings."""
    prefix = _key(broker.settings.rocketmq_namespace, "")

    def found(catalog: Any) -> dict[str, Doc]:
        docs: dict[str, Doc] = catalog.docs(FOLDER, prefix)
        return docs

    docs = await broker.engine.catalog(found)
    return {name.removeprefix(prefix): doc for name, doc in docs.items()}


def shown(group: str, settings: Doc | None) -> Doc:
    """All settings of a group, as clients read them."""
    return {**DEFAULTS, **(settings or {}), "groupName": group}


def checked(told: Doc) -> Doc:
    """The settings that are kept of those that a client tells; `InvalidInput` for values of another kind."""
    kept = {name: told[name] for name in DEFAULTS if told.get(name) is not None}
    for name, value in kept.items():
        if type(value) is not type(DEFAULTS[name]):
            kind = type(DEFAULTS[name]).__name__
            raise InvalidInput(f"{name} of a group: expected a value of type {kind}")
    retries = kept.get("retryMaxTimes", 0)
    if not 0 <= retries <= RETRIES_MAX:
        raise InvalidInput(f"retryMaxTimes {retries} of a group; 0 to {RETRIES_MAX} are allowed")
    try:
        json.dumps(kept, allow_nan=False)
    except (ValueError, RecursionError):
        raise InvalidInput("settings of a group with a number that JSON does not have") from None
    # All of them are read together with those of other groups, which are lost with one that cannot be read.
    if not _is_readable(kept, DEPTH_MAX):
        raise InvalidInput(
            f"settings of a group with a number beyond 64 bits, or more than {DEPTH_MAX} levels"
        )
    return kept


def _is_readable(value: object, levels: int) -> bool:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_readable(one, levels - 1) for one in parts)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


async def put(broker: Broker, group: str, kept: Doc) -> None:
    """Keep the settings of a group."""
    key = _key(broker.settings.rocketmq_namespace, group)

    def store(catalog: Any) -> None:
        catalog.put_doc(FOLDER, key, kept)

    await broker.engine.catalog(store)


async def forget(broker: Broker, group: str) -> None:
    key = _key(broker.settings.rocketmq_namespace, group)

    def drop(catalog: Any) -> None:
        catalog.delete_doc(FOLDER, key)

    await broker.engine.catalog(drop)


async def properties_for(broker: Broker, namespace: NamespaceName, group: str) -> dict[str, str]:
    """The properties of a subscription that is made for a group."""
    key = _key(str(namespace), group)

    def found(catalog: Any) -> Doc:
        doc: Doc | None = catalog.doc(FOLDER, key)
        return doc or {}

    return properties_of(await broker.engine.catalog(found))


def properties_of(settings: Doc) -> dict[str, str]:
    made = {FIFO: "true"} if settings.get("consumeMessageOrderly") is True else {}
    retries = settings.get("retryMaxTimes", RETRIES_DEFAULT)
    return made if retries == RETRIES_DEFAULT else {**made, RETRIES: str(retries)}


async def subscriptions_of(
    broker: Broker, queues: Iterable[TopicName], group: str
) -> list[Subscription]:
    """The group's subscriptions, on all these queues that have one."""
    found = []
    slices = TimeSlices(broker.clock)
    async for topic in opened(broker, queues):
        one = topic.subscriptions.get(group)
        if one is not None and one.is_durable:
            found.append(one)
        if slices.is_over:
            await slices.rest()
    return found


async def apply(broker: Broker, subscriptions: Iterable[Subscription], settings: Doc) -> None:
    """Give subscriptions that are there the properties that settings ask for."""
    wanted = properties_of(settings)
    for one in subscriptions:
        others = {
            name: value for name, value in one.properties.items() if name not in (FIFO, RETRIES)
        }
        if {**others, **wanted} != one.properties:
            await topic_lifecycle.set_subscription_properties(broker, [one], {**others, **wanted})
