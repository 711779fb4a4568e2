"""What every request passes: limits on paths and bodies, HEAD, and the last resort."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from stage.frames import message, sends
from stage.http import Request as Asked
from stage.http import Web, call, stream

from milepost.broker.broker import Broker
from milepost.broker.settings.settings import Settings
from milepost.broker.topic.producer import Producer
from milepost.positions.names import TopicName
from milepost.rest import bodies
from milepost.rest.app import create_app
from milepost.rest.bodies import SIZE_MAX
from milepost.rest.edge import Edge
from milepost.rest.hosts import HostRules
from milepost.storage.catalog.catalog import TopicRow
from milepost.testing.peer import RecordingPeer
from rest.conftest import Answer, Ask, Request

PARTITIONS = "/admin/v2/persistent/public/default/orders/partitions"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/lookup/v2/topic/persistent/public/default/%FF", "the path is not UTF-8"),
        ("/lookup/v2/topic/persistent/public/default/%00", "the path has a control character"),
        ("/status.html%0a", "the path has a control character"),
        ("/" + "x" * 8192, "the path is longer than 8192 bytes"),
    ],
)
def test_a_path_that_is_none_is_400(ask: Ask, path: str, reason: str) -> None:
    (answer,) = ask(f"GET {path}")
    assert (answer.status, answer.reason) == (400, reason)


def test_a_large_body_is_413_however_it_comes(ask: Ask) -> None:
    whole = Request("PUT", PARTITIONS, b"1" * (SIZE_MAX + 1))
    parts = Request("PUT", PARTITIONS, [b" " * 65536] * 17)
    for answer in ask(whole, parts):
        assert answer.status == 413
        assert "larger than 1048576 bytes" in answer.reason


def test_head_is_get(ask: Ask) -> None:
    """The server leaves the body out; the application says the same as for GET."""
    head, get = ask("HEAD /status.html", "GET /status.html")
    assert head == get


def test_what_nobody_foresaw_is_500_and_logged(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(*_: object, **__: object) -> int:
        raise KeyError("a secret")

    def break_it(broker: Broker) -> None:
        broker.partitions_of = fail  # type: ignore[method-assign]

    with caplog.at_level(logging.ERROR):
        answer, after = ask(break_it, f"GET {PARTITIONS}", "GET /status.html")
    assert (answer.status, answer.reason) == (500, "an internal error; the broker's log has it")
    assert after.status == 200
    (record,) = [one for one in caplog.records if one.name == "milepost.rest.edge"]
    assert record.getMessage() == f"GET {PARTITIONS} failed"
    assert record.exc_info is not None


@pytest.mark.parametrize(
    ("method", "told"),
    [("GET", "try again"), ("PUT", "it may have been carried out"), ("HEAD", "try again")],
)
def test_a_call_that_the_end_of_the_broker_cuts_is_503_and_says_what_is_known(
    method: str, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The listener cancels what takes too long when it closes; that is no bug for the log."""

    async def play() -> None:
        is_asked = asyncio.Event()

        async def app(*_: object) -> None:
            is_asked.set()
            await asyncio.Event().wait()

        edge = Edge(app, HostRules(Settings()))
        asking = asyncio.ensure_future(call(edge, Asked(method, PARTITIONS, b"")))
        await is_asked.wait()
        asking.cancel()
        answer = await asking
        assert (answer.status, answer.reason) == (503, f"the broker is shutting down: {told}")

    with caplog.at_level(logging.INFO):
        asyncio.run(play())
    assert caplog.records == []


def test_a_call_whose_body_the_end_of_the_broker_cuts_was_not_begun() -> None:
    async def play() -> None:
        is_read = asyncio.Event()
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            is_read.set()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def app(*_: object) -> None:
            raise AssertionError

        path = PARTITIONS.encode()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "PUT", "path": PARTITIONS, "raw_path": path}
        scope |= {"query_string": b"", "headers": headers}
        asking = asyncio.ensure_future(Edge(app, HostRules(Settings()))(scope, receive, send))
        await is_read.wait()
        asking.cancel()
        await asking
        assert sent[0]["status"] == 503
        assert json.loads(sent[1]["body"])["reason"] == "the broker is shutting down: try again"

    asyncio.run(play())


# -- hostile requests: what comes, and what is answered ------------------------------------------------

TOPIC = "/admin/v2/persistent/public/default/t"
INDEX = f"{TOPIC}/getMessageIdByIndex"
DEEP = b"[" * 10_000 + b"]" * 10_000

