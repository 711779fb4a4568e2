"""Serves the application on a socket, on the broker's loop.

Uvicorn carries the bytes. It is told nothing about signals, which belong to the process,
and it is given sockets that are already bound, so that a port in use is an ordinary error. With TLS there
is a second listener for the same application, which leaves a client's verified certificate in the scope
of its requests.

The application is made by the first request that needs it (`LateApp`): framework and routes are a third of
the memory of a broker that holds nothing, and more than half of its start.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from milepost import __version__
from milepost.broker.auth.certificates import CERTIFICATE, Certificate
from milepost.broker.connection.listener import stop_listening
from milepost.rest.express import Express
from milepost.rest.hosts import http_url, https_url

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from milepost.broker.broker import Broker
    from milepost.positions.names import TopicName

BACKLOG = 1024
# By this every answer says that it is Milepost's: tools ask for nothing that Apache Pulsar has not.
PRODUCT_HEADER = "X-Milepost-Version"
IDLE_TIMEOUT_S = 30
# Requests under way get this long when the server closes.
CLOSE_TIMEOUT_S = 2
# A connection that was accepted before gets this long for its first request.
FIRST_REQUEST_S = 0.5
# Of a request line and its headers.
HEAD_SIZE_MAX = 64 * 1024
_OK = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n%b"
_HEAD_TOO_LARGE = b"\r\n".join(
    (
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"content-length: 0",
        b"connection: close",
        b"\r\n",
    )
)


class LateApp:
    """The application, made when it is first needed, in a thread: the broker serves meanwhile."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._app: FastAPI | None = None
        # Under way, for all requests that wait.
        self._making: asyncio.Future[FastAPI] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self.made()
        await app(scope, receive, send)

    async def made(self) -> FastAPI:
        """The application. One that could not be made, for want of a descriptor or of memory, is tried
        again by the next request."""
        if self._making is None or (self._making.done() and self._app is None):
            self._making = asyncio.ensure_future(self._make())
        # A client that goes away takes nothing from the others that wait.
        return await asyncio.shield(self._making)

    async def _make(self) -> FastAPI:
        module = await asyncio.to_thread(import_module, "milepost.rest.app")
        self._app = app = cast("FastAPI", module.create_app(self._broker))
        return app

    def owner_of(self, name: TopicName) -> str | None:
        """Which other broker has a topic; None: this one."""
        if self._app is None:
            return None
        owner: str | None = self._app.state.owner_of(name)
        return owner


