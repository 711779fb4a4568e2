"""The server: accepts connections, hands requests to their handlers one at a time, writes the answers.

    socket ─▶ frames ─▶ one request ─▶ handler ─▶ answer ─▶ socket, and then the next

A connection has one request under way; while it has, nothing more is read from it. So what a client can make
this side keep is one read and one answer. What is over its time is closed: a connection that has said nothing
at first, a frame of which the rest does not come, an answer that is not read, a client that is silent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from milepost.broker.connection.listener import start_listening, stop_listening
from milepost.broker.connection.server import is_this_machine
from milepost.broker.limits.time_slices import TimeSlices
from milepost.errors import MilepostError, ProtocolError
from milepost.rocketmq.remoting import (
    broker_info,
    connections,
    consumer_groups,
    messages,
    name_server,
    topics,
)
from milepost.rocketmq.remoting.codes import Ask, RemotingRefusal, Status, status_of
from milepost.rocketmq.remoting.frames import Command, Decoder, Flag, encode
from milepost.rocketmq.remoting.request import Answer, Peer, Request

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.rocketmq.clients import Clients

TICK_S = 1.0
BACKLOG = 1024
# As upstream: clients open a connection again when they need it.
IDLE_S = 120.0
# The rest of a frame, and a client that reads its answer, are waited for so long.
STALLED_S = 30.0
# Requests that are worked on at once; others wait for their turn.
AT_ONCE = 8
# What requests that have come in part may take in all; a connection that brings more is closed.
KEPT_SIZE_MAX = 32 * 1024 * 1024
# What answers that clients have not read may take in all; more requests are refused.
UNREAD_SIZE_MAX = 64 * 1024 * 1024

Handler = Callable[[Request], Awaitable[Answer]]

HANDLERS: Mapping[Ask, Handler] = {
    **name_server.HANDLERS,
    **topics.HANDLERS,
    **consumer_groups.HANDLERS,
    **connections.HANDLERS,
    **messages.HANDLERS,
    **broker_info.HANDLERS,
}

_ASKS = {int(ask): ask for ask in HANDLERS}

_INTERNAL = "an internal error; the broker's log has it"
_UNKNOWN = (
    "request code {} is not supported: this port answers mqadmin. Produce and consume with RocketMQ 5 "
    "clients (gRPC, rocketmq_port) or Pulsar's"
)


class Connection(asyncio.Protocol):
    """One socket."""

    def __init__(self, server: RemotingServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._decoder = Decoder()
        self._kept_size = 0
        self._peer = Peer("?", False, "", 0)
        self._is_counted = False
        self._is_busy = False
        self._is_ended = False
        """No more requests are read: the client has closed its side, or sent what is no frame."""
        self._taken = asyncio.Event()
        self._taken.set()
        now = server.broker.clock.monotonic()
        self._heard = self._frame_began = now
        self._is_new = True
        self._unread_since: float | None = None

    # -- what the transport says -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        own = transport.get_extra_info("sockname") or ("", 0)
        host = str(peer[0])
        refusal = self._server.refusal(host)
        if refusal is not None:
            self._server.broker.counters.connections_refused[refusal] += 1
            self._transport.abort()
            return
        is_encrypted = transport.get_extra_info("ssl_object") is not None
        self._peer = Peer(host, is_encrypted or is_this_machine(host), str(own[0]), int(own[1]))
        self._is_counted = True
        self._server.open.add(self)
        self._server.broker.counters.connections_opened += 1
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        now = self._server.broker.clock.monotonic()
        if not self._decoder.is_within_frame:
            self._frame_began = now
        self._heard = now
        self._decoder.feed(data)
        self._work()
        self._count_kept(self._decoder.size)
        if self._server.kept_size > KEPT_SIZE_MAX:
            self.close("memory")

    def eof_received(self) -> bool:
        """Answer what was asked before."""
        self._is_ended = True
        return self._is_busy

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ended = True
        self._taken.set()
        self._count_kept(0)
        if self._is_counted:
            self._server.open.discard(self)
            self._server.broker.connections.leave(self._peer.host)

    def pause_writing(self) -> None:
        self._unread_since = self._server.broker.clock.monotonic()
        self._taken.clear()

    def resume_writing(self) -> None:
        self._unread_since = None
        self._taken.set()

    def _count_kept(self, size: int) -> None:
        self._server.kept_size += size - self._kept_size
        self._kept_size = size

    # -- requests ----------------------------------------------------------------------------------

    def _work(self) -> None:
        if not self._is_busy and (command := self._next()) is not None:
            self._is_busy = True
            assert self._transport is not None
            self._transport.pause_reading()
            self._server.broker.spawn(self._answer_all(command))

    def _next(self) -> Command | None:
        try:
            found = self._decoder.next()
        except ProtocolError as error:
            self._server.broker.counters.frames_refused[error.reason] += 1
            self.close("protocol")
            return None
        if found is not None:
            self._is_new = False
            self._frame_began = self._server.broker.clock.monotonic()
        return found

    async def _answer_all(self, command: Command | None) -> None:
        transport = self._transport
        assert transport is not None
        # Thousands of requests may have come at once, and many of them wait for nothing.
        slices = TimeSlices(self._server.broker.clock)
        try:
            while command is not None and not transport.is_closing():
                answer = await self._server.answer(self._peer, command)
                if answer is not None and not transport.is_closing():
                    transport.write(answer)
                if not self._taken.is_set():
                    await self._taken.wait()
                    slices = TimeSlices(self._server.broker.clock)
                elif slices.is_over:
                    await slices.rest()
                command = self._next()
                self._count_kept(self._decoder.size)
        finally:
            self._is_busy = False
        self._heard = self._frame_began = self._server.broker.clock.monotonic()
        if self._is_ended:
            transport.close()
        elif not transport.is_closing():
            transport.resume_reading()

    # -- its end -----------------------------------------------------------------------------------

    def unread_size(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def tick(self, now: float) -> None:
        """Close what is over its time."""
        if self._unread_since is not None:
            if now - self._unread_since >= STALLED_S:
                self.close("unread_answer")
        elif self._is_busy:
            return
        elif self._is_new:
            if now - self._frame_began >= self._server.broker.settings.handshake_timeout_s:
                self.close("handshake_timeout")
        elif self._decoder.is_within_frame:
            if now - self._frame_began >= STALLED_S:
                self.close("frame_timeout")
        elif now - self._heard >= IDLE_S:
            self.close("idle")

    def close(self, reason: str) -> None:
        self._is_ended = True
        if self._transport is not None and not self._transport.is_closing():
            self._server.broker.counters.connections_closed[reason] += 1
            self._transport.abort()


class RemotingServer:
    """A name server and broker for mqadmin that listens."""

    def __init__(self, broker: Broker, clients: Clients | None) -> None:
        """`clients` are those of the gRPC edge; None while it is off."""
        self.broker = broker
        self._clients = clients
        self.open: set[Connection] = set()
        self.kept_size = 0
        """Bytes of requests that have come in part, or wait for their turn."""
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._servers: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None

    async def listen(self) -> None:
        """Listen on the ports that the settings name; return when requests are answered."""
        broker, settings = self.broker, self.broker.settings
        try:
            if settings.rocketmq_namesrv_port >= 0:
                port = await self._listen(settings.rocketmq_namesrv_port, None)
                broker.rocketmq_namesrv_port = port
            if settings.rocketmq_namesrv_tls_port >= 0:
                tls = broker.access_control.security.tls
                port = await self._listen(settings.rocketmq_namesrv_tls_port, tls)
                broker.rocketmq_namesrv_tls_port = port
        except BaseException:
            await self.close()
            raise
        self._tick()

    async def _listen(self, port: int, tls: ssl.SSLContext | None) -> int:
        settings = self.broker.settings
        server, bound = await start_listening(
            lambda: Connection(self),
            tls,
            settings.handshake_timeout_s,
            host=settings.host,
            port=port,
            backlog=BACKLOG,
        )
        self._servers.append(server)
        return bound

    async def close(self) -> None:
        """Answer nothing more."""
        if self._ticker is not None:
            self._ticker.cancel()
        await stop_listening(*self._servers)
        for connection in list(self.open):
            connection.close("closing")

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        now = self.broker.clock.monotonic()
        for connection in list(self.open):
            self.broker.attempt("rocketmq", partial(connection.tick, now))

    def refusal(self, host: str) -> str | None:
        """Why one more connection from a host is too many; None if it is counted."""
        if self.broker.is_closing:
            return "closing"
        return self.broker.connections.enter(host)

    # -- requests ----------------------------------------------------------------------------------

    async def answer(self, peer: Peer, command: Command) -> bytes | None:
        """The frame of the answer; None where none is waited for."""
        if command.flag & Flag.ANSWER:
            return None  # this side asks nothing
        answer = await self._answer(peer, command)
        if command.flag & Flag.ONE_WAY:
            return None
        return encode(
            Command(
                answer.status,
                command.opaque,
                Flag.ANSWER,
                answer.fields,
                answer.body,
                answer.remark,
                command.is_binary,
            )
        )

    async def _answer(self, peer: Peer, command: Command) -> Answer:
        counters = self.broker.counters
        asked = _ASKS.get(command.code)
        counters.rocketmq_requests["unknown" if asked is None else asked.name.lower()] += 1
        try:
            if asked is None:
                raise RemotingRefusal(
                    Status.REQUEST_CODE_NOT_SUPPORTED, _UNKNOWN.format(command.code)
                )
            if sum(one.unread_size() for one in self.open) > UNREAD_SIZE_MAX:
                raise RemotingRefusal(
                    Status.SYSTEM_BUSY, "too many answers wait for clients that do not read them"
                )
            request = Request(self.broker, peer, command, self._clients)
            async with self._turns:
                await request.identify()
                return await HANDLERS[asked](request)
        except MilepostError as error:
            status, remark = status_of(error), str(error)
        except Exception as error:
            self.broker.unexpected("rocketmq", error)
            status, remark = Status.SYSTEM_ERROR, _INTERNAL
        counters.rocketmq_requests_refused[status.name.lower()] += 1
        return Answer(status, remark=remark)


async def start_remoting(broker: Broker, clients: Clients | None) -> RemotingServer:
    """Listen on `rocketmq_namesrv_port` and `rocketmq_namesrv_tls_port`, 0 for a free one."""
    server = RemotingServer(broker, clients)
    await server.listen()
    return server
