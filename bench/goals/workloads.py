"""What is measured, by the name that the goals use.

Workloads of `IN_TURNS` are run on every server that can, one after the other, and again in the next turn.
Kafka speaks another protocol and has functions of its own, for what it can do. Workloads of `OWN` are
compared with each other only, so they are left out on peers; those of `FRESH` start a broker each.
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from bench import upkeep
from bench.goals import goals
from bench.goals.figures import Measures
from bench.load.kafka import KafkaLoad
from bench.load.target import (
    Target,
    measure_disk_rate,
    measure_restart,
    measure_start,
    measure_sync,
    started,
)
from bench.load.workloads import Figure, Load

BATCH_SIZE = 100
TOPICS, TOPICS_RATE = 1_000, 10_000
MANY_TOPICS, IDLE_CONNECTIONS = 10_000, 10_000
CONSUMERS = 32
LARGE_SIZE, LARGE_COUNT, LARGE_WINDOW = 100 * 1024, 4_000, 100
LONE, LONE_SYNCS = 1_000, 100
STARTS = 5

Workload = Callable[[Load], Awaitable[Measures]]
KafkaWorkload = Callable[[KafkaLoad], Awaitable[Measures]]
Fresh = Callable[[Path | None, float], Awaitable[Measures]]


def measures(figure: Figure, **more: float | None) -> Measures:
    share = figure.load_cpu_s / figure.seconds if figure.load_cpu_s and figure.seconds else None
    return {
        goals.RATE: figure.rate or None,
        goals.CPU: figure.cpu_s_per_million,
        goals.P50: figure.quantile_ms(0.5),
        goals.P99: figure.quantile_ms(0.99),
        goals.RSS: figure.rss_mib,
        goals.LOAD: share,
        **more,
    }


# -- on every broker that speaks Pulsar's protocol -----------------------------------------------------


async def publish_one(load: Load) -> Measures:
    return measures(await load.publish("publish-1", 200_000))


async def publish_many(load: Load) -> Measures:
    return measures(await load.publish("publish-16", 200_000, producers=16))


async def batched_small(load: Load) -> Measures:
    return measures(await load.publish_batched("batched-100B", 1_000_000, 100, BATCH_SIZE))


async def batched_large(load: Load) -> Measures:
    return measures(await load.publish_batched("batched-1KiB", 400_000, 1024, BATCH_SIZE))


async def publish_large(load: Load) -> Measures:
    disk_rate = measure_disk_rate(load.count(LARGE_COUNT) * LARGE_SIZE)
    figure = await load.publish("publish-100KiB", LARGE_COUNT, size=LARGE_SIZE, window=LARGE_WINDOW)
    return measures(figure, **{goals.MB_RATE: figure.mb_per_s, goals.DISK_RATE: disk_rate / 1e6})


async def many_topics(load: Load) -> Measures:
    opened, figure = await load.publish_to_topics("topics-1000", TOPICS, 100_000)
    return measures(figure, **{goals.OPEN: opened.seconds})


async def catch_up(load: Load) -> Measures:
    return measures(await load.catch_up("catch-up", 1_000_000, BATCH_SIZE))


async def acks_of_many(load: Load) -> Measures:
    return measures(await load.acks_of_many("acks-32", 40_000, CONSUMERS))


async def lone_publish(load: Load) -> Measures:
    return await _beside_sync(load.lone_publishes, "lone-publish")


async def lone_ack(load: Load) -> Measures:
    return await _beside_sync(load.lone_acks, "lone-ack")


async def latency(load: Load) -> Measures:
    return measures(await load.latency("latency", 3.0))


async def _beside_sync(work: Callable[[str, int], Awaitable[Figure]], name: str) -> Measures:
    """The disk is measured before and behind it: on a shared one a sync changes by the second."""
    syncs = [measure_sync(LONE_SYNCS, pause_s=0).p50_ms]
    figure = await work(name, LONE)
    syncs.append(measure_sync(LONE_SYNCS, pause_s=0).p50_ms)
    return measures(figure, **{goals.SYNC: statistics.mean(syncs)})


IN_TURNS: dict[str, Workload] = {
    "publish-1": publish_one,
    "publish-16": publish_many,
    "batched-100B": batched_small,
    "batched-1KiB": batched_large,
    "publish-100KiB": publish_large,
    "topics-1000": many_topics,
    "catch-up": catch_up,
    "acks-32": acks_of_many,
    "lone-publish": lone_publish,
    "lone-ack": lone_ack,
    "latency": latency,
}

# -- on Kafka ------------------------------------------------------------------------------------------


async def kafka_batched_small(load: KafkaLoad) -> Measures:
    return measures(await load.publish("batched-100B", 1_000_000, 100, BATCH_SIZE))


async def kafka_batched_large(load: KafkaLoad) -> Measures:
    return measures(await load.publish("batched-1KiB", 400_000, 1024, BATCH_SIZE))


async def kafka_publish_large(load: KafkaLoad) -> Measures:
    return measures(await load.publish("publish-100KiB", LARGE_COUNT, LARGE_SIZE, 1))


async def kafka_catch_up(load: KafkaLoad) -> Measures:
    return measures(await load.catch_up("catch-up", 1_000_000, BATCH_SIZE))


async def kafka_lone_publish(load: KafkaLoad) -> Measures:
    return measures(await load.publish("lone-publish", LONE, 100, 1, in_flight=1))


ON_KAFKA: dict[str, KafkaWorkload] = {
    "batched-100B": kafka_batched_small,
    "batched-1KiB": kafka_batched_large,
    "publish-100KiB": kafka_publish_large,
    "catch-up": kafka_catch_up,
    "lone-publish": kafka_lone_publish,
}

# -- on Milepost alone ---------------------------------------------------------------------------------


async def one_topic_paced(load: Load) -> Measures:
    return await _paced(load, "topics-1-paced", 1)


async def many_topics_paced(load: Load) -> Measures:
    return await _paced(load, "topics-1000-paced", TOPICS)


async def _paced(load: Load, name: str, topics: int) -> Measures:
    _, figure = await load.publish_to_topics(name, topics, 4 * TOPICS_RATE, per_second=TOPICS_RATE)
    return measures(figure)


async def fan_out_one(load: Load) -> Measures:
    return measures(await load.publish("fan-out-1", 100_000, subscriptions=1))


async def fan_out_ten(load: Load) -> Measures:
    return measures(await load.publish("fan-out-10", 50_000, subscriptions=10))


async def lone_seek(load: Load) -> Measures:
    return await _beside_sync(load.lone_seeks, "lone-seek")


OWN: dict[str, Workload] = {
    "topics-1-paced": one_topic_paced,
    "topics-1000-paced": many_topics_paced,
    "fan-out-1": fan_out_one,
    "fan-out-10": fan_out_ten,
    "lone-seek": lone_seek,
}

# -- on a Milepost that was just started -----------------------------------------------------------------


async def idle(source: Path | None, scale: float) -> Measures:
    async with started(source=source) as target:
        return {goals.RSS: target.rss_mib()}


async def idle_connections(source: Path | None, scale: float) -> Measures:
    async with started(source=source) as target:
        load = Load(target, scale)
        return measures(
            await load.idle_connections("idle-connections", load.count(IDLE_CONNECTIONS))
        )


async def idle_topics(source: Path | None, scale: float) -> Measures:
    async with started(source=source) as target:
        load = Load(target, scale)
        return measures(await load.idle_topics("many-topics", load.count(MANY_TOPICS)))


async def start(source: Path | None, scale: float) -> Measures:
    return {
        goals.SECONDS: statistics.median(
            [await measure_start(source=source) for _ in range(STARTS)]
        )
    }


async def restart(source: Path | None, scale: float) -> Measures:
    async def fill(target: Target) -> None:
        load = Load(target, scale)
        await load.idle_topics("many-topics", load.count(MANY_TOPICS))

    return {goals.SECONDS: await measure_restart(fill, source)}


FRESH: dict[str, Fresh] = {
    "idle": idle,
    "idle-connections": idle_connections,
    "many-topics": idle_topics,
    "start": start,
    "restart": restart,
}

# -- what publishing feels of upkeep -----------------------------------------------------------------------


async def disturbed(source: Path | None, scale: float) -> AsyncIterator[tuple[str, Measures]]:
    """By the name of each workload. The topics keep their size: what looks far into them needs it."""
    dials = upkeep.PART._replace(rounds=max(int(upkeep.PART.rounds * scale), 1))
    async for work, beside in upkeep.disturbed(dials, source):
        yield goals.upkeep(work), {goals.GROWTH: beside.growth, goals.P99: beside.busy_ms}


NAMES = (*IN_TURNS, *OWN, *FRESH, goals.UPKEEP_GROUP)