ROWS = [
    # (request, body, headers, status)
    (f"GET {INDEX}?index=-1", b"", {}, 404),
    (f"GET {INDEX}?index=3", b"", {}, 404),
    (f"GET {INDEX}?index=100000000000000000000", b"", {}, 404),
    (f"GET {INDEX}?index=1e3", b"", {}, 400),
    (f"GET {INDEX}?index=%205", b"", {}, 400),
    (f"GET {INDEX}?index=%EF%BC%90", b"", {}, 400),
    (f"GET {INDEX}", b"", {}, 400),
    (f"GET {INDEX}?index=0&index=1", b"", {}, 400),
    (f"GET {INDEX}?index=0", b"", {}, 200),
    ("GET /admin/v2/persistent/public/default/none/getMessageIdByIndex?index=0", b"", {}, 404),
    ("GET /admin/v2/non-persistent/public/default/t/getMessageIdByIndex?index=0", b"", {}, 406),
    ("GET /admin/v2/persistent/public/default/many/getMessageIdByIndex?index=0", b"", {}, 405),
    # Paths.
    ("GET /admin/v2/persistent/public/default/%00/stats", b"", {}, 400),
    ("GET /admin/v2/persistent/public/default/%2e%2e%2fother/stats", b"", {}, 412),
    ("GET /admin/v2/persistent/public/default/../stats", b"", {}, 400),
    ("GET /admin/v2/persistent/public/default/a%252Fb/stats", b"", {}, 404),
    (f"GET {TOPIC}{'x' * 8192}/stats", b"", {}, 400),
    (f"GET {TOPIC}/stats?{'x' * 9000}", b"", {}, 400),
    ("GET /admin/v2/persistent/public/default/%FF/stats", b"", {}, 400),
    (f"GET {TOPIC}/stats/", b"", {}, 307),
    # Bodies.
    (f"PUT {TOPIC}x/partitions", b"{", {}, 400),
    (f"PUT {TOPIC}x/partitions", b'"four"', {}, 400),
    (f"PUT {TOPIC}x/partitions", b"NaN", {}, 400),
    (f"PUT {TOPIC}x/partitions", b'{"partitions": 1, "partitions": 2}', {}, 400),
    (f"PUT {TOPIC}x", DEEP, {}, 400),
    (f"PUT {TOPIC}x/partitions", b"4", {"content-type": "text/plain"}, 415),
    (f"PUT {TOPIC}x/partitions", b"4", {"content-type": ""}, 415),
    (f"PUT {TOPIC}x/partitions", b"4", {"content-encoding": "gzip"}, 415),
    (f"PUT {TOPIC}x/partitions", b"4", {"content-length": "104857600"}, 413),
    # Verbs.
    (f"POST {TOPIC}/stats", b"", {}, 405),
    (f"HEAD {TOPIC}/stats", b"", {}, 200),
    (f"OPTIONS {TOPIC}/stats", b"", {}, 204),
    (f"TRACE {TOPIC}/stats", b"", {}, 405),
    (f"GET {TOPIC}/stats", b"", {"x-http-method-override": "DELETE"}, 200),
    # Headers.
    (f"GET {TOPIC}/stats", b"", {"x-large": "x" * 65536}, 431),
    (f"GET {TOPIC}/stats", b"", {"x-original-principal": "admin"}, 200),
    (f"GET {TOPIC}/stats", b"", {"x-forwarded-for": "10.0.0.1"}, 200),
    # Other sites.
    (f"GET {TOPIC}/stats", b"", {"host": "evil.example"}, 403),
    (f"GET {TOPIC}/stats", b"", {"host": "192.168.1.5:8080"}, 200),
    (f"PUT {TOPIC}x", b"", {"origin": "http://evil.example"}, 403),
    (f"PUT {TOPIC}x", b"", {"origin": "http://localhost"}, 204),
]


@pytest.mark.parametrize(
    ("line", "body", "headers", "status"), ROWS, ids=[f"{n}" for n in range(len(ROWS))]
)
def test_hostile_requests(
    web: Web, line: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    """The table of the reliability goals; never another tenant's data, never a 5xx."""
    stage = web.stage
    stage.publish(stage.producer(stage.topic()), *(message(number) for number in range(3)))
    web("PUT many/partitions", 2)
    method, target = line.split(" ", 1)
    answer: Answer = stage.run(call(web.app, Request(method, target, body, headers)))
    assert answer.status == status, answer
    if status >= 400:
        assert set(answer.json) == {"reason"}


def test_a_thousand_at_once_are_all_answered_and_publishing_goes_on(ask: Ask) -> None:
    """Of the same table."""

    async def ask_all(broker: Broker) -> None:
        app = create_app(broker)
        topic = await broker.topic(TopicName.parse("persistent://public/default/t"))
        await broker.create_subscription(topic, "s", 0)
        producer = Producer(0, "p", RecordingPeer(), topic)
        asked = [call(app, Request("GET", f"{TOPIC}/stats")) for _ in range(1000)]
        topic.publish(producer, sends(message(0)))
        answers = await asyncio.gather(*asked)
        async with asyncio.timeout(30):
            await broker.engine.flush()
        assert {one.status for one in answers} == {200}
        assert topic.log.end_index == 1

    ask(ask_all)


def test_a_hundred_thousand_topics_are_listed_in_pieces(web: Web) -> None:
    count = 100_000
    names = [f"persistent://public/default/topic-{number:06}" for number in range(count)]
    web.stage.broker.directory._rows.update((name, TopicRow(0, name, {})) for name in names)
    sizes: list[int] = []

    async def listing() -> bytes:
        body = bytearray()

        async def send(message: Any) -> None:
            sizes.append(len(message.get("body", b"")))
            body.extend(message.get("body", b""))

        await stream(web.app, Request("GET", "/admin/v2/persistent/public/default"), send)
        return bytes(body)

    assert json.loads(web.stage.run(listing())) == names
    assert max(sizes) < 100_000
    assert len(sizes) > count // 1000


def test_a_body_that_does_not_end_is_408(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "TIMEOUT_S", 0.0)

    async def run() -> list[int]:
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {
            "type": "http",
            "method": "PUT",
            "path": f"{TOPIC}/partitions",
            "raw_path": f"{TOPIC}/partitions".encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        await web.app(scope, receive, send)
        return statuses

    assert asyncio.run(run()) == [408]


def test_a_wrong_verb_names_all_that_are_right(web: Web) -> None:
    answer = web("PATCH t/partitions")
    assert (answer.status, answer.headers["allow"]) == (
        405,
        "DELETE, GET, HEAD, OPTIONS, POST, PUT",
    )
    assert web("OPTIONS t/partitions").headers["allow"] == "DELETE, GET, HEAD, OPTIONS, POST, PUT"
    assert web("OPTIONS /nothing").status == 404
