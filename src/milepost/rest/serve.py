"""The HTTP listener: the application on a socket, inside the broker's own loop.

Uvicorn carries the bytes. It is told nothing about signals, which belong to whoever runs the
process, and it is given sockets that are already bound, so that a port in use is an ordinary error.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

from milepost.rest.app import create_app
from milepost.rest.lookup import http_url

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

BACKLOG = 1024
IDLE_TIMEOUT_S = 30
# Requests under way get this long when the server closes.
CLOSE_TIMEOUT_S = 2


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


class HttpServer:
    """An HTTP edge that listens."""

    def __init__(self, server: _Server, port: int, broker: Broker) -> None:
        self.port = port
        self._server = server
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return http_url(self._broker)

    async def start(self, sockets: list[socket.socket]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets))
        up = asyncio.create_task(self._server.up.wait())
        await asyncio.wait((self._task, up), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Stop listening, and let requests under way end."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task


async def start_http(broker: Broker, host: str, port: int) -> HttpServer:
    """Listen on a host and port, 0 for a free one; return when requests are answered."""
    sockets = await _bind(host, port)
    config = uvicorn.Config(
        create_app(broker),
        log_config=None,
        access_log=False,
        lifespan="off",
        http="httptools",
        ws="none",
        server_header=False,
        timeout_keep_alive=IDLE_TIMEOUT_S,
        timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
        backlog=BACKLOG,
    )
    bound: int = sockets[0].getsockname()[1]
    broker.http_port = bound
    http = HttpServer(_Server(config), bound, broker)
    await http.start(sockets)
    return http


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
