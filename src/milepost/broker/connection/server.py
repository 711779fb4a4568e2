"""The TCP server: moves bytes between sockets and sessions."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from milepost.broker.connection.listener import start_listening, stop_listening
from milepost.broker.connection.session import Session
from milepost.broker.peer import Buffer
from milepost.storage.files import BUFFERS_PER_WRITE_MAX

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

BACKLOG = 4096
# How long a closing broker waits for peers to take what was written for them.
LINGER_MS = 1_000


class Connection(asyncio.Protocol):
    """One socket. Its session thinks; this carries."""

    def __init__(self, server: RunningBroker) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._session: Session | None = None
        self._host = ""
        # The socket, to write to it directly while the transport's buffer is empty; -1 with TLS.
        self._fd = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self._host, port = str(peer[0]), peer[1]
        broker = self._server.broker
        refusal = self._server.refusal(self._host)
        if refusal is not None:
            broker.counters.connections_refused[refusal] += 1
            self._transport.abort()
            return
        self._server.open.add(self)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        high = broker.settings.write_buffer_size
        self._transport.set_write_buffer_limits(high=high, low=high // 2)
        tls = transport.get_extra_info("ssl_object")
        if tls is None and sock is not None:
            self._fd = sock.fileno()
        self._session = Session(
            broker,
            self,
            f"{self._host}:{port}",
            certificate=tls.getpeercert() if tls is not None else None,
            is_confidential=tls is not None or is_this_machine(self._host),
        )
        broker.sessions.add(self._session)
        broker.counters.connections_opened += 1

    def data_received(self, data: bytes) -> None:
        if self._session is not None:
            try:
                self._session.receive(data)
            except Exception as error:
                # Some commands of this read were obeyed and some were not: the connection cannot go on.
                self._server.broker.unexpected("connection", error)
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._server.forget(self)
            broker = self._server.broker
            try:
                session.lost()
            except Exception as error:
                broker.unexpected("connection", error)
                broker.sessions.discard(session)

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.writable(False)

    def resume_writing(self) -> None:
        if self._session is not None:
            self._session.writable(True)

    @property
    def host(self) -> str:
        """The address of the peer, without its port."""
        return self._host

    # -- what a session needs ----------------------------------------------------------------------

    def send(self, buffers: Sequence[Buffer]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not self._server.broker.engine.may_serve:
            # A process that goes on after a pause comes here before it is told that its right has lapsed.
            transport.abort()
            return
        if self._fd >= 0 and not transport.get_write_buffer_size():
            # Now, in the order of calls: a transport may wait for the end of the turn, and then take
            # its peers as they come.
            buffers = written(self._fd, buffers)
            if not buffers:
                return
        transport.writelines(buffers)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def unsent_size(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


def written(fd: int, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
    """Write what a socket takes; what is left. Whatever is wrong with it, its transport will find."""
    if len(buffers) > BUFFERS_PER_WRITE_MAX:
        return buffers
    try:
        sent = os.writev(fd, buffers)
    except OSError:
        return buffers
    if sent == sum(map(len, buffers)):
        return ()
    return (memoryview(b"".join(buffers))[sent:],)


def is_this_machine(host: str) -> bool:
    """Do packets to or from this address stay inside the machine?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RunningBroker:
    """A broker that listens."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.open: set[Connection] = set()
        self._servers: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        return self.broker.port

    async def listen(self) -> None:
        settings, workers = self.broker.settings, self.broker.workers
        tls = self.broker.access_control.security.tls
        if workers is not None:
            for sock in workers.place.clients:
                await self._listen(None, sock=sock)
            for sock in workers.place.tls_clients:
                await self._listen(tls, sock=sock)
            return
        if settings.port >= 0:
            self.broker.port = await self._listen(None, host=settings.host, port=settings.port)
        if settings.tls_port >= 0:
            self.broker.tls_port = await self._listen(
                tls, host=settings.host, port=settings.tls_port
            )

    async def _listen(self, tls: ssl.SSLContext | None, **where: Any) -> int:
        """Listen on a port, 0 for a free one, or on a socket; which port it is."""
        timeout_s = self.broker.settings.handshake_timeout_s
        server, bound = await start_listening(
            lambda: Connection(self), tls, timeout_s, backlog=BACKLOG, **where
        )
        self._servers.append(server)
        return bound

    def refusal(self, host: str) -> str | None:
        """Why one more connection from a host is too many; None if it is counted."""
        if self.broker.is_closing:
            return "closing"
        return self.broker.connections.enter(host) if self.broker.engine.may_serve else "bucket"

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self.open.discard(connection)
        self.broker.connections.leave(connection.host)

    async def stop_listening(self) -> None:
        """Accept nothing more."""
        servers, self._servers = self._servers, []
        await stop_listening(*servers)

    async def close(self) -> None:
        """Accept nothing more, drain, and give the data directory back."""
        await self.stop_listening()
        await self.broker.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Leave no socket behind: what was written goes out, to those who still take it."""
        for _ in range(LINGER_MS):
            if not self.open:
                break
            await asyncio.sleep(0.001)
        for connection in list(self.open):
            connection.abort()
        await asyncio.sleep(0)
