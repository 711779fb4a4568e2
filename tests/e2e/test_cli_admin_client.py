"""`milepost.admin` over real sockets: against a broker, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.conftest import Serving
from milepost.admin import (
    Admin,
    AsyncAdmin,
    BadAnswer,
    Conflict,
    Credentials,
    Missing,
    ServerFault,
    Unreachable,
)
from milepost.admin.request import get, post
from milepost.admin.transport import HttpTransport
from milepost.errors import NotFound

TOPIC = "persistent://public/default/orders"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"

# A raw answer for each request that arrives on a connection; None closes it without one.
Answers = Callable[[int, bytes], bytes | None]


@contextmanager
def server(answers: Answers, *, hangs_up: bool = False) -> Iterator[str]:
    """A server that answers as it is told; `answers` gets the number of the request, and the request."""
    listener = socket.create_server(("127.0.0.1", 0))
    count = 0

    def serve() -> None:
        nonlocal count
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                while True:
                    try:
                        request = _request(connection)
                        if not request:
                            break
                        count += 1
                        answer = answers(count, request)
                        if answer is None:
                            break
                        connection.sendall(answer)
                    except OSError:
                        break
                    if hangs_up or b"Connection: close" in answer:
                        break

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(15)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    return data


# A broker.


def test_both_faces_on_a_broker(serving: Serving) -> None:
    url = serving.ready["http_url"]
    with Admin(url) as admin:
        assert admin.check_health() == "ok"
        admin.create_partitioned_topic(TOPIC, 2)
        with pytest.raises(Conflict) as caught:
            admin.create_partitioned_topic(TOPIC, 2)
        assert (caught.value.status, TOPIC in caught.value.reason) == (409, True)
        admin.create_subscription(f"{TOPIC}-partition-0", "billing")
        with pytest.raises(NotFound):
            admin.get_message_id_by_index(f"{TOPIC}-partition-0", 0)

    async def awaited() -> None:
        async with AsyncAdmin(url) as admin:
            names = [f"{TOPIC}-partition-{number}" for number in range(2)]
            found = await asyncio.gather(*(admin.get_stats(name) for name in names))
            assert [one["msgInCounter"] for one in found] == [0, 0]
            assert await admin.list_partitioned_topics("public/default") == [TOPIC]
            with pytest.raises(Missing):
                await admin.get_stats("nothing")
            await admin.delete_partitioned_topic(TOPIC)
            assert await admin.list_topics("public/default") == []

    asyncio.run(awaited())


def test_a_hundred_calls_at_once_share_few_connections(serving: Serving) -> None:
    async def many() -> list[str]:
        async with AsyncAdmin(serving.ready["http_url"]) as admin:
            return await asyncio.gather(*(admin.check_health() for _ in range(100)))

    assert asyncio.run(many()) == ["ok"] * 100


# Connections.


def test_a_connection_is_kept() -> None:
    with server(lambda count, request: OK) as url:
        transport = HttpTransport(url)
        for _ in range(3):
            transport.exchange(get("/x"))
        assert sum(len(kept) for kept in transport._idle.values()) == 1
        transport.close()


def test_one_that_says_so_is_not_kept_is_not_used_again() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with server(lambda count, request: closing) as url:
        transport = HttpTransport(url)
        for _ in range(3):
            assert transport.exchange(post("/x")).json() == []
        transport.close()


def test_one_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    with server(lambda count, request: OK, hangs_up=True) as url:
        transport = HttpTransport(url)
        for _ in range(3):
            assert transport.exchange(post("/x")).json() == []
            (kept,) = transport._idle.values()
            readable, _, _ = select.select([kept[0].sock], [], [], 10)
            assert readable, "the server has not hung up"
        transport.close()


def test_a_request_that_was_not_answered_is_not_sent_again() -> None:
    seen: list[bytes] = []

    def hangs_up(count: int, request: bytes) -> bytes | None:
        seen.append(request)
        return None

    with server(hangs_up) as url:
        transport = HttpTransport(url)
        with pytest.raises(Unreachable, match="the connection was closed before an answer"):
            transport.exchange(post("/x"))
        transport.close()
    assert len(seen) == 1


def test_the_next_address_is_tried(serving: Serving) -> None:
    port = serving.ready["http_port"]
    with Admin(f"http://127.0.0.1:1,127.0.0.1:{port}") as admin:
        assert admin.check_health() == "ok"
        assert str(admin._transport._origins[0]) == f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
    with Admin("http://127.0.0.1:1,127.0.0.1:2") as admin, pytest.raises(Unreachable) as caught:
        admin.check_health()
    assert "http://127.0.0.1:1" in str(caught.value)
    assert caught.value.status == 0


# Answers.


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (b"SSH-2.0-OpenSSH\r\n", Unreachable, "what answers is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n[]",
            Unreachable,
            "cut off",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n[]\r\n",
            Unreachable,
            "cut off",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", BadAnswer, "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", BadAnswer, "not a list of names"),
        (
            b"HTTP/1.1 503 No\r\nContent-Length: 6\r\n\r\n<html>",
            ServerFault,
            "status 503 without a reason",
        ),
    ],
)
def test_answers_that_are_none(answer: bytes, kind: type[Exception], said: str) -> None:
    with (
        server(lambda count, request: answer) as url,
        Admin(url) as admin,
        pytest.raises(kind, match=said),
    ):
        admin.list_tenants()


def test_no_answer_in_time() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with (
        listener,
        Admin(url, timeout_s=0.2) as admin,
        pytest.raises(Unreachable, match="no answer in time"),
    ):
        admin.list_tenants()


# Redirects.


def moved(location: str) -> bytes:
    return f"HTTP/1.1 307 Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


def test_a_redirect_is_followed_with_method_body_and_token() -> None:
    seen: list[bytes] = []

    def owner(count: int, request: bytes) -> bytes:
        seen.append(request)
        return OK

    with server(owner) as there:
        elsewhere = moved(f"{there}/admin/v2/x?authoritative=true")
        with server(lambda count, request: elsewhere) as here:
            transport = HttpTransport(here, credentials=Credentials(token="t"))
            transport.exchange(post("/admin/v2/x", [1]))
            transport.close()
    (request,) = seen
    assert request.startswith(b"POST /admin/v2/x?authoritative=true HTTP/1.1\r\n")
    assert b"Authorization: Bearer t\r\n" in request


def test_a_redirect_without_end_ends() -> None:
    with server(lambda count, request: moved("/again")) as url:
        transport = HttpTransport(url)
        with pytest.raises(BadAnswer, match="sent on 5 times"):
            transport.exchange(get("/x"))
        transport.close()