class _Protocol(HttpToolsProtocol):
    """HTTP whose request lines and headers are limited while they come in, and whose commonest question
    is answered where it is read (`express.py`)."""

    express: Express
    broker: Broker

    # The address under which the connection is counted; None: it was refused.
    _host: str | None = None
    # Ends the connection if the request that is awaited does not come.
    _deadline: asyncio.TimerHandle | None = None
    _head_size = 0
    _is_in_head = True
    # The request that is being read has its answer.
    _is_answered = False
    # The client has closed its side: it asks for nothing more, and may still read.
    _is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._cycles: deque[RequestResponseCycle] = deque()
        host = str((transport.get_extra_info("peername") or ("?",))[0])
        refusal = self.broker.connections.enter(host)
        if refusal is not None:
            self.broker.counters.connections_refused[refusal] += 1
            transport.abort()
            return
        self._host = host
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        # Uvicorn tells the newest request alone that its client is gone. One before it would answer all
        # the same, into a closed connection, and so would each that waits behind it.
        self.pipeline.clear()
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)
        self._expected()
        if self._host is not None:
            self.broker.connections.leave(self._host)
            self._host = None

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what the client has asked for whole; then the connection ends. One that has gone
        altogether resets the connection at the first bytes."""
        self._is_half_closed = self._is_in_head and self._is_busy
        return self._is_half_closed

    @property
    def _is_busy(self) -> bool:
        return any(not cycle.response_complete for cycle in self._cycles)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_half_closed and not self._is_busy:
            self.transport.close()

    def _expect(self) -> None:
        """The head of a request has to come in time."""
        self._expected()
        self._deadline = self.loop.call_later(
            self.broker.settings.handshake_timeout_s, self._too_late
        )

    def _expected(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.broker.counters.connections_closed["handshake_timeout"] += 1
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head:
            self._head_size += len(data)
            if self._head_size > HEAD_SIZE_MAX and not self.transport.is_closing():
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._expected()
        self._is_answered = self._answers_at_once()
        if not self._is_answered:
            super().on_headers_complete()
            while self._cycles and self._cycles[0].response_complete:
                self._cycles.popleft()
            if self.cycle is not None:  # else it asked for another protocol
                self._cycles.append(self.cycle)

    def on_message_complete(self) -> None:
        self._is_in_head, self._head_size = True, 0
        if self._is_answered:
            self._is_answered = False
            self.on_response_complete()
        else:
            super().on_message_complete()

    def _answers_at_once(self) -> bool:
        """Answer a request whose line and headers are read, if that can be done here and now: when none
        before it is under way, and the connection takes more."""
        parser = self.parser
        if (
            (self.cycle is not None and not self.cycle.response_complete)
            or self.flow.write_paused
            or parser.get_method() != b"GET"
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
        ):
            return False
        body = self.express.answer(self.url, self.headers)
        if body is None:
            return False
        head = b"".join(b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        self.transport.write(_OK % (head, len(body), body))
        return True


class _TlsProtocol(_Protocol):
    """HTTP by TLS, which knows its client's certificate."""

    _certificate: Certificate | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert() if tls is not None else None

    def eof_received(self) -> bool:  # type: ignore[override]
        return False  # TLS ends both ways at once

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, object]", self.scope)[CERTIFICATE] = self._certificate


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, and hear the requests of connections that were accepted a moment ago: they
        are on their way, and a client whose connection ends cannot know that its request was not heard."""
        await stop_listening(*self.servers)
        try:
            async with asyncio.timeout(FIRST_REQUEST_S):
                while any(one.cycle is None for one in self.server_state.connections):  # type: ignore[union-attr]
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass
        await super().shutdown(sockets)


class HttpServer:
    """An HTTP edge that listens."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._running: list[tuple[_Server, asyncio.Task[None]]] = []

    @property
    def port(self) -> int:
        return self._broker.http_port

    @property
    def url(self) -> str:
        return http_url(self._broker) or https_url(self._broker)

    async def start(self, server: _Server, sockets: list[socket.socket]) -> None:
        task = asyncio.get_running_loop().create_task(server.serve(sockets))
        self._running.append((server, task))
        up = asyncio.create_task(server.up.wait())
        await asyncio.wait((task, up), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if task.done():
            task.result()

    async def close(self) -> None:
        """Stop listening, and let requests under way end."""
        for server, _ in self._running:
            server.should_exit = True
        for _, task in self._running:
            await task


async def start_http(broker: Broker, host: str, port: int) -> HttpServer:
    """Listen on a host and port, 0 for a free one, and with TLS on the one that the settings name; return
    when requests are answered."""
    app = LateApp(broker)
    http = HttpServer(broker)
    place = None if broker.workers is None else broker.workers.place
    if place is not None:
        # Other workers send requests to this one, and share the memory of what all have loaded.
        await app.made()
    try:
        if port >= 0:
            sockets = await _bind(host, port) if place is None else list(place.http)
            broker.http_port = sockets[0].getsockname()[1]
            await http.start(_Server(_config(app, broker)), sockets)
        if broker.settings.https_port >= 0:
            port = broker.settings.https_port
            sockets = await _bind(host, port) if place is None else list(place.https)
            broker.https_port = sockets[0].getsockname()[1]
            config = _config(app, broker, _TlsProtocol)
            config.load()
            config.ssl = broker.access_control.security.tls
            await http.start(_Server(config), sockets)
    except BaseException:
        await http.close()
        raise
    return http


def _config(app: LateApp, broker: Broker, base: type[_Protocol] = _Protocol) -> uvicorn.Config:
    # Of a class of its own: the server makes protocols, and knows nothing to give them.
    express = Express(broker, app.owner_of)
    protocol = type(base.__name__, (base,), {"express": express, "broker": broker})
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=protocol,
        ws="none",
        server_header=False,
        headers=[(PRODUCT_HEADER, __version__)],
        timeout_keep_alive=IDLE_TIMEOUT_S,
        timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
        backlog=BACKLOG,
    )


async def _bind(host: str, port: int) -> list[socket.socket]:
    """A socket for every address of the host, all on one port."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if sockets[0] is not sock and port == 0:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            sock.bind(address)
            sock.setblocking(False)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets
