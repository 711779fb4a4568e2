"""Calls about policies of namespaces and topics.

A policy is named by the last part of its path (`retention`, `messageTTL` …); `docs/policies.md` lists them.
Owns which verb sets which; what a value may be is the broker's to say.

    admin.set_topic_policy("orders", "retention", {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1})
    admin.get_topic_policy("orders", "retention", applied=True)
"""

from __future__ import annotations

import json
from typing import Any

from milepost.admin.request import Answer, Request, Script, delete, get, namespace_path, topic_path

# What is set by PUT; everything else by POST.
PUT_OF_NAMESPACE = frozenset(
    {
        "schemaCompatibilityStrategy",
        "schemaAutoUpdateCompatibilityStrategy",
        "compactionThreshold",
        "offloadThreshold",
        "offloadThresholdInSeconds",
        "offloadDeletionLagMs",
    }
)
# Texts that stand in the body without quotation marks.
PLAIN_OF_NAMESPACE = frozenset({"antiAffinity", "resourcegroup"})
PUT_OF_TOPIC = frozenset({"schemaCompatibilityStrategy"})
# What a topic is given in the query, and not in the body.
QUERY_OF_TOPIC = frozenset({"messageTTL", "subscriptionExpirationTime"})


def get_policy(namespace: str, name: str) -> Script[Any]:
    """What a namespace has set; None where that is nothing."""
    answer = yield get(namespace_path(namespace, *name.split("/")))
    return (answer.text() or None) if name in PLAIN_OF_NAMESPACE else _value(answer)


def set_policy(namespace: str, name: str, value: object, **query: str) -> Script[None]:
    """None removes it, also what has no call that does."""
    method = "PUT" if name in PUT_OF_NAMESPACE else "POST"
    body = str(value).encode() if name in PLAIN_OF_NAMESPACE else _body(value)
    yield Request(method, namespace_path(namespace, *name.split("/")), query, body)


def remove_policy(namespace: str, name: str, **query: str) -> Script[None]:
    yield delete(namespace_path(namespace, *name.split("/")), **query)


def get_topic_policy(
    topic: str,
    name: str,
    *,
    applied: bool = False,
    is_global: bool = False,
    subscription: str | None = None,
) -> Script[Any]:
    """What a topic has set, or with `applied` what holds, at whatever level it is set; None: nothing."""
    path = topic_path(topic, *_parts(name, subscription))
    return _value((yield get(path, applied=applied or None, isGlobal=is_global or None)))


def set_topic_policy(
    topic: str,
    name: str,
    value: object,
    *,
    is_global: bool = False,
    subscription: str | None = None,
    **query: str,
) -> Script[None]:
    asked: dict[str, object] = {"isGlobal": is_global or None, **query}
    body: bytes | None = _body(value)
    if name in QUERY_OF_TOPIC:
        asked, body = {name: value, **asked}, None
    method = "PUT" if name in PUT_OF_TOPIC else "POST"
    yield Request(method, topic_path(topic, *_parts(name, subscription)), asked, body)


def remove_topic_policy(
    topic: str, name: str, *, is_global: bool = False, subscription: str | None = None, **query: str
) -> Script[None]:
    path = topic_path(topic, *_parts(name, subscription))
    yield delete(path, isGlobal=is_global or None, **query)


def _parts(name: str, subscription: str | None) -> tuple[str, ...]:
    """A policy of one subscription stands below its name."""
    return (name,) if subscription is None else (subscription, name)


def _body(value: object) -> bytes:
    return json.dumps(value).encode()


def _value(answer: Answer) -> Any:
    return answer.json() if answer.body else None
