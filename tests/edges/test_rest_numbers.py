"""Every number of the REST interface, at every edge: never a 5xx, and the broker goes on with what it took.

Numbers in paths, queries and typed bodies are found in the interface's own description, those of policies
in the table of policies.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from stage.frames import batch, chunk, message, metadata
from stage.heard import got
from stage.http import Request, Web
from stage.stage import Stage
from unit.rest.conftest import Ask, ask

from edges.numbers import EDGES, number_fields, with_number
from milepost.broker.broker import Broker
from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.policies.policy import Policy
from milepost.broker.policies.table import TABLE
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.scanners.encode import send_frame

__all__ = ["ask"]

SIGNED_EDGES = tuple({*EDGES, -1, -(2**31), -(2**31) - 1, -(2**63), -(2**63) - 1, 10**30})
KNOWN = {
    "domain": "persistent",
    "tenant": "public",
    "namespace": "default",
    "topic": "t",
    "subscription": "s",
    "subName": "s",
    "mostSigBits": "0",
    "leastSigBits": "1",
    "timeout": "1",
    "bundle": "0x00000000_0xffffffff",
    "version": "0",
    "ledgerId": "1",
    "entryId": "0",
    "timestamp": "1",
    "messagePosition": "1",
    "count": "1",
    "expireTimeInSeconds": "1",
}


@pytest.fixture(autouse=True)
def nothing_unexpected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    bad = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert not bad, [one.getMessage() for one in bad]


class Scene:
    def __init__(self) -> None:
        self.stage = Stage()
        self.web = Web(self.stage)
        topic = self.stage.topic()
        self.producer = self.stage.producer(topic)
        self.stage.subscription(topic)
        self.stage.publish(self.producer, message(0), batch(1, 3), chunk(2, 0, 2), chunk(2, 1, 2))
        assert self.web("PUT /admin/v2/namespaces/public/other").status < 300
        neighbour = self.stage.topic("persistent://public/other/neighbour")
        self.neighbour = self.stage.producer(neighbour, "n")
        self.consumer = self.stage.consumer(
            self.stage.subscription(neighbour), SHARED, permits=1000
        )
        self.sent = 0

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stage.close()

    def call(self, line: str, body: Any = None) -> int:
        answer = self.web(line, body)
        assert answer.status < 500, (line, body, answer)
        return answer.status

    def lives_on(self) -> None:
        """Housekeeping, publishes and deliveries under whatever is set now."""
        self.stage.publish(self.producer, message(10 + self.sent))
        self.stage.tick(2)
        self.sent += 1
        self.stage.publish(self.neighbour, message(self.sent))
        assert got(self.consumer) == [str(self.sent)]
        for path in ("stats", "internalStats"):
            self.call(f"GET t/{path}")


def resolved(document: Any, schema: Any) -> Any:
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].split("/")[1:]:
            found = found[part]
        schema = found
    return schema


def places(document: Any, schema: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a typed body has numbers."""
    schema = resolved(document, schema)
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from places(document, one, before)
    if schema.get("type") in ("integer", "number"):
        yield before
    for name, inner in schema.get("properties", {}).items():
        yield from places(document, inner, (*before, name))


def operations() -> list[tuple[str, str, str, Any]]:
    """Method, path, what is varied, and where: a parameter's place, or the path into the body."""
    with Stage() as stage:
        document = Web(stage)("GET /openapi.json").json
    found: list[tuple[str, str, str, Any]] = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                if any(True for _ in places(document, parameter["schema"])):
                    found.append((method, path, parameter["in"], parameter["name"]))
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            found += [(method, path, "body", place) for place in places(document, schema)]
    return found


ALL_OPERATIONS = operations()
# Its dependencies run in threads, which a stage has none of.
IN_THREADS = "/milepost/v1/topics/{tenant}/{namespace}/{topic}/subscriptions/{subscription}/reset"
OPERATIONS = [one for one in ALL_OPERATIONS if one[1] != IN_THREADS]
RESET_FIELDS = [place[-1] for _, path, _, place in ALL_OPERATIONS if path == IN_THREADS]


