"""How soon the console has something to show, and what people who look cost those who publish.

    python -m bench console
    python -m bench --full console              # ten thousand topics, a million holes

Topics with a subscription and a backlog each, and one with a group that has acked every second message. Ten
people look at it as the console does: the overview every two seconds, the progress of the topic and its strip
every second, at two zooms. A process of its own asks, while another connection publishes; and once more while
nothing else happens, so that the broker's CPU and memory are those of the looking alone, however busy the
machine is.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvloop

import bench
from bench import Result, at_least, at_most
from bench.load.asker import Asker
from bench.load.beside import compare, compare_rates
from bench.load.target import Target, started
from bench.load.workloads import Load
from bench.progress import OPEN_AT_ONCE
from milepost import InitialPosition
from milepost.aio import Client

TOPICS, TOPICS_FULL = 1_000, 10_000
HOLES, HOLES_FULL = 20_000, 1_000_000
ROUNDS, ROUNDS_FULL = 4, 12
PHASE_S = 1.0
LOOKING_S = 20.0
PEOPLE = 10
STEP = 10_000

OVERVIEW = "/milepost/v1/overview?limit=25"
TOPIC = "/milepost/v1/topics/public/default/holes"
STRIP = f"{TOPIC}/subscriptions/reports/strip"
LOOKED_AT = (
    *(OVERVIEW, f"{TOPIC}/progress", f"{STRIP}?columns=1200", f"{TOPIC}/progress"),
    *(
        OVERVIEW,
        f"{TOPIC}/progress",
        f"{STRIP}?first=5000&end=9000&columns=1200",
        f"{TOPIC}/progress",
    ),
)
# Of each person: the overview each two seconds, progress and a strip each second.
LOOKS_PER_SECOND = 2.5 * PEOPLE
# What the console would take for an answer (`rest/recent.py`).
AS_OLD_AS = "Cache-Control: max-age=1"


async def fill(load: Load, topics: int) -> None:
    """Topics with a subscription and no consumer."""
    gate, link = asyncio.Semaphore(OPEN_AT_ONCE), await load.link()

    async def one(number: int) -> None:
        async with gate:
            await link.subscribe(load.topic(f"t-{number}"), "reports", number)
            await link.close_consumer(number)

    await asyncio.gather(*(one(number) for number in range(topics)))
    await load.publish_to_topics("t", topics, 5 * topics)


@asynccontextmanager
async def holed(target: Target, holes: int) -> AsyncIterator[None]:
    """A group that has acked every second message, and holds the others."""
    async with Client(target.url) as client:
        consumer = await client.subscribe(
            "holes",
            "reports",
            initial_position=InitialPosition.Earliest,
            receiver_queue_size=STEP,
        )
        producer = await client.create_producer(
            "holes", batching_enabled=True, block_if_queue_full=True
        )
        for at in range(0, 2 * holes, STEP):
            for number in range(at, min(at + STEP, 2 * holes)):
                await producer.enqueue(b"%d" % number)
            await producer.flush()
            taken = [await consumer.receive() for _ in range(at, min(at + STEP, 2 * holes))]
            await consumer.acknowledge([one for one in taken if one.index() % 2])
        yield


def seconds_of(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - began


async def alone(target: Target, asker: Asker) -> tuple[float, float, float]:
    """What looking takes of the broker when nothing else happens: a share of a core in per cent, beyond what
    it takes when no person looks, which comes second; and MiB."""
    idle = await share_of(target, LOOKING_S)
    rss_mib = target.rss_mib()
    async with asker.asking():
        looked = await share_of(target, LOOKING_S)
    rss_after_mib = target.rss_mib()
    assert rss_mib is not None
    assert rss_after_mib is not None
    return looked - idle, idle, rss_after_mib - rss_mib


async def share_of(target: Target, seconds: float) -> float:
    """Of a core that the broker uses, in per cent."""
    before, began = target.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(seconds)
    after, ended = target.cpu_seconds(), time.perf_counter()
    assert before is not None
    assert after is not None
    return (after - before) / (ended - began) * 100


async def measure() -> list[Result]:
    topics = TOPICS_FULL if bench.FULL else TOPICS
    holes = HOLES_FULL if bench.FULL else HOLES
    rounds = ROUNDS_FULL if bench.FULL else ROUNDS
    async with started() as target:
        load = Load(target, 1.0)
        await fill(load, topics)
        async with holed(target, holes):
            first = await asyncio.to_thread(seconds_of, f"{target.http_url}{OVERVIEW}")
            strips = [
                await asyncio.to_thread(seconds_of, f"{target.http_url}{STRIP}?columns=2000")
                for _ in range(9)
            ]
            async with Asker(target.http_url, LOOKED_AT, LOOKS_PER_SECOND, AS_OLD_AS) as asker:
                rates = await compare_rates(
                    load, "rates", asker.asking, rounds=rounds, seconds=PHASE_S
                )
                beside = await compare(load, "beside", asker.asking, rounds=rounds, seconds=PHASE_S)
                share, idle, grown_mib = await alone(target, asker)
    return [
        at_most(f"first overview of {topics:,} topics", first * 1000, "ms", 1000),
        at_most(
            f"a strip of 2,000 columns, {holes:,} holes",
            statistics.median(strips) * 1000,
            "ms",
            300,
        ),
        Result("  an answer beside publishing", statistics.median(asker.took) * 1000, "ms"),
        Result("messages a second, no person looks", rates.quiet, "/s"),
        at_least(f"  of them when {PEOPLE} people look", rates.ratio, "x", 0.95),
        Result("publish to receipt, p99, no person looks", beside.quiet_ms, "ms"),
        Result(f"  grows by, when {PEOPLE} people look", beside.growth, "x"),
        Result(f"CPU of the broker with {topics:,} topics when nothing happens", idle, "%"),
        at_most(f"  more when {PEOPLE} people look", share, "%", 5),
        at_most("  memory that grows meanwhile", grown_mib, "MiB", 64),
    ]


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
