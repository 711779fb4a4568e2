"""How fast a message id is found by its index over HTTP, and what that costs those who publish.

Keep-alive connections ask in turn. Once as fast as they can; once at a fixed rate, from a process of its
own, while another connection publishes: the latency of that is compared with the same without lookups, in
many short phases that take turns (`bench/load/beside.py`). What publishing waits for is the disk's sync; on
a file system in memory (`TMPDIR=/dev/shm`) there is none, and the same lookups weigh more.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import uvloop

from bench import Result, at_least, at_most
from bench.load.asker import Asker
from bench.load.beside import compare
from bench.load.target import Target, started
from bench.load.workloads import Load

MESSAGES = 50_000
CONNECTIONS = 8
SECONDS = 2.0
RATE = 1000
TOPIC = "rest-lookup"
GROWTH_MAX = 1.2


class Visitor:
    """One connection that asks for ids of random messages."""

    def __init__(self, url: str, topic: str, seed: int) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname, parts.port
        path = topic.replace("persistent://", "/admin/v2/persistent/")
        self._line = f"GET {path}/getMessageIdByIndex?index=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self._random = random.Random(seed)
        self.took: list[float] = []

    async def ask(self, until: float) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write((self._line % self._random.randrange(MESSAGES)).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
            self.took.append(time.perf_counter() - began)
        writer.close()


async def lookups(target: Target, topic: str) -> tuple[float, list[float]]:
    """As fast as it goes: how many a second, and how long each took."""
    visitors = [Visitor(target.http_url, topic, seed) for seed in range(CONNECTIONS)]
    began = time.perf_counter()
    await asyncio.gather(*(one.ask(began + SECONDS) for one in visitors))
    took = [one for visitor in visitors for one in visitor.took]
    return len(took) / (time.perf_counter() - began), took


async def measure() -> list[Result]:
    async with started() as target:
        load = Load(target, 1.0)
        await load.publish(TOPIC, MESSAGES)
        topic = load.topic(TOPIC)
        cpu = target.cpu_seconds() or 0.0
        fast, took = await lookups(target, topic)
        cpu = (target.cpu_seconds() or 0.0) - cpu
        path = topic.replace("persistent://", "/admin/v2/persistent/")
        indexes = random.Random(7).choices(range(MESSAGES), k=MESSAGES // 10)
        paths = [f"{path}/getMessageIdByIndex?index={index}" for index in indexes]
        async with Asker(target.http_url, paths, RATE) as asker:
            beside = await compare(load, "beside", asker.asking)
    cuts = statistics.quantiles(took, n=100)
    return [
        at_least(f"id by index over HTTP, {CONNECTIONS} connections", fast, "/s", RATE),
        Result("  median", cuts[49] * 1000, "ms"),
        Result("  p99", cuts[98] * 1000, "ms"),
        Result("  broker's CPU for one", cpu / len(took) * 1e6, "us"),
        at_least(f"  asked for {RATE:,}/s beside publishing", asker.rate, "/s", 0.99 * RATE),
        Result("publish to receipt, p50 without lookups", beside.quiet_p50_ms, "ms"),
        Result("  p99 without lookups, median of the phases", beside.quiet_ms, "ms"),
        Result("  p99 beside them, median of the phases", beside.busy_ms, "ms"),
        at_most("  p99 grows by, median of the rounds", beside.growth, "x", GROWTH_MAX),
    ]


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