@pytest.mark.parametrize(
    ("method", "path", "kind", "place"),
    OPERATIONS,
    ids=[f"{m} {p} {n}" for m, p, _, n in OPERATIONS],
)
def test_a_number_of_an_operation(method: str, path: str, kind: str, place: Any) -> None:
    with Scene() as scene:
        for value in SIGNED_EDGES:
            names = {**KNOWN, place: str(value)} if kind == "path" else KNOWN
            target, body = path, None
            for name, known in names.items():
                target = target.replace(f"{{{name}}}", known) if isinstance(name, str) else target
            if kind == "query":
                others = {"ledgerId": 1, "entryId": 0, "messagePosition": 1}
                query = {**others, place: value}
                target += "?" + "&".join(f"{name}={number}" for name, number in query.items())
            elif kind == "body":
                body = value if not place else {"ledgerId": 1, "entryId": 0, place[-1]: value}
            assert "{" not in target, target
            scene.call(f"{method.upper()} {target}", body)
        scene.lives_on()


@pytest.mark.parametrize("name", RESET_FIELDS)
def test_a_number_of_a_reset(ask: Ask, name: str) -> None:
    target = "/milepost/v1/topics/public/default/t/subscriptions/s/reset"

    async def fill(broker: Broker) -> None:
        topic = await broker.topic(TopicName.parse("persistent://public/default/t"))
        await broker.create_subscription(topic, "s", 0)

    bodies = [{name: value} for value in SIGNED_EDGES]
    bodies += [{"index": 0, name: value} for value in SIGNED_EDGES]
    requests = [Request("POST", target, json.dumps(body).encode()) for body in bodies]
    good = Request("POST", target, b'{"index": 0}')
    *answers, last = ask(fill, *requests, good)
    assert [answer for answer in answers if answer.status >= 500] == []
    assert last.status == 200


def test_the_description_names_numbers() -> None:
    kinds = [kind for _, _, kind, _ in ALL_OPERATIONS]
    assert min(kinds.count(kind) for kind in ("path", "query", "body")) >= 6


def numbers_in(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers_in(inner, (*before, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from numbers_in(inner, (*before, at))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield before


def put(value: Any, place: tuple[Any, ...], number: int) -> Any:
    if not place:
        return number
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], number)
    return copy


POLICIES = [(policy, place) for policy in TABLE for place in numbers_in(policy.shape.example)]


@pytest.mark.parametrize(
    ("policy", "place"), POLICIES, ids=[f"{one.name}{place}" for one, place in POLICIES]
)
def test_a_number_of_a_policy(policy: Policy, place: tuple[Any, ...]) -> None:
    with Scene() as scene:
        taken = 0
        for value in SIGNED_EDGES:
            document = put(policy.shape.example, place, value)
            for route, at in (
                (policy.namespace, "/admin/v2/namespaces/public/default"),
                (policy.topic, "t"),
            ):
                if route is None or route.in_path:
                    continue
                query = f"?{route.query}={document}" if route.query else ""
                if route.kind:
                    query = f"?backlogQuotaType={route.kind}"
                body = None if route.query else document
                status = scene.call(f"{route.method} {at}/{route.path}{query}", body)
                taken += status < 300
            scene.lives_on()
        assert taken, "no edge was taken: was any of them read?"


METADATA = list(number_fields(pb.MessageMetadata.DESCRIPTOR))


@pytest.mark.parametrize("path", METADATA, ids=[path[-1].name for path in METADATA])
def test_a_number_of_a_stored_message_is_shown(path: Any) -> None:
    """What a producer may say of a message, an operator may look at."""
    with Scene() as scene:
        for number, value in enumerate(EDGES, 20):
            data = with_number(metadata(number), path, value)
            scene.stage.publish(scene.producer, b"".join(send_frame(0, number, data, b"x")))
        for position in range(1, scene.stage.topic().log.end_index + 1):
            scene.call(f"GET t/subscription/s/position/{position}")
        scene.lives_on()
