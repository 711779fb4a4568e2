"""Gets, sets and removes policies of namespaces and topics.

No policy is named here. Every route follows from the table of policies, with upstream's path, verb and answer
while nothing is set; `applied=true` on a topic answers what holds, at whatever level it is set. Setting
null removes.

    POST /admin/v2/namespaces/public/default/retention   {"retentionTimeInMinutes": 60, …}
    GET  /admin/v2/persistent/public/default/orders/retention?applied=true

The two backlog quotas are the exception: they share a path, and `backlogQuotaMap` answers both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Body, Depends, Query, Response

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.policies.policy import NOTHING, Level, Policy, Route, key_of, merged
from milepost.broker.policies.shapes import Json
from milepost.broker.policies.table import TABLE
from milepost.errors import InvalidPolicy
from milepost.positions.labels import check_label
from milepost.positions.names import TopicName
from milepost.rest.audit import Asked
from milepost.rest.request import AskedBroker, AskedNamespace, AskedTopic, check_topic
from milepost.rest.route_access import Router, needs

NAMESPACE_PATH = "/admin/v2/namespaces/{tenant}/{namespace}"
TOPIC_PATH = "/admin/v2/{domain:domain}/{tenant}/{namespace}/{topic}"

router = Router("policies")

Handler = Callable[..., Coroutine[Any, Any, Any]]
Responses = dict[int | str, dict[str, Any]]


# -- what a route speaks of --------------------------------------------------------------------------


class Target:
    """A namespace or a topic that is there."""

    def __init__(self, broker: Broker, level: Level, name: str, topic: TopicName | None) -> None:
        self.broker = broker
        self.level = level
        self.name = name
        self.topic = topic

    def value(
        self, policy: Policy, *, applied: bool = False, subscription: str | None = None
    ) -> Json:
        """What is set here, or what holds; None: nothing."""
        book = self.broker.policies.book
        found = book.values(self.level, self.name).get(key_of(policy, subscription))
        if found is None and applied and self.topic is not None:
            return merged(policy, self.broker.settings, *book.levels(self.topic))
        return found

    async def set(self, policy: Policy, value: Json, subscription: str | None = None) -> None:
        await self.broker.policies.book.set(
            self.level, self.name, policy, value, subscription=subscription
        )


async def namespace_target(broker: AskedBroker, name: AskedNamespace) -> Target:
    broker.directory.namespace(name)
    return Target(broker, Level.NAMESPACE, str(name), None)


NamespaceTarget = Annotated[Target, Depends(namespace_target)]


async def _topic(broker: AskedBroker, name: AskedTopic, isGlobal: bool = False) -> Target:
    """With one cluster, what is set for all of them is set for this one."""
    check_topic(broker, name)
    return Target(broker, Level.TOPIC, str(name.base), name)


_TARGETS: dict[Level, Handler] = {
    Level.NAMESPACE: namespace_target,
    Level.TOPIC: _topic,
}
_PATHS = {Level.NAMESPACE: NAMESPACE_PATH, Level.TOPIC: TOPIC_PATH}
_NEEDS = {
    Level.NAMESPACE: Operation.ADMINISTER_NAMESPACE,
    Level.TOPIC: Operation.ADMINISTER_TOPIC,
}


def answer(value: Json, route: Route) -> Response:
    """A value, or what upstream says when there is none."""
    if value is None:
        value = route.unset
    if value is NOTHING or value is None:
        return Response(status_code=route.unset_status)
    if route.is_plain:
        return Response(value, media_type="text/plain")
    return Response(json.dumps(value), media_type="application/json")


# -- one policy, one level ---------------------------------------------------------------------------


def _add(policy: Policy, level: Level, route: Route) -> None:
    asked: Any = Depends(_TARGETS[level])
    in_query: Any = Query(alias=route.query)

    async def get(target: Target = asked, applied: bool = False) -> Response:
        return answer(target.value(policy, applied=applied), route)

    async def set_from_body(
        target: Target = asked, value: Annotated[Any, Body()] = route.bare
    ) -> None:
        await target.set(policy, value)

    async def set_from_query(target: Target = asked, value: int = in_query) -> None:
        await target.set(policy, value)

    async def remove(target: Target = asked) -> None:
        await target.set(policy, None)

    handlers: dict[str, Handler] = {
        "GET": get,
        route.method: set_from_query if route.query else set_from_body,
    }
    if route.removal:
        _serve(level, route.removal, {"DELETE": remove}, policy.name, policy.doc)
    elif route.removable:
        handlers["DELETE"] = remove
    unset: Responses = {}
    if route.unset_status == 204:
        unset = {204: {"description": "Nothing is set."}}
    _serve(level, route.path, handlers, policy.name, policy.doc, unset)


def _serve(
    level: Level,
    path: str,
    handlers: dict[str, Handler],
    word: str,
    doc: str,
    responses: Responses | None = None,
) -> None:
    for method, handler in handlers.items():
        router.add_api_route(
            f"{_PATHS[level]}/{path}",
            handler,
            methods=[method],
            status_code=200 if method == "GET" else 204,
            name=f"{method.lower()}_{level.value}_{word}",
            description=doc,
            dependencies=[needs(_NEEDS[level])],
            response_class=Response,
            responses=responses if method == "GET" else None,
        )


# -- of one subscription -----------------------------------------------------------------------------


def _add_per_subscription(policy: Policy, route: Route) -> None:
    asked: Any = Depends(_topic)

    async def get(subscription: str, target: Target = asked, applied: bool = False) -> Response:
        found = target.value(policy, applied=applied, subscription=subscription)
        return answer(found, route)

    async def set_it(
        subscription: str, target: Target = asked, value: Annotated[Any, Body()] = None
    ) -> None:
        check_label("subscription", subscription)
        await target.set(policy, value, subscription)

    async def remove(subscription: str, target: Target = asked) -> None:
        await target.set(policy, None, subscription)

    path = f"{{subscription:path}}/{route.per_subscription}"
    handlers: dict[str, Handler] = {"GET": get, "POST": set_it, "DELETE": remove}
    doc = f"{policy.doc} Of one subscription, before what its topic has."
    _serve(Level.TOPIC, path, handlers, f"{policy.name}_of_one", doc)


# -- backlog quotas ----------------------------------------------------------------------------------

QUOTAS = {route.kind: policy for policy in TABLE if (route := policy.topic) and route.kind}
QUOTA_KIND_DEFAULT = "destination_storage"

QuotaKind = Annotated[str, Query(alias="backlogQuotaType")]


def quota_json(value: Json) -> Json:
    """With the name that `limitSize` once had: older clients look for it."""
    return {"limit": value["limitSize"], **value}


def _quota(kind: str) -> Policy:
    if kind not in QUOTAS:
        raise InvalidPolicy(f"backlogQuotaType: expected one of {', '.join(QUOTAS)}")
    return QUOTAS[kind]


def _add_quotas(level: Level) -> None:
    asked: Any = Depends(_TARGETS[level])

    async def get(target: Target = asked, applied: bool = False) -> Response:
        values = {kind: target.value(policy, applied=applied) for kind, policy in QUOTAS.items()}
        shown = {kind: quota_json(value) for kind, value in values.items() if value is not None}
        return Response(json.dumps(shown), media_type="application/json")

    async def set_one(
        target: Target = asked,
        value: Annotated[Any, Body()] = None,
        kind: QuotaKind = QUOTA_KIND_DEFAULT,
    ) -> None:
        policy = _quota(kind)
        if isinstance(value, dict) and value.get("limitSize") is None and "limit" in value:
            value = {**value, "limitSize": value["limit"]}
        await target.set(policy, value)

    async def remove(target: Target = asked, kind: QuotaKind = QUOTA_KIND_DEFAULT) -> None:
        await target.set(_quota(kind), None)

    doc = "How large and how old a backlog may be, and what happens beyond it."
    _serve(level, "backlogQuotaMap", {"GET": get}, "backlog_quotas", doc)
    _serve(level, "backlogQuota", {"POST": set_one, "DELETE": remove}, "backlog_quota", doc)


# -- all at once -------------------------------------------------------------------------------------


@router.delete(f"{TOPIC_PATH}/policies", Operation.ADMINISTER_TOPIC, status_code=204)
async def remove_topic_policies(asked: Asked, name: AskedTopic) -> None:
    """Everything that is set for a topic; its namespace decides again."""
    check_topic(asked.broker, name)
    await asked.broker.policies.book.clear(Level.TOPIC, str(name.base))
    asked.note("remove-topic-policies", name.base)


def _add_all() -> None:
    for level in Level:
        for policy in TABLE:
            route = policy.route(level)
            if route is not None and not route.kind and not route.in_path:
                _add(policy, level, route)
                if route.per_subscription:
                    _add_per_subscription(policy, route)
        _add_quotas(level)


_add_all()
