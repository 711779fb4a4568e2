"""What publishing suffers from something that goes on beside it, on a machine that is never quiet.

One connection publishes at a steady rate throughout. Phases with and without the disturbance take turns,
many short ones, and each has its own p99; what counts is the median over rounds of the ratio of the two.
Whatever else the machine does meanwhile meets both kinds of phases alike.

    beside = await compare(load, "lookups", lookups_go_on, rounds=20)
    beside.growth                        # 1.07: the p99 of publishing is 7 % higher beside it

The same for how much can be published at all: `compare_rates` keeps a window full throughout.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from bench.load import frames
from bench.load.link import Frames, Link
from bench.load.workloads import Load
from milepost.wire.commands import Kind

ROUNDS = 16
PHASE_S = 0.5
PER_SECOND = 1000
# What is sent before the first phase, and at the beginning of each: nothing of it counts.
SETTLE_S = 0.05

Disturbance = Callable[[], AbstractAsyncContextManager[object]]


class Beside(NamedTuple):
    """Latencies of publishing, from SEND to receipt; medians over rounds."""

    quiet_p50_ms: float
    quiet_ms: float
    """The p99 without the disturbance."""
    busy_ms: float
    """The p99 beside it."""
    growth: float
    """Median of the rounds' ratios."""


class Rates(NamedTuple):
    """Messages published a second; medians over rounds."""

    quiet: float
    busy: float
    ratio: float
    """Median of the rounds' ratios, busy to quiet."""


class Steady:
    """A connection that publishes one message every so often, and notes how long each receipt took."""

    def __init__(self, link: Link, per_second: int) -> None:
        self._link = link
        self._interval_s = 1 / per_second
        self._sent: deque[tuple[float, list[float]]] = deque()
        self._pattern = frames.unbatched(4 * per_second, 100)
        self._at = 0
        link.hot[Kind.SEND_RECEIPT] = self._receipts

    def _receipts(self, data: bytes, found: Frames) -> None:
        now = time.perf_counter()
        for _ in found:
            began, took = self._sent.popleft()
            took.append(now - began)

    async def publish(self, seconds: float) -> list[float]:
        """For so long; returns when the last of them has its receipt, with the times of all."""
        took: list[float] = []
        due = time.perf_counter()
        end = due + seconds
        count = 0
        while due < end:
            now = time.perf_counter()
            if due > now:
                await asyncio.sleep(due - now)
            # Sent late or not: what is measured is the broker, not whoever asks it.
            self._sent.append((time.perf_counter(), took))
            self._link.write(self._pattern[self._at])
            self._at = (self._at + 1) % len(self._pattern)
            count += 1
            due += self._interval_s
        while len(took) < count:
            await asyncio.sleep(0.001)
        return took


class Flood:
    """A connection that always has so many messages without a receipt, and counts receipts."""

    def __init__(self, link: Link, window: int) -> None:
        self._link = link
        self._pattern = frames.unbatched(4 * window, 100)
        self._at = 0
        self._is_over = False
        self.count = 0
        link.hot[Kind.SEND_RECEIPT] = self._receipts
        self._send(window)

    def _receipts(self, data: bytes, found: Frames) -> None:
        self.count += len(found)
        if not self._is_over:
            self._send(len(found))

    def _send(self, count: int) -> None:
        pattern, at = self._pattern, self._at
        self._at = (at + count) % len(pattern)
        self._link.writelines([pattern[(at + more) % len(pattern)] for more in range(count)])

    async def rate(self, seconds: float) -> float:
        """How many receipts come a second, for so long."""
        began, before = time.perf_counter(), self.count
        await asyncio.sleep(seconds)
        return (self.count - before) / (time.perf_counter() - began)

    def end(self) -> None:
        self._is_over = True


async def compare_rates(
    load: Load,
    name: str,
    disturbance: Disturbance,
    *,
    rounds: int = ROUNDS,
    seconds: float = PHASE_S,
    window: int = 1000,
) -> Rates:
    link = await load.link()
    await link.produce(load.topic(name), 0)
    flood = Flood(link, window)
    await flood.rate(1.0)
    quiet, busy = [], []
    for number in range(rounds):
        for is_busy in (False, True) if number % 2 else (True, False):
            if is_busy:
                async with disturbance():
                    busy.append(await flood.rate(seconds))
            else:
                quiet.append(await flood.rate(seconds))
    flood.end()
    link.close()
    ratios = [after / before for before, after in zip(quiet, busy, strict=True)]
    return Rates(*map(statistics.median, (quiet, busy, ratios)))


async def compare(
    load: Load,
    name: str,
    disturbance: Disturbance,
    *,
    rounds: int = ROUNDS,
    seconds: float = PHASE_S,
    per_second: int = PER_SECOND,
) -> Beside:
    link = await load.link()
    await link.produce(load.topic(name), 0)
    steady = Steady(link, per_second)
    await steady.publish(0.5)
    quiet, busy, middle = [], [], []
    for number in range(rounds):
        for is_busy in (False, True) if number % 2 else (True, False):
            if is_busy:
                async with disturbance():
                    await steady.publish(SETTLE_S)
                    busy.append(p99_ms(await steady.publish(seconds)))
            else:
                await steady.publish(SETTLE_S)
                took = await steady.publish(seconds)
                quiet.append(p99_ms(took))
                middle.append(statistics.median(took) * 1000)
    link.close()
    ratios = [after / before for before, after in zip(quiet, busy, strict=True)]
    return Beside(*map(statistics.median, (middle, quiet, busy, ratios)))


def p99_ms(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98] * 1000
