"""How long progress of everything takes, and what that and broadcast groups cost those who publish.

    python -m bench progress

A thousand topics with a subscription and a backlog each. Progress of all of them is asked for over HTTP
once a second, as `milepost progress --watch 1` does, from a process of its own, while another connection
publishes: how much it can, and how long each receipt takes, with and without, in phases that take turns.
A broadcast group of a hundred connected members is compared with no group in the same way; its members
ask for nothing, or what they are sent would be measured.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvloop

import bench
from bench import Result, at_least, at_most
from bench.load.asker import Asker
from bench.load.beside import compare, compare_rates
from bench.load.link import Link
from bench.load.target import started
from bench.load.workloads import Load
from milepost.wire import pulsar_pb2 as pb

TOPICS = 1_000
MEMBERS = 100
# Of each kind, a quiet one and a busy one. In a busy one of a second there is one call.
ROUNDS, ROUNDS_FULL = 4, 12
PHASE_S = 1.0
OPEN_AT_ONCE = 32
PATH = "/milepost/v1/progress"


async def fill(load: Load, link: Link) -> None:
    """Topics with a subscription and nobody connected to it."""
    gate = asyncio.Semaphore(OPEN_AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            topic = load.topic(f"t-{number}")
            await link.subscribe(topic, "reports", number)
            await link.close_consumer(number)

    await asyncio.gather(*(one(number) for number in range(TOPICS)))
    await load.publish_to_topics("t", TOPICS, 10 * TOPICS)


async def join(load: Load, topic: str, members: int) -> Link:
    link = await load.link()
    for number in range(members):
        command = pb.CommandSubscribe(
            topic=load.topic(topic),
            subscription="caches",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=number,
            durable=True,
        )
        command.metadata.add(key="milepost.mode", value="broadcast")
        command.metadata.add(key="milepost.member", value=f"cache-{number}")
        await link.request(command)
    return link


async def measure() -> list[Result]:
    rounds = ROUNDS_FULL if bench.FULL else ROUNDS
    async with started() as target:
        load = Load(target, 1.0)
        await fill(load, await load.link())
        async with Asker(target.http_url, [PATH], 1) as asker:
            rates = await compare_rates(load, "rates", asker.asking, rounds=rounds, seconds=PHASE_S)
            beside = await compare(load, "beside", asker.asking, rounds=rounds, seconds=PHASE_S)
        async with Asker(target.http_url, [PATH], 2) as alone, alone.asking():
            await asyncio.sleep(3.0)
        groups = await broadcast(load, rounds)
    took = [seconds * 1000 for seconds in alone.took]
    return [
        at_most(f"progress of {TOPICS:,} topics", statistics.median(took), "ms", 200),
        Result(
            "  beside publishing as fast as it goes", statistics.median(asker.took) * 1000, "ms"
        ),
        Result("messages a second, nobody asks", rates.quiet, "/s"),
        at_least("  of them when progress is asked for every second", rates.ratio, "x", 0.95),
        Result("publish to receipt, p99, nobody asks", beside.quiet_ms, "ms"),
        Result("  grows by, when progress is asked for every second", beside.growth, "x"),
        *groups,
    ]


async def broadcast(load: Load, rounds: int) -> list[Result]:
    """A hundred members on the topic that is published to, or on another one."""

    @asynccontextmanager
    async def joined() -> AsyncIterator[None]:
        link = await join(load, "group", MEMBERS)
        try:
            yield
        finally:
            link.close()

    rates = await compare_rates(load, "group", joined, rounds=rounds, seconds=PHASE_S / 2)
    return [at_least(f"  of them beside a group of {MEMBERS} members", rates.ratio, "x", 0.95)]


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
