"""How long a consumer of a pattern takes to open, over many topics, with the official wheel and with ours.

    python -m bench patterns            # 1,000 topics
    python -m bench --full patterns     # 10,000 topics

Topics are made over REST before the clock runs; it stops when `subscribe` returns, which both clients do
when they are subscribed to every topic.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator

import httpx2
import pulsar
import uvloop

import bench
from bench import Result, at_most
from bench.load.target import Target, started
from milepost.aio import Client

TOPICS, TOPICS_FULL = 1_000, 10_000
SECONDS_MAX = 5.0
NAMESPACE = "persistent://public/default"
MAKE_AT_ONCE = 64


async def make(target: Target, count: int) -> None:
    gate = asyncio.Semaphore(MAKE_AT_ONCE)
    limits = httpx2.Limits(max_connections=MAKE_AT_ONCE)
    async with httpx2.AsyncClient(base_url=target.http_url, limits=limits) as http:

        async def one(number: int) -> None:
            async with gate:
                answer = await http.put(f"/admin/v2/persistent/public/default/pattern-{number}")
                assert answer.status_code == 204, answer.text

        await asyncio.gather(*(one(number) for number in range(count)))


def official(url: str) -> float:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        began = time.perf_counter()
        client.subscribe(re.compile(f"{NAMESPACE}/pattern-.*"), "official")
        return time.perf_counter() - began
    finally:
        client.shutdown()


async def ours(url: str) -> float:
    async with Client(url) as client:
        began = time.perf_counter()
        await client.subscribe(re.compile(f"{NAMESPACE}/pattern-.*"), "ours")
        return time.perf_counter() - began


async def measure() -> list[Result]:
    count = TOPICS_FULL if bench.FULL else TOPICS
    most = SECONDS_MAX * count / TOPICS_FULL
    async with started() as target:
        await make(target, count)
        results = []
        for name, open_all in (
            ("the official wheel", lambda: asyncio.to_thread(official, target.url)),
            ("ours", lambda: ours(target.url)),
        ):
            cpu = target.cpu_seconds() or 0.0
            took = await open_all()
            used = ((target.cpu_seconds() or 0.0) - cpu) / count * 1e6
            results += [
                at_most(f"a pattern over {count:,} topics opens, {name}", took, "s", most),
                Result("  broker's CPU for a topic", used, "us"),
            ]
    return results


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
