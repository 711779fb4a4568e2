"""How long `/metrics` of very many topics takes, and how long it holds everybody else.

    python -m bench metrics

A thousand topics with a subscription each. Somebody sends PINGs all the time, which the broker answers as
soon as its loop gets there: the longest wait for a PONG is for how long the loop was held.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request

import uvloop

from bench import Result, at_most
from bench.load.link import Frames, Link
from bench.load.target import Target, started
from bench.load.workloads import Load
from milepost.wire.commands import Kind
from milepost.wire.replies import PING

TOPICS = 1_000
SCRAPES = 3
# Beside a machine's own pauses, which come to half of it.
HELD_MAX_MS = 20.0
BETWEEN_S = 0.001


class Pulse:
    """PINGs one after the other, and the longest that one took."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._answered = asyncio.Event()
        self.worst_s = 0.0
        link.hot[Kind.PONG] = self._pong

    def _pong(self, data: bytes, frames: Frames) -> None:
        self._answered.set()

    async def beat(self) -> None:
        while True:
            self._answered.clear()
            began = time.perf_counter()
            self._link.write(PING)
            await self._answered.wait()
            self.worst_s = max(self.worst_s, time.perf_counter() - began)
            await asyncio.sleep(BETWEEN_S)


def _scrape(url: str) -> int:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return len(answer.read())


async def _measure(target: Target) -> list[Result]:
    await Load(target).idle_topics("topics", TOPICS)
    link = await Link.open(target.address)
    pulse = Pulse(link)
    beating = asyncio.create_task(pulse.beat())
    await asyncio.sleep(1.0)
    quiet_s, pulse.worst_s = pulse.worst_s, 0.0
    took: list[float] = []
    size = 0
    for _ in range(SCRAPES):
        began = time.perf_counter()
        size = await asyncio.to_thread(_scrape, f"{target.http_url}/metrics")
        took.append(time.perf_counter() - began)
    beating.cancel()
    link.close()
    what = f"/metrics of {TOPICS:,} topics, {size / 1e6:.1f} MB"
    return [
        Result(f"{what}: one takes", min(took) * 1000, "ms"),
        Result("longest wait for a PONG without it", quiet_s * 1000, "ms"),
        at_most("longest wait for a PONG beside it", pulse.worst_s * 1000, "ms", HELD_MAX_MS),
    ]


async def _run() -> list[Result]:
    async with started() as target:
        return await _measure(target)


def run() -> list[Result]:
    return uvloop.run(_run())
