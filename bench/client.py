"""How fast the client is on one core, and how it compares with the official wheel driven from Python.

    python -m bench client

Both talk to one `milepost serve` in a process of its own and do the same: publish messages of 100 bytes in
batches, then receive each and ack it, with Python called for every message. A rate is messages for each
second that the client's process spent computing, all of its threads: what one core could do. On a machine
that is shared, the rate by the clock says more about the neighbours; it is printed beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import uvloop

from bench import Result, at_least
from bench.load.target import started
from milepost.aio import Client
from milepost.client.policies import InitialPosition

COUNT = 200_000
ROUNDS = 3
PAYLOAD = b"x" * 100
QUEUE = 10_000
PUBLISH_TARGET = 150_000
RECEIVE_TARGET = 100_000


class Rates(NamedTuple):
    """Messages a second."""

    by_core: float
    by_clock: float


class Stopwatch:
    def __enter__(self) -> Stopwatch:
        self._cpu, self._clock = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        cpu, clock = time.process_time() - self._cpu, time.perf_counter() - self._clock
        self.rates = Rates(COUNT / cpu, COUNT / clock)


async def ours(url: str, topic: str) -> tuple[Rates, Rates]:
    async with Client(url) as client:
        producer = await client.create_producer(
            topic, block_if_queue_full=True, max_pending_messages=QUEUE
        )
        with Stopwatch() as publishing:
            for _ in range(COUNT):
                await producer.enqueue(PAYLOAD)
            await producer.flush()
        consumer = await client.subscribe(
            topic, "ours", initial_position=InitialPosition.Earliest, receiver_queue_size=QUEUE
        )
        with Stopwatch() as receiving:
            for _ in range(COUNT):
                last = consumer.acknowledge_nowait(await consumer.receive())
            await last
        return publishing.rates, receiving.rates


def official(pulsar: Any, url: str, topic: str) -> tuple[Rates, Rates]:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(
        topic, batching_enabled=True, block_if_queue_full=True, max_pending_messages=QUEUE
    )
    with Stopwatch() as publishing:
        for _ in range(COUNT):
            producer.send_async(PAYLOAD, None)
        producer.flush()
    consumer = client.subscribe(
        topic,
        "official",
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=QUEUE,
    )
    with Stopwatch() as receiving:
        for _ in range(COUNT):
            consumer.acknowledge(consumer.receive())
    client.close()
    return publishing.rates, receiving.rates


async def measure() -> list[tuple[str, Rates, Rates]]:
    """(who, publishing, receiving), the best of some rounds, the two in turn."""
    try:
        import pulsar
    except ImportError:
        pulsar = None
    best: dict[str, list[Rates]] = {}
    async with started() as target:
        for number in range(ROUNDS):
            found = {"ours": await ours(target.url, f"ours-{number}")}
            if pulsar is not None:
                found["official"] = await asyncio.to_thread(
                    official, pulsar, target.url, f"official-{number}"
                )
            for who, rates in found.items():
                known = best.setdefault(who, list(rates))
                best[who] = [max(pair) for pair in zip(known, rates, strict=True)]
    return [(who, *rates) for who, rates in best.items()]


def run() -> Iterable[Result]:
    figures = {who: (publishing, receiving) for who, publishing, receiving in uvloop.run(measure())}
    publishing, receiving = figures["ours"]
    yield at_least(
        "publish, batched, 100 B, on a core", publishing.by_core, "msg/s", PUBLISH_TARGET
    )
    yield Result("  by the clock", publishing.by_clock, "msg/s")
    yield at_least("receive and ack, on a core", receiving.by_core, "msg/s", RECEIVE_TARGET)
    yield Result("  by the clock", receiving.by_clock, "msg/s")
    if "official" in figures:
        for name, one, other in zip(
            ("publish", "receive and ack"), figures["ours"], figures["official"], strict=True
        ):
            yield Result(f"{name}: the official wheel, on a core", other.by_core, "msg/s")
            yield Result(
                f"{name}: ours to the official wheel's, on a core", one.by_core / other.by_core, "×"
            )
            yield Result(
                f"{name}: ours to the official wheel's, by the clock",
                one.by_clock / other.by_clock,
                "×",
            )
