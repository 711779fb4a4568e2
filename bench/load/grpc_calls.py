"""gRPC calls that cost the caller little, so that the server is what is measured.

A bare HTTP/2 client: header blocks are prepared, answers are not decompressed, windows are so large that they
never close. A library for gRPC in Python takes several times as much of the machine as the broker does. What
a call says is in its messages; one that has none has failed.
"""

from __future__ import annotations

import asyncio
from typing import cast

from milepost.rocketmq.grpc import frames
from milepost.rocketmq.grpc.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    HEAD_SIZE,
    PREFACE,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Setting,
)
from milepost.rocketmq.grpc.headers import written

_ROOM = 1 << 30


class Exchange:
    """One call that is under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.messages: list[bytes] = []
        self.began: asyncio.Future[None] = loop.create_future()
        """Done at the first message, or at the end."""
        self.ended: asyncio.Future[None] = loop.create_future()
        self._partial = b""

    def came(self, data: bytes) -> None:
        data = self._partial + data
        while len(data) >= 5 and len(data) >= 5 + (size := int.from_bytes(data[1:5], "big")):
            self.messages.append(data[5 : 5 + size])
            data = data[5 + size :]
        self._partial = data
        if self.messages and not self.began.done():
            self.began.set_result(None)

    def end(self, error: Exception | None = None) -> None:
        for one in (self.began, self.ended):
            if one.done():
                continue
            if error is None:
                one.set_result(None)
            else:
                one.set_exception(error)
                one.exception()  # it may be that only one of both is awaited


class GrpcCalls(asyncio.Protocol):
    """One connection."""

    def __init__(self, headers: tuple[tuple[str, str], ...]) -> None:
        self._headers = headers
        self._blocks: dict[tuple[str, int], bytes] = {}
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._open: dict[int, Exchange] = {}
        self._next = 1
        self._window = WINDOW_DEFAULT
        self._room = asyncio.Event()
        self._room.set()

    @classmethod
    async def connect(cls, port: int, headers: tuple[tuple[str, str], ...]) -> GrpcCalls:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: cls(headers), "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = {Setting.INITIAL_WINDOW_SIZE: _ROOM, Setting.ENABLE_PUSH: 0}
        room = frames.window_frame(0, WINDOW_MAX - WINDOW_DEFAULT)
        self._transport.write(PREFACE + frames.settings_frame(settings) + room)

    def connection_lost(self, exc: Exception | None) -> None:
        for one in self._open.values():
            one.end(ConnectionError("the server has hung up"))
        self._open.clear()

    async def begin(
        self, path: str, message: bytes, timeout_s: int, *, is_last: bool = True
    ) -> Exchange:
        """Call a method; with `is_last` nothing more is said."""
        while self._window < len(message) + 5:
            self._room.clear()
            await self._room.wait()
        block = self._blocks.get((path, timeout_s))
        if block is None:
            block = self._blocks[path, timeout_s] = written(
                (":method", "POST"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "127.0.0.1"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("grpc-timeout", f"{timeout_s}S"),
                *self._headers,
            )
        stream, self._next = self._next, self._next + 2
        exchange = self._open[stream] = Exchange(self._loop)
        size = len(message) + 5
        self._window -= size
        assert self._transport is not None
        self._transport.write(
            b"".join(
                (
                    frames.head(len(block), frames.HEADERS, END_HEADERS, stream),
                    block,
                    frames.head(size, frames.DATA, END_STREAM if is_last else 0, stream),
                    b"\x00" + len(message).to_bytes(4, "big"),
                    message,
                )
            )
        )
        return exchange

    async def ask(self, path: str, message: bytes, timeout_s: int) -> list[bytes]:
        """Call a method; all messages of the answer."""
        exchange = await self.begin(path, message, timeout_s)
        await exchange.ended
        if not exchange.messages:
            raise RuntimeError(f"{path} was not answered")
        return exchange.messages

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at, end = 0, len(buffer)
        while end - at >= HEAD_SIZE:
            size = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
            if end - at - HEAD_SIZE < size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            payload = bytes(buffer[at + HEAD_SIZE : at + HEAD_SIZE + size])
            at += HEAD_SIZE + size
            self._obey(kind, flags, stream, payload)
        del buffer[:at]

    def _obey(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        assert self._transport is not None
        if kind in (frames.DATA, frames.HEADERS):
            exchange = self._open.get(stream)
            if exchange is None:
                return
            if kind == frames.DATA:
                exchange.came(payload)
            if flags & END_STREAM:
                del self._open[stream]
                exchange.end()
        elif kind == frames.RST_STREAM:
            if (exchange := self._open.pop(stream, None)) is not None:
                exchange.end()
        elif kind == frames.WINDOW_UPDATE and not stream:
            self._window += frames.number(payload)
            self._room.set()
        elif kind == frames.PING and not flags & ACK:
            self._transport.write(frames.frame(frames.PING, ACK, 0, payload))
        elif kind == frames.SETTINGS and not flags & ACK:
            self._transport.write(frames.frame(frames.SETTINGS, ACK, 0))
