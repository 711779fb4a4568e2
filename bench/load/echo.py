"""The floor under every latency: the same bytes through a process that only passes them on.

What a message takes through this is the load generator's, the kernel's and the loop's; the rest of what it
takes through a broker is the broker's and its disk's. `python -m bench.load.echo` is that process: whoever
connects first is the producer, the second is the consumer. Each read is forwarded to the consumer, and
answered with as many bytes as a receipt has.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import cast

import uvloop

from bench.load.lanes import Sample
from bench.load.pace import evenly

RECEIPT = bytes(35)


class _Echo(asyncio.Protocol):
    def __init__(self, peers: list[asyncio.Transport]) -> None:
        self._peers = peers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._peers.append(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        producer, consumer = self._peers
        consumer.write(data)
        producer.write(RECEIPT)


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


async def _serve() -> None:
    peers: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: _Echo(peers), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
