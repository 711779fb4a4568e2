"""Policies of namespaces and topics, and those that hold while a topic is copied.

Policies are set last: a time to live or a quota that acts on half a topic would change it. Until then the
topic has a few of its own, so that the target keeps and takes everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from milepost.admin import AdminError, AsyncAdmin, Missing, Refused
from milepost.broker.policies.policy import Level, Policy, Route
from milepost.broker.policies.table import TABLE
from milepost.errors import InvalidPolicy, Timeout

QUOTAS: Final = "backlogQuotaMap"
QUOTA: Final = "backlogQuota"

_NO_QUOTA: Final = {"limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}

# By path. Nothing is dropped, whatever subscriptions have acked; nothing expires, and no backlog keeps the
# producer out; nothing is taken for a duplicate, since entries keep the names of their producers; and every
# version of a schema is taken.
WHILE_COPYING: Final[Mapping[str, Any]] = {
    "retention": {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    "messageTTL": 0,
    f"{QUOTA}/destination_storage": _NO_QUOTA,
    f"{QUOTA}/message_age": _NO_QUOTA,
    "deduplicationEnabled": False,
    "schemaCompatibilityStrategy": "ALWAYS_COMPATIBLE",
    "schemaValidationEnforced": False,
}

# What an Apache Pulsar must have taken over before anything is written: without them messages may be dropped,
# and schemas refused.
_NEEDED: Final = ("retention", "schemaCompatibilityStrategy")

Policies = dict[str, Any]
"""Path → value; quotas stand under their kind."""


def _routes(level: Level) -> list[tuple[Policy, Route]]:
    found = ((one, one.route(level)) for one in TABLE if one.acts)
    return [(one, route) for one, route in found if route is not None and not route.in_path]


async def read_policies(admin: AsyncAdmin, level: Level, name: str) -> Policies:
    """What a namespace or a topic has set, of what acts here."""
    found: Policies = {}
    for policy, route in _routes(level):
        if route.kind:
            continue
        value = await _get(admin, level, name, route.path)
        if value not in (None, route.unset, [], {}) and value != policy.unset_by:
            found[route.path] = value
    for kind, value in (await _get(admin, level, name, QUOTAS) or {}).items():
        found[f"{QUOTA}/{kind}"] = value
    return found


async def _get(admin: AsyncAdmin, level: Level, name: str, path: str) -> Any:
    try:
        if level is Level.NAMESPACE:
            return await admin.get_policy(name, path)
        return await admin.get_topic_policy(name, path)
    except (Missing, Refused):
        return None  # a policy that this broker does not have, or has switched off


def faults(level: Level, policies: Policies) -> list[str]:
    """What the target would refuse."""
    found = []
    for policy, route in _routes(level):
        key = f"{QUOTA}/{route.kind}" if route.kind else route.path
        if key in policies:
            try:
                policy.shape.read(policies[key], key)
            except InvalidPolicy as error:
                found.append(str(error))
    return found


async def set_policies(admin: AsyncAdmin, level: Level, name: str, policies: Policies) -> None:
    """Set what the source has, and remove from a topic what held while it was copied."""
    for key, value in policies.items():
        await _set(admin, level, name, key, value)
    if level is Level.TOPIC:
        for key in WHILE_COPYING:
            if key not in policies:
                await _remove(admin, name, key)


async def _set(admin: AsyncAdmin, level: Level, name: str, key: str, value: Any) -> None:
    path, query = _split(key)
    if level is Level.NAMESPACE:
        await admin.set_policy(name, path, value, **query)
    else:
        await admin.set_topic_policy(name, path, value, **query)


def _split(key: str) -> tuple[str, dict[str, Any]]:
    path, _, kind = key.partition("/")
    return path, {"backlogQuotaType": kind} if kind else {}


async def _remove(admin: AsyncAdmin, topic: str, key: str) -> None:
    path, query = _split(key)
    try:
        await admin.remove_topic_policy(topic, path, **query)
    except AdminError:
        await admin.set_topic_policy(topic, path, None, **query)


async def hold(admin: AsyncAdmin, topic: str) -> None:
    """Set what must hold while a topic is copied."""
    for key, value in WHILE_COPYING.items():
        await _set(admin, Level.TOPIC, topic, key, value)


async def wait_for_hold(admin: AsyncAdmin, topic: str, timeout_s: float) -> None:
    """Wait until that holds: an Apache Pulsar answers before it does."""
    try:
        async with asyncio.timeout(timeout_s):
            for key in _NEEDED:
                while await admin.get_topic_policy(topic, key) != WHILE_COPYING[key]:
                    await asyncio.sleep(0.1)
    except TimeoutError:
        raise Timeout(
            f"{topic}: the target has not taken over its policy {key} within {timeout_s:g} s"
        ) from None
