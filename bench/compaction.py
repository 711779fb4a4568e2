"""How long compaction takes beside live traffic, and how much that traffic feels it.

    python -m bench compaction              # a fifth of the size
    python -m bench --full compaction       # a million messages with 100,000 keys

The keys come in no order, half of the messages in batches and half one by one. Beside it a connection
publishes a thousand messages a second. What it feels is compared in phases that take turns
(`bench/load/beside.py`), with and without a compaction of a topic each of whose messages is kept, so that
there is as much to do every time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import uvloop

import bench
from bench import Result, at_most
from bench.load.beside import Steady, compare
from bench.load.link import Link
from bench.load.target import started
from bench.load.workloads import Load
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.scanners.encode import send_frame

MESSAGES = 1_000_000
KEYS = 100_000
BATCH_SIZE = 100
PAYLOAD = bytes(100)
# So many are compacted for longer than a phase lasts.
KEPT = 50_000
SECONDS_MAX = 30.0
GROWTH_MAX = 2.0
WINDOW_FRAMES = 200
POLL_S = 0.05


def unbatched(first: int, keys: list[str]) -> list[bytes]:
    """A SEND for each key."""
    frames = []
    metadata = pb.MessageMetadata(producer_name="p", publish_time=1)
    for number, key in enumerate(keys, first):
        metadata.sequence_id, metadata.partition_key = number, key
        frames.append(b"".join(send_frame(0, number, metadata.SerializeToString(), PAYLOAD)))
    return frames


def batched(first: int, keys: list[str]) -> list[bytes]:
    """SENDs of a batch each."""
    frames = []
    for at in range(0, len(keys), BATCH_SIZE):
        some = keys[at : at + BATCH_SIZE]
        batch = join_batch(
            [
                SingleMessage(
                    pb.SingleMessageMetadata(payload_size=len(PAYLOAD), partition_key=key), PAYLOAD
                )
                for key in some
            ]
        )
        metadata = pb.MessageMetadata(
            producer_name="p",
            sequence_id=first + at,
            publish_time=1,
            num_messages_in_batch=len(some),
            uncompressed_size=len(batch),
        ).SerializeToString()
        frames.append(b"".join(send_frame(0, first + at, metadata, batch, num_messages=len(some))))
    return frames


async def fill(link: Link, topic: str, keys: list[str]) -> None:
    """Messages with these keys, ten thousand in batches, ten thousand one by one, and so on."""
    await link.produce(topic, 0)
    step = 10_000
    for at in range(0, len(keys), step):
        make = unbatched if at // step % 2 else batched
        frames = make(at, keys[at : at + step])
        for some in range(0, len(frames), WINDOW_FRAMES):
            link.writelines(frames[some : some + WINDOW_FRAMES])
            await asyncio.sleep(0)
    await link.close_producer(0)  # answered behind everything that was sent


class Compactions:
    """Starts them over REST, and waits for them."""

    def __init__(self, http: httpx2.AsyncClient, topic: str) -> None:
        self._http = http
        self._path = topic.replace("persistent://", "/admin/v2/persistent/") + "/compaction"

    async def begin(self) -> None:
        answer = await self._http.put(self._path)
        assert answer.status_code == 204, answer.text

    async def end(self) -> None:
        while (status := (await self._http.get(self._path)).json()["status"]) == "RUNNING":
            await asyncio.sleep(POLL_S)
        assert status == "SUCCESS", status

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.begin()
        try:
            yield
        finally:
            await self.end()


async def measure() -> list[Result]:
    scale = 1 if bench.FULL else 5
    messages, keys = MESSAGES // scale, KEYS // scale
    chosen = random.Random(7)
    async with started() as target, httpx2.AsyncClient(base_url=target.http_url) as http:
        load = Load(target, 1.0)
        link = await load.link()
        big, kept = load.topic("big"), load.topic("kept")
        await fill(link, big, [f"key-{chosen.randrange(keys)}" for _ in range(messages)])
        await fill(link, kept, [f"key-{number}" for number in range(KEPT)])
        live = await load.link()
        await live.produce(load.topic("live"), 0)
        traffic = asyncio.create_task(_forever(Steady(live, 1000)))
        cpu = target.cpu_seconds() or 0.0
        began = time.perf_counter()
        async with Compactions(http, big).running():
            pass
        took = time.perf_counter() - began
        cpu = (target.cpu_seconds() or 0.0) - cpu
        traffic.cancel()
        beside = await compare(
            load, "beside", Compactions(http, kept).running, rounds=16 if bench.FULL else 6
        )
    name = f"compaction of {messages:,} messages with {keys:,} keys"
    return [
        at_most(f"{name}, beside 1,000 messages/s", took, "s", SECONDS_MAX / scale),
        Result("  broker's CPU meanwhile", cpu, "s"),
        Result("publish to receipt, p99, no compaction", beside.quiet_ms, "ms"),
        Result("  beside one", beside.busy_ms, "ms"),
        at_most("  grows by, median of the rounds", beside.growth, "x", GROWTH_MAX),
    ]


async def _forever(steady: Steady) -> None:
    while True:
        await steady.publish(1.0)


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
