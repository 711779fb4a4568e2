"""How fast a message id is found by its index over HTTP, and what that costs those who publish.

Keep-alive connections ask in turn, on a log of unbatched and batched messages. Once as fast as they can,
once at a fixed rate while another connection publishes and consumes; the latency of that is compared with
the same without lookups. Everything shares one machine: compare figures of one run.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import uvloop

from bench import Result
from bench.load.target import Target, started
from bench.load.workloads import Load

MESSAGES = 50_000
CONNECTIONS = 8
SECONDS = 4.0
RATE = 1000
TOPIC = "rest-lookup"
GROWTH_MAX = 1.2


class Asker:
    """One connection that asks for ids of random messages."""

    def __init__(self, url: str, topic: str, seed: int) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname, parts.port
        path = topic.replace("persistent://", "/admin/v2/persistent/")
        self._line = f"GET {path}/getMessageIdByIndex?index=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self._random = random.Random(seed)
        self.took: list[float] = []

    async def ask(self, until: float, interval_s: float = 0.0) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        due = time.perf_counter()
        while (now := time.perf_counter()) < until:
            if interval_s and due > now:
                await asyncio.sleep(due - now)
            due += interval_s
            began = time.perf_counter()
            writer.write((self._line % self._random.randrange(MESSAGES)).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
            self.took.append(time.perf_counter() - began)
        writer.close()


async def lookups(target: Target, topic: str, rate: int = 0) -> tuple[float, list[float]]:
    """How many a second, and how long each took; `rate` 0 is as fast as it goes."""
    askers = [Asker(target.http_url, topic, seed) for seed in range(CONNECTIONS)]
    began = time.perf_counter()
    interval = CONNECTIONS / rate if rate else 0.0
    await asyncio.gather(*(one.ask(began + SECONDS, interval) for one in askers))
    took = [one for asker in askers for one in asker.took]
    return len(took) / (time.perf_counter() - began), took


async def measure() -> list[Result]:
    async with started() as target:
        load = Load(target, 1.0)
        await load.publish(TOPIC, MESSAGES)
        topic = load.topic(TOPIC)
        cpu = target.cpu_seconds() or 0.0
        fast, took = await lookups(target, topic)
        cpu = (target.cpu_seconds() or 0.0) - cpu
        alone = await load.latency("alone", SECONDS, 500)
        beside = asyncio.create_task(lookups(target, topic, RATE))
        both = await load.latency("beside", SECONDS, 500)
        paced, _ = await beside
    cuts = statistics.quantiles(took, n=100)
    before, after = alone.quantile_ms(0.99) or 0.0, both.quantile_ms(0.99) or 0.0
    return [
        Result(
            f"id by index over HTTP, {CONNECTIONS} connections",
            fast,
            "/s",
            ">= 1,000",
            fast >= 1000,
        ),
        Result("  median", cuts[49] * 1000, "ms", "", None),
        Result("  p99", cuts[98] * 1000, "ms", "", None),
        Result("  broker's CPU for one", cpu / len(took) * 1e6, "us", "", None),
        Result(
            f"  asked for {RATE:,}/s beside 500 messages/s", paced, "/s", ">= 1,000", paced >= 950
        ),
        Result("publish to receive, p99, no lookups", before, "ms", "", None),
        Result("  beside the lookups", after, "ms", "<= 1.2 x", after <= before * GROWTH_MAX),
    ]


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
