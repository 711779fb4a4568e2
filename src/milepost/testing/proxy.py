"""A TCP proxy for tests: between a client and a broker, with bad weather made to order.

Owns what happens to the bytes on the way: delayed, split, merged, held, recorded, cut. Never changes,
reorders or invents one. What it does follows from the seed and from how many bytes have passed, not from
how TCP happened to cut them: the same seed splits each direction of the nth connection at the same
bytes, waits as long there, and hangs up behind the same byte. When bytes arrive is TCP's to say.

    async with Proxy("127.0.0.1", broker.port, seed=7, weather=Weather(piece_max=40)) as proxy:
        client = await connect(proxy.port)
        await proxy.connected(1)
        link = proxy.links[0]
        link.to_client.pause()              # the broker's answers stay in the proxy
        ...
        link.to_client.resume()
        link.to_server.cut_after(1_000)     # hang up behind the thousandth byte of the client
        bytes(link.to_server.passed)        # what the broker was sent
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from milepost.broker.connection.listener import stop_listening

# What is read at once, and so what the proxy holds of a paused direction beside TCP's own buffers.
READ_SIZE = 64 * 1024


@dataclass(frozen=True)
class Weather:
    """What the bytes meet on their way; the default is none of it."""

    delay_ms_max: float = 0.0
    """Each piece waits a random time up to this."""
    piece_max: int = 0
    """The stream is split into pieces of random sizes up to this; 0: as it comes."""
    merge_odds: float = 0.0
    """How many pieces are kept back until they are full, or `merge_wait_ms` has passed."""
    merge_wait_ms: float = 20.0
    cut_after_max: int = 0
    """Each connection is cut behind a random byte up to this, in a random direction; 0: never."""
    cut_odds: float = 1.0
    """How many connections are: with 0.5 every other one lives."""


CALM = Weather()


class Direction:
    """One way of a connection."""

    def __init__(self, weather: Weather, seed: str) -> None:
        self.passed = bytearray()
        """Everything handed to the other side, in order."""
        self._weather = weather
        self._random = random.Random(seed)  # noqa: S311
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self._cut_at: int | None = None
        self._progress = _Bell()

    def pause(self) -> None:
        """Hand nothing on; the sender is stopped when TCP's buffers are full."""
        self._may_pass.clear()

    def resume(self) -> None:
        self._may_pass.set()

    def cut_after(self, count: int) -> None:
        """Hang up both ways when `count` bytes have passed in all; at the next byte if they have."""
        self._cut_at = count

    async def has_passed(self, count: int) -> None:
        """Wait until that many bytes have passed in all."""
        while len(self.passed) < count:
            await self._progress.rung()

    def pieces(self) -> Iterator[tuple[int, float, float]]:
        """Sizes of the pieces to come, how long each waits to be filled and, then, to go on."""
        weather, rolled = self._weather, self._random
        while True:
            # Always three draws, so that one setting does not change what another one does.
            size, merge, delay = rolled.random(), rolled.random(), rolled.random()
            fill_s = weather.merge_wait_ms / 1000 if merge < weather.merge_odds else 0.0
            count = 1 + int(size * weather.piece_max) if weather.piece_max else READ_SIZE
            yield count, fill_s, delay * weather.delay_ms_max / 1000

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Move bytes until there are no more; `_Cut` where the connection is to end."""
        for size, fill_s, delay_s in self.pieces():
            left = size
            while left:
                data = await _read(reader, left, fill_s)
                if not data:
                    return
                await asyncio.sleep(delay_s)
                await self._may_pass.wait()
                await self._hand_on(data, writer)
                left = left - len(data) if self._weather.piece_max else 0

    async def _hand_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        room = len(data) if self._cut_at is None else max(self._cut_at - len(self.passed), 0)
        if kept := data[:room]:
            writer.write(kept)
            self.passed += kept
            await writer.drain()
            self._progress.ring()
            # A turn of the loop for the other side, so that it sees this piece alone.
            await asyncio.sleep(0)
        if self._cut_at is not None and len(self.passed) >= self._cut_at:
            raise _Cut


class Link:
    """One connection through the proxy."""

    def __init__(self, number: int, seed: int, weather: Weather) -> None:
        self.number = number
        """From 0, in the order in which they came."""
        self.to_server = Direction(weather, f"{seed}/{number}/to_server")
        self.to_client = Direction(weather, f"{seed}/{number}/to_client")
        self._writers: list[asyncio.StreamWriter] = []
        self._task = asyncio.current_task()
        self._cut_at_random(random.Random(f"{seed}/{number}"), weather)  # noqa: S311

    def _cut_at_random(self, rolled: random.Random, weather: Weather) -> None:
        odds, side, count = rolled.random(), rolled.random(), rolled.random()
        if weather.cut_after_max and odds < weather.cut_odds:
            direction = self.to_server if side < 0.5 else self.to_client
            direction.cut_after(1 + int(count * weather.cut_after_max))

    @property
    def is_open(self) -> bool:
        return self._task is not None and not self._task.done()

    def cut(self) -> None:
        """Hang up on both sides at once, as a network does: what is on its way is lost."""
        if self._task is not None:
            self._task.cancel()

    async def closed(self) -> None:
        """Wait until it has ended, from either side."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def run(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        """Carry both ways until both have ended, or one is cut."""
        self._writers = [writer]
        is_cut = True
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
            self._writers.append(far_writer)
            for one in self._writers:
                one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(self.to_server, reader, far_writer))
                group.create_task(self._carry(self.to_client, far_reader, writer))
            is_cut = False
        except* (_Cut, OSError, asyncio.CancelledError):
            pass
        finally:
            for one in self._writers:
                _abort(one) if is_cut else one.close()

    async def _carry(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await direction.carry(reader, writer)
        with suppress(OSError):
            writer.write_eof()


class Proxy:
    """Listens on a free port of this machine and carries every connection to one server."""

    def __init__(self, host: str, port: int, *, seed: int = 0, weather: Weather = CALM) -> None:
        self.weather = weather
        """Of the connections to come; those that are there keep theirs."""
        self.links: list[Link] = []
        """Every connection so far, in the order in which they came."""
        self.is_refusing = False
        """Hang up on everybody who connects."""
        self.port = 0
        self._target = (host, port)
        self._seed = seed
        self._server: asyncio.Server | None = None
        self._arrival = _Bell()

    @property
    def url(self) -> str:
        """As a Pulsar client is given it."""
        return f"pulsar://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=READ_SIZE)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        self.cut()
        for link in self.links:
            await link.closed()

    def cut(self) -> None:
        """Hang up on everybody."""
        for link in self.links:
            link.cut()

    async def connected(self, count: int) -> None:
        """Wait until that many connections have come in all."""
        while len(self.links) < count:
            await self._arrival.rung()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            _abort(writer)
            return
        link = Link(len(self.links), self._seed, self.weather)
        self.links.append(link)
        self._arrival.ring()
        await link.run(reader, writer, *self._target)


class _Cut(Exception):
    """The connection ends here."""


class _Bell:
    """Wakes all who wait for the next ring."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def ring(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def rung(self) -> None:
        await self._next.wait()


async def _read(reader: asyncio.StreamReader, count: int, fill_s: float) -> bytes:
    """Up to `count` bytes; with `fill_s`, as many of them as come within that time. Empty at the end."""
    data = await reader.read(min(count, READ_SIZE))
    if not fill_s:
        return data
    with suppress(TimeoutError):
        async with asyncio.timeout(fill_s):
            while data and len(data) < count:
                more = await reader.read(count - len(data))
                if not more:
                    break
                data += more
    return data


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close without a farewell: the other side sees a reset."""
    found = writer.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
