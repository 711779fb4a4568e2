"""Two administrative requests at once are one after the other, whichever is first.

Every pair of requests about one thing is made at once, while the catalog's thread is busy. What they answer
and leave must be what they would answer and leave one after the other; and what the broker knows must be
what another process reads from its disk. A request may also be told that it came at the wrong moment
(`ServiceNotReady`): then it must have changed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import permutations
from typing import Any

import pytest
from stage.stage import TOPIC, Stage

from milepost.broker.auth.operations import Action
from milepost.broker.operations import partition_growth, topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.workers import workers
from milepost.errors import MilepostError, ServiceNotReady
from milepost.positions.names import NamespaceName, TopicName

WHOLE = TopicName.parse("persistent://public/default/whole")
PART = WHOLE.partition_name(0)
PLAIN = TopicName.parse(TOPIC)
SPACE = NamespaceName.parse("acme/shop")
EMPTY = NamespaceName.parse("acme/empty")

Request = Callable[[Stage], Coroutine[Any, Any, Any]]


def _policy(level: Level, name: str, policy: str, value: object) -> Request:
    return lambda stage: stage.broker.policies.book.set(level, name, POLICIES[policy], value)


def _grant(namespace: NamespaceName, role: str) -> Request:
    return lambda stage: stage.broker.access_control.grants.edit(
        namespace, lambda grants: grants.with_namespace_role(role, {Action.PRODUCE})
    )


def _property(key: str) -> Request:
    return lambda stage: stage.broker.directory.change_properties(
        SPACE, lambda before: {**before, key: "1"}
    )


def _label(name: TopicName, key: str) -> Request:
    def changed(doc: dict[str, Any]) -> dict[str, Any]:
        return {**doc, "properties": {**doc.get("properties", {}), key: "1"}}

    async def change(stage: Stage) -> None:
        directory = stage.broker.directory
        if directory.partitions(name) is not None:
            await directory.change_partitioned_doc(name, changed)
        else:
            topic = await stage.broker.topic(name, create=False)
            await stage.broker.change_topics([topic], changed)

    return change


async def _delete_topic(stage: Stage) -> None:
    topic = await stage.broker.topic(PLAIN, create=False)
    await topic_lifecycle.delete_topic(stage.broker, topic, force=True)


async def _described(stage: Stage, **properties: str) -> None:
    topic = await stage.broker.topic(PLAIN, create=False)
    subscription = topic.subscriptions["s"]
    await topic_lifecycle.set_subscription_properties(stage.broker, [subscription], properties)


async def _replicated(stage: Stage) -> None:
    topic = await stage.broker.topic(PLAIN, create=False)
    await topic_lifecycle.set_subscription_replicated(stage.broker, topic.subscriptions["s"], True)


async def _delete_namespace(stage: Stage) -> None:
    await workers.delete_namespace(stage.broker, EMPTY)


async def _policy_of_empty(stage: Stage) -> None:
    stage.broker.directory.namespace(EMPTY)  # as the route does
    await _policy(Level.NAMESPACE, str(EMPTY), "message_ttl", 5)(stage)


async def _policy_of_topic(stage: Stage) -> None:
    if not stage.broker.exists(PLAIN):
        raise ServiceNotReady("as the route does")
    await _policy(Level.TOPIC, TOPIC, "message_ttl", 5)(stage)


FAMILIES: dict[str, dict[str, Request]] = {
    "partitions": {
        "grow to 8": lambda stage: partition_growth.grow(stage.broker, WHOLE, 8),
        "grow to 4": lambda stage: partition_growth.grow(stage.broker, WHOLE, 4),
        "describe": _label(WHOLE, "a"),
        "describe too": _label(WHOLE, "b"),
        "delete": lambda stage: topic_lifecycle.delete_partitioned(stage.broker, WHOLE, force=True),
        "open": lambda stage: stage.broker.topic(PART),
        "make": lambda stage: stage.broker.directory.create_partitioned(WHOLE, 3),
    },
    "tenant": {
        "change": lambda stage: stage.broker.directory.set_tenant("other", {"adminRoles": ["a"]}),
        "change too": lambda stage: stage.broker.directory.set_tenant(
            "other", {"allowedClusters": ["standalone"]}
        ),
        "delete": lambda stage: stage.broker.directory.delete_tenant("other"),
        "make": lambda stage: stage.broker.directory.create_tenant("other", {}),
        "fill": lambda stage: stage.broker.directory.create_namespace(
            NamespaceName.parse("other/x"), {}
        ),
    },
    "namespace": {
        "property": _property("a"),
        "property too": _property("b"),
        "policy": _policy(Level.NAMESPACE, str(SPACE), "message_ttl", 5),
        "policy too": _policy(Level.NAMESPACE, str(SPACE), "max_producers", 3),
        "no policies": lambda stage: stage.broker.policies.book.clear(Level.NAMESPACE, str(SPACE)),
        "grant": _grant(SPACE, "a"),
        "grant too": _grant(SPACE, "b"),
    },
    "namespace that goes": {
        "delete": _delete_namespace,
        "policy": _policy_of_empty,
        "topic": lambda stage: stage.broker.directory.create_partitioned(
            TopicName.parse(f"persistent://{EMPTY}/t"), 2
        ),
    },
    "topic": {
        "describe": _label(PLAIN, "a"),
        "describe too": _label(PLAIN, "b"),
        "policy": _policy_of_topic,
        "delete": _delete_topic,
    },
    "subscription": {
        "describe": lambda stage: _described(stage, a="1"),
        "describe otherwise": lambda stage: _described(stage, b="1"),
        "replicate": _replicated,
    },
    "resource group": {
        "in": lambda stage: stage.broker.policies.groups.put("g", {"publishRateInMsgs": 5}),
        "out": lambda stage: stage.broker.policies.groups.put("g", {"dispatchRateInMsgs": 7}),
        "delete": lambda stage: stage.broker.policies.groups.delete("g"),
    },
    "settings": {
        "set": lambda stage: stage.broker.dynamic.set("maxProducersPerTopic", "5"),
        "set another": lambda stage: stage.broker.dynamic.set("maxConsumersPerTopic", "6"),
        "remove": lambda stage: stage.broker.dynamic.remove("maxProducersPerTopic"),
    },
}
PAIRS = [
    pytest.param(family, one, other, id=f"{family}: {one} and {other}")
    for family, requests in FAMILIES.items()
    for one, other in permutations(requests, 2)
]


def _scene() -> Stage:
    stage = Stage()
    directory = stage.broker.directory
    stage.run(directory.create_tenant("acme", {"adminRoles": ["x"]}))
    stage.run(directory.create_tenant("other", {"adminRoles": ["x"]}))
    for space in (SPACE, EMPTY):
        stage.run(directory.create_namespace(space, {}))
    stage.run(directory.create_partitioned(WHOLE, 2))
    stage.subscription(stage.topic(str(WHOLE.partition_name(1))), "s")
    stage.subscription(stage.topic(TOPIC), "s")
    stage.run(stage.broker.policies.groups.put("g", {"publishRateInMsgs": 1}))
    return stage


def _known(stage: Stage) -> dict[str, Any]:
    """Everything that an operator could ask for."""
    broker = stage.broker
    directory, policies = broker.directory, broker.policies
    subscriptions = {}
    for name in sorted(directory._rows):
        topic = stage.run(broker.topic(TopicName.parse(name), create=False))
        subscriptions[name] = {one.name: one.doc() for one in topic.subscriptions.values()}
    return {
        "rows": {
            name: {key: value for key, value in row.doc.items() if key != "created_ms"}
            for name, row in directory._rows.items()
        },
        "partitioned": dict(directory._partitioned),
        "tenants": dict(directory._tenants),
        "namespaces": dict(directory._namespaces),
        "policies": {
            level: {name: values for name, values in policies.book._set[level].items() if values}
            for level in Level
        },
        "grants": {
            name: grants.document() for name, grants in broker.access_control.grants._grants.items()
        },
        "groups": {name: policies.groups.rates(name) for name in policies.groups.names()},
        "settings": broker.dynamic.values(),
        "subscriptions": subscriptions,
    }


def _answers(tasks: list[asyncio.Task[Any]]) -> tuple[str, ...]:
    return tuple(
        "done" if task.exception() is None else type(task.exception()).__name__ for task in tasks
    )


def _in_turn(*requests: Request) -> tuple[tuple[str, ...], dict[str, Any]]:
    with _scene() as stage:
        answers = []
        for request in requests:
            task = stage.loop.begin(request(stage))
            stage.turn()
            answers += _answers([task])
        return tuple(answers), _known(stage)


@pytest.mark.parametrize(("family", "one", "other"), PAIRS)
def test_two_requests_at_once_are_one_after_the_other(family: str, one: str, other: str) -> None:
    requests = [FAMILIES[family][one], FAMILIES[family][other]]
    with _scene() as stage:
        stage.engine.holds_catalog = True
        tasks = [stage.loop.begin(request(stage)) for request in requests]
        stage.turn()
        stage.engine.holds_catalog = False
        stage.turn()
        assert all(task.done() for task in tasks)
        for task in tasks:
            assert task.exception() is None or isinstance(task.exception(), MilepostError)
        answers, known = _answers(tasks), _known(stage)
        later = _known(stage.restarted())
    assert known == later, "another process finds what this one knew"
    if ServiceNotReady.__name__ in answers:
        obeyed = [
            request
            for request, answer in zip(requests, answers, strict=True)
            if answer != ServiceNotReady.__name__
        ]
        assert known == _in_turn(*obeyed)[1]
        return
    first, then = _in_turn(*requests), _in_turn(*reversed(requests))
    assert (answers, known) in (first, (then[0][::-1], then[1]))


@pytest.mark.parametrize(
    ("family", "one"),
    [
        pytest.param(family, one, id=f"{family}: {one}")
        for family, requests in FAMILIES.items()
        for one in requests
    ],
)
def test_a_request_whose_caller_left_leaves_what_another_process_finds(
    family: str, one: str
) -> None:
    with _scene() as stage:
        stage.engine.holds_catalog = True
        task = stage.loop.begin(FAMILIES[family][one](stage))
        stage.turn()
        task.cancel()
        stage.engine.holds_catalog = False
        stage.turn()
        assert task.done()
        known = _known(stage)
        later = _known(stage.restarted())
    assert known == later
