"""The floor under every latency: the same bytes through a process that only passes them on.

What a message takes through this is the load generator's, the kernel's and the loop's; the rest of what it
takes through a broker is the broker's and its disk's. `python -m bench.load.echo` is that process: whoever
connects first is the producer, the second is the consumer. Each read is forwarded to the consumer, and
answered with as many bytes as a receipt has.

With `store` it keeps each read in a file, as a journal does, and answers when that is synced: what no
broker on this loop and this disk can do for less.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import cast

import uvloop

from bench.load.lanes import Sample
from bench.load.pace import evenly
from bench.load.target import Target

RECEIPT = bytes(35)
# What a journal writes in front of a record.
RECORD_HEADER = bytes(48)
# Zeros that lie ready for the records, as ahead of a journal's end.
RUNWAY_SIZE = 4 * 1024 * 1024


class _Echo(asyncio.Protocol):
    def __init__(self, peers: list[asyncio.Transport]) -> None:
        self._peers = peers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._peers.append(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        producer, consumer = self._peers
        consumer.write(data)
        producer.write(RECEIPT)


class _Store(asyncio.Protocol):
    """Answers what is on disk. Neither reads nor writes take a turn of the loop more than they must."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = 0
        self._socket = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        if self._size + len(RECORD_HEADER) + len(data) > RUNWAY_SIZE:
            self._size = 0
        self._size += os.pwritev(self._file, (RECORD_HEADER, data), self._size)
        os.fdatasync(self._file)
        os.write(self._socket, RECEIPT)


class _Answers(asyncio.Protocol):
    """Sends the next message when the one before is answered."""

    def __init__(self, frame: bytes, count: int) -> None:
        self._frame = frame
        self._left = count
        self._began = 0.0
        self._transport: asyncio.Transport | None = None
        self.samples: list[Sample] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        assert self._transport is not None
        self._left -= 1
        self._began = time.perf_counter()
        self._transport.write(self._frame)

    def data_received(self, data: bytes) -> None:
        self.samples.append((time.perf_counter() - self._began, 1))
        if self._left:
            self.send()
        else:
            self.done.set_result(None)


class _Arrivals(asyncio.Protocol):
    """Counts bytes and notes when a message was whole. All of them are equally long."""

    def __init__(self, size: int) -> None:
        self.times: list[float] = []
        self._size = size
        self._rest = 0

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        count, self._rest = divmod(self._rest + len(data), self._size)
        self.times += [now] * count


async def measure_echo(frame: bytes, count: int, per_second: int) -> Sequence[Sample]:
    """How long `frame` takes from one connection to another through a process that does nothing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.load.echo", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        loop = asyncio.get_running_loop()
        producer, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        await asyncio.sleep(0.1)  # it is the first to be accepted
        consumer, arrivals = await loop.create_connection(
            lambda: _Arrivals(len(frame)), "127.0.0.1", port
        )
        await asyncio.sleep(0.1)
        sent: list[float] = []

        def send() -> None:
            sent.append(time.perf_counter())
            producer.write(frame)

        await evenly(send, count, per_second)
        async with asyncio.timeout(10):
            while len(arrivals.times) < count:
                await asyncio.sleep(0.01)
        producer.close()
        consumer.close()
        return [(got - left, 1) for left, got in zip(sent, arrivals.times, strict=True)]
    finally:
        process.kill()
        await process.wait()


async def measure_stored_echo(frame: bytes, count: int) -> tuple[Sequence[Sample], float]:
    """How long `frame` takes to be stored and answered by a process that does nothing else, one after the
    other; and how many seconds of CPU all of them cost it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load.echo", "store"), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        target = Target(f"pulsar://127.0.0.1:{port}", process.pid)
        _, answers = await asyncio.get_running_loop().create_connection(
            lambda: _Answers(frame, count), *target.address
        )
        before = target.cpu_seconds()
        answers.send()
        async with asyncio.timeout(60):
            await answers.done
        after = target.cpu_seconds()
        assert before is not None
        assert after is not None
        return answers.samples, after - before
    finally:
        process.kill()
        await process.wait()


async def _serve(*, stores: bool) -> None:
    peers: list[asyncio.Transport] = []
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile(prefix="milepost-bench-") as file:
        if stores:
            file.write(bytes(RUNWAY_SIZE))
            file.flush()
            os.fsync(file.fileno())
        server = await loop.create_server(
            lambda: _Store(file.fileno()) if stores else _Echo(peers), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(stores=sys.argv[1:] == ["store"]))
