"""HTTP requests at a fixed rate, from a process of its own: so that whoever measures is not who asks.

    python -m bench.load.asker 127.0.0.1:8080 1000 '' < lines       # a path a line

The paths are asked for in turn over a few keep-alive connections, each when it is due, whether or not the
last was answered. While nobody is to be asked, the process asks itself, at the same rate: so that what the
asking costs the machine is the same with the broker and without it, and only the broker's share differs.
A byte on standard input says whom to ask; its end ends the process, which prints the times of all answers
and for how many seconds it asked the broker.

    async with Asker(url, paths, per_second=1000) as asker:
        async with asker.asking():
            …                                                      # a thousand a second meanwhile
    asker.rate, asker.took
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import IO, Self
from urllib.parse import urlsplit

import uvloop

CONNECTIONS = 8
ANSWER_TIMEOUT_S = 10.0
# How long nobody looks at standard input.
_LOOK_S = 0.005
_ANSWER = (
    b'HTTP/1.1 200 OK\r\ncontent-length: 44\r\n\r\n{"ledgerId": 1, "entryId": 12345, "partition'
)


class Asker:
    """The process, seen from the one that measures."""

    def __init__(self, url: str, paths: Sequence[str], per_second: float, header: str = "") -> None:
        self._header = f"{header}\r\n" if header else ""
        self._address = urlsplit(url).netloc
        self._paths = "".join(f"{path}\n" for path in paths)
        self._per_second = per_second
        self.rate = 0.0
        """Answered a second, while asking."""
        self.took: list[float] = []

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.load.asker"),
            *(self._address, str(self._per_second), self._header),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 26,
        )
        await self._say(self._paths.encode() + b"\n")
        await self._hear()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        told = await self._hear()
        await self._process.wait()
        self.took = told["took"]
        self.rate = len(self.took) / told["seconds"] if told["seconds"] else 0.0

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        await self._say(b"+")
        try:
            yield
        finally:
            await self._say(b"-")

    async def _say(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def _hear(self) -> dict[str, list[float]]:
        assert self._process.stdout is not None
        told: dict[str, list[float]] = json.loads(await self._process.stdout.readline())
        return told


# -- in the process of its own -------------------------------------------------------------------------


class _Connection(asyncio.Protocol):
    """Counts answers; knows of HTTP what it must."""

    def __init__(self, took: list[float]) -> None:
        self._took = took
        self._rest = b""
        self.sent: deque[float] = deque()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (head := data.find(b"\r\n\r\n")) >= 0:
            lines = data[:head].lower()
            assert lines.startswith(b"http/1.1 200"), data[:head]
            at = lines.index(b"content-length:") + 15
            size = int(lines[at:].split(b"\r", 1)[0])
            end = head + 4 + size
            if len(data) < end:
                break
            data = data[end:]
            self._took.append(time.perf_counter() - self.sent.popleft())
        self._rest = data

    def ask(self, request: bytes) -> None:
        assert self.transport is not None
        self.sent.append(time.perf_counter())
        self.transport.write(request)


class _Itself(asyncio.Protocol):
    """Answers every request with the same few bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)


class _Asking:
    """A round of connections to one server, each asked in its turn."""

    def __init__(self, connections: Sequence[_Connection], requests: Sequence[bytes]) -> None:
        self.connections = connections
        self._requests = requests
        self._number = 0

    @classmethod
    async def open(cls, host: str, port: int, took: list[float], requests: Sequence[bytes]) -> Self:
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: _Connection(took), host, port)
            for _ in range(CONNECTIONS)
        ]
        return cls([connection for _, connection in made], requests)

    def ask(self) -> None:
        number = self._number
        self._number += 1
        self.connections[number % CONNECTIONS].ask(self._requests[number % len(self._requests)])


async def _main(address: str, per_second: float, headers: str, stream: IO[bytes]) -> None:
    host, port = address.rsplit(":", 1)
    requests = []
    while path := stream.readline().decode().strip():
        requests.append(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Itself, "127.0.0.1", 0)
    took: list[float] = []
    itself = await _Asking.open(*server.sockets[0].getsockname(), [], requests)
    broker = await _Asking.open(host, int(port), took, requests)
    print(json.dumps({}), flush=True)
    switch: asyncio.Queue[bytes] = asyncio.Queue()
    loop.add_reader(stream.fileno(), lambda: switch.put_nowait(os.read(stream.fileno(), 1)))
    whom, seconds, due = itself, 0.0, time.perf_counter()
    since = due
    while True:
        while switch.empty() and (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(min(wait, _LOOK_S))
        if not switch.empty():
            said = switch.get_nowait()
            due = time.perf_counter()
            seconds += due - since if whom is broker else 0.0
            whom, since = broker if said == b"+" else itself, due
            if not said:
                break
        whom.ask()
        due += 1 / per_second
    with suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while any(connection.sent for connection in broker.connections):
                await asyncio.sleep(0.001)
    print(json.dumps({"took": took, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    # Unbuffered: what follows the paths is read byte by byte.
    uvloop.run(_main(sys.argv[1], float(sys.argv[2]), sys.argv[3], os.fdopen(0, "rb", 0)))
