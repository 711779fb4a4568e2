"""What is answered in express is what the route says; and answers keep the order of their requests."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from stage.frames import batch, marker, message
from stage.http import Request, Web, call
from uvicorn.server import ServerState

from milepost.broker.workers.gate import Gate
from milepost.rest.express import Express
from milepost.rest.serve import LateApp, _config

PLAIN = [(b"host", b"localhost"), (b"user-agent", b"curl"), (b"accept", b"*/*")]
T = "/admin/v2/persistent/public/default/t/getMessageIdByIndex"


@pytest.fixture
def filled(web: Web) -> Web:
    stage = web.stage
    stage.publish(stage.producer(stage.topic()), message(0), batch(1, 3), marker(4), message(5))
    return web


def express_of(web: Web) -> Express:
    return Express(web.stage.broker, lambda name: web.app.state.owner_of(name))


@pytest.mark.parametrize("index", range(6))
def test_it_says_what_the_route_says(filled: Web, index: int) -> None:
    url = f"{T}?index={index}"
    answer = express_of(filled).answer(url.encode(), PLAIN)
    route = filled.stage.run(call(filled.app, Request("GET", url)))
    if index == 4:  # a marker: what is behind it is looked for elsewhere
        assert answer is None
    else:
        assert answer == route.body
    assert route.status == 200


@pytest.mark.parametrize(
    "url",
    [
        f"{T}?index=6",
        f"{T}?index=-1",
        f"{T}?index=x",
        f"{T}?index=1&index=2",
        f"{T}?index=1&precise=true",
        f"{T}?index=" + 19 * "1",
        f"{T}?index=\u0661",
        T,
        f"{T}/?index=1",
        T.replace("/t/", "/other/") + "?index=1",
        T.replace("/t/", "/%74/") + "?index=1",
        T.replace("/t/", "/a/t/") + "?index=1",
        T.replace("persistent", "non-persistent") + "?index=1",
        "/metrics",
    ],
)
def test_anything_else_takes_the_ordinary_way(filled: Web, url: str) -> None:
    assert express_of(filled).answer(url.encode(), PLAIN) is None


@pytest.mark.parametrize(
    "header",
    [
        (b"host", b"localhost"),  # twice
        (b"content-length", b"3"),
        (b"transfer-encoding", b"chunked"),
        (b"expect", b"100-continue"),
        (b"upgrade", b"h2c"),
        (b"authorization", b"Bearer x"),
        (b"x-original-principal", b"ann"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"accept", b"x" * 2000),
    ],
)
def test_a_header_that_may_matter_takes_the_ordinary_way(
    filled: Web, header: tuple[bytes, bytes]
) -> None:
    url = f"{T}?index=1".encode()
    assert express_of(filled).answer(url, [*PLAIN, header]) is None
    assert express_of(filled).answer(url, [(b"host", b"elsewhere.example")]) is None


def test_who_must_say_who_they_are_takes_the_ordinary_way(make_stage: Any) -> None:
    locked = {"authentication": True, "token_secret_key": "data:;base64," + 44 * "A"}
    for settings in (locked, {"broker_entry_metadata": False}):
        web = Web(make_stage(**settings))
        stage = web.stage
        stage.publish(stage.producer(stage.topic()), message(0))
        assert express_of(web).answer(f"{T}?index=0".encode(), PLAIN) is None


def test_a_topic_of_another_broker_takes_the_ordinary_way(filled: Web) -> None:
    filled.app.state.owner_of = lambda name: "http://elsewhere:8080"
    assert express_of(filled).answer(f"{T}?index=1".encode(), PLAIN) is None


def test_a_topic_that_is_on_its_way_to_another_broker_takes_the_ordinary_way(
    filled: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = SimpleNamespace(gate=Gate(0))
    monkeypatch.setattr(filled.stage.broker, "workers", workers)
    assert express_of(filled).answer(f"{T}?index=1".encode(), PLAIN) is not None
    workers.gate.is_open = False
    assert express_of(filled).answer(f"{T}?index=1".encode(), PLAIN) is None


# -- on a connection -----------------------------------------------------------------------------------


class Wire(asyncio.Transport):
    """What a connection would have sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.is_closed = False
        self.was_closed = False
        """Before the other side closed it."""

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def answers(self) -> list[tuple[int, dict[str, int]]]:
        """Status and body of each."""
        found, rest = [], self.sent
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            found.append((int(head.split()[1]), json.loads(rest[:size] or b"{}")))
            rest = rest[size:]
        return found


def request(target: str, method: str = "GET", *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


async def _talk(web: Web, *pieces: bytes, answers: int) -> Wire:
    app = LateApp(web.stage.broker)
    app._app = web.app  # made already: the stage has no threads
    config = _config(app, web.stage.broker)
    config.load()
    protocol: Any = config.http_protocol_class(
        config=config,  # type: ignore[call-arg]
        server_state=ServerState(),
        app_state={},
    )
    wire = Wire()
    protocol.connection_made(wire)
    for piece in pieces:
        protocol.data_received(piece)
    while wire.sent.count(b"HTTP/1.1 ") < answers:
        await asyncio.sleep(0)
    wire.was_closed = wire.is_closed
    protocol.connection_lost(None)
    return wire


def test_answers_come_in_the_order_of_their_requests(filled: Web) -> None:
    """Several requests in one piece, one in pieces, and ordinary ones between them."""
    asked = [
        request(f"{T}?index=0"),
        request(f"{T}?index=1"),
        request(f"{T}?index=99"),
        request(f"{T}?index=5"),
        request("/admin/v2/clusters"),
        request(f"{T}?index=2"),
    ]
    whole = b"".join(asked)
    for pieces in ([whole], asked, [whole[at : at + 7] for at in range(0, len(whole), 7)]):
        wire = filled.stage.run(_talk(filled, *pieces, answers=6))
        found = wire.answers()
        assert [status for status, _ in found] == [200, 200, 404, 200, 200, 200]
        assert [found[at][1]["entryId"] for at in (0, 1, 3, 5)] == [0, 1, 3, 1]
        assert not wire.was_closed


def test_a_connection_that_is_to_be_closed_is_closed(filled: Web) -> None:
    wire = filled.stage.run(
        _talk(filled, request(f"{T}?index=0", "GET", "connection: close"), answers=1)
    )
    assert wire.was_closed
    wire = filled.stage.run(
        _talk(filled, request(f"{T}?index=0").replace(b"/1.1", b"/1.0"), answers=1)
    )
    assert wire.was_closed


def test_head_has_no_body(filled: Web) -> None:
    wire = filled.stage.run(_talk(filled, request(f"{T}?index=0", "HEAD"), answers=1))
    assert wire.sent.startswith(b"HTTP/1.1 200 ")
    assert wire.sent.endswith(b"\r\n\r\n")
