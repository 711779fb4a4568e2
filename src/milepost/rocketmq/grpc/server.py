"""Listens for gRPC: the table of methods, and what all connections together may take."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.connection.listener import start_listening, stop_listening
from milepost.rocketmq.grpc.call import GrpcCall
from milepost.rocketmq.grpc.connection import Connection
from milepost.rocketmq.grpc.statuses import Ended, Status

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

TICK_S: Final = 1.0
BACKLOG: Final = 4096
# Bytes of requests that have come in part, or that no method has read.
KEPT_SIZE_MAX: Final = 64 * 1024 * 1024
# Bytes of single answers that clients do not read.
UNREAD_SIZE_MAX: Final = 64 * 1024 * 1024
# Calls whose requests have come in part, beside those that are under way: so many at least.
COMING_MIN: Final = 256
# How long a closing server waits for clients to take what was written for them.
LINGER_S: Final = 0.5
# How often it looks.
_LOOK_S: Final = 0.01


class Method(NamedTuple):
    run: Callable[[GrpcCall, bytes], Awaitable[None]]
    """Answers a call. It is told the request, where that is one message."""
    takes_stream: bool = False
    """The client sends any number of messages: they are read from the call."""


class GrpcServer:
    def __init__(
        self, broker: Broker, methods: Mapping[str, Method], calls_max: int, message_size_max: int
    ) -> None:
        """`methods` by their paths. `calls_max` may be under way at once."""
        self.broker = broker
        self.connections = broker.connections.set_aside()
        self.methods = methods
        self.calls_max = calls_max
        self.message_size_max = message_size_max
        self.open: set[Connection] = set()
        self.calls = 0
        """Those that methods work on. One whose request has not come, or whose answer is given, is none: a
        client could have all of them, and do nothing with them."""
        self.coming_max = max(calls_max // 4, COMING_MIN)
        self._coming: dict[GrpcCall, None] = {}  # the oldest first
        self._kept_size = self._unread_size = 0
        self._servers: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None

    async def listen(self, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen on a port, 0 for a free one; which one it is."""
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
        if self._ticker is None:
            self._tick()
        return bound

    async def close(self, timeout_s: float) -> None:
        """Begin no more calls, let those that are under way end within a time, and hang up."""
        await stop_listening(*self._servers)
        for connection in list(self.open):
            connection.leave()
        for _ in range(int(timeout_s / _LOOK_S)):
            if not any(one.is_busy for one in self.open):
                break
            await asyncio.sleep(_LOOK_S)
        if self._ticker is not None:
            self._ticker.cancel()
        for connection in list(self.open):
            connection.close("closing", at_once=False)
        for _ in range(
            int(LINGER_S / _LOOK_S)
        ):  # what was written goes out, to clients that take it
            if not self.open:
                break
            await asyncio.sleep(_LOOK_S)
        for connection in list(self.open):
            connection.close("closing")
        await asyncio.sleep(0)

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        now = self.broker.clock.monotonic()
        for connection in list(self.open):
            self.broker.attempt("rocketmq", partial(connection.tick, now))

    def refusal(self, host: str) -> str | None:
        """Why one more connection from a host is too many; None if it is counted."""
        if self.broker.is_closing:
            return "closing"
        return self.connections.enter(host)

    def keep(self, call: GrpcCall, size: int) -> None:
        """So many bytes are kept of a call; `Ended` if that is too much of all calls."""
        self._kept_size += size - call.kept_size
        call.kept_size = size
        if self._kept_size > KEPT_SIZE_MAX and size:
            raise Ended(Status.RESOURCE_EXHAUSTED, "too much of calls has come and was not read")

    def comes(self, call: GrpcCall) -> None:
        """A call has begun, and its request has not come yet. When they are too many, the one that has been
        coming for the longest ends: those of other clients come within a moment."""
        self._coming[call] = None
        if len(self._coming) > self.coming_max:
            text = f"the request does not come, and {self.coming_max} others are coming"
            next(iter(self._coming)).end(Status.RESOURCE_EXHAUSTED, text)

    def begin(self, call: GrpcCall) -> bool:
        """A method is to work on a call; False if it works on too many."""
        self._coming.pop(call, None)
        if self.calls >= self.calls_max:
            return False
        self.calls += 1
        call.is_at_work = True
        return True

    def forget(self, call: GrpcCall) -> None:
        self._coming.pop(call, None)
        self.calls -= call.is_at_work
        call.is_at_work = False
        self.keep(call, 0)

    def count_unread(self, size: int) -> bool:
        """Clients have so much more that they do not read, or less; False if it is too much."""
        self._unread_size += size
        return self._unread_size <= UNREAD_SIZE_MAX
