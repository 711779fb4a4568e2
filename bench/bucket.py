"""A broker on an object store beside one on the disk: publishing, latency, and reading from the bucket.

    python -m bench bucket
    MILEPOST_S3=http://127.0.0.1:7070 python -m bench bucket     # a store that runs, with a bucket `bench`

The store is one in memory that speaks S3, in a process of this machine, which takes part of its cores; with
a latency it is as far away as a public one. Figures are ratios to the disk, in the same run. For what is read
from the bucket a second broker begins with an empty directory.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import bench
from bench import Result, at_least, at_most
from bench.load.store import store
from bench.load.target import Target, started
from bench.load.workloads import Figure, Load

LATENCY_S = 0.04
# Both brokers are up, and neighbouring runs are compared. The median of their ratios counts: the speed of a
# shared machine changes by a fifth from one run to the next. One pair comes before, that warms both up.
TURNS = 5
LINGER_S = 0.025
PRODUCERS = 16
# That a producer has on their way: one, and each of many.
WINDOW = 1000
PENDING = 10_000
ONE_MIN = 0.7
MANY_MIN = 1.0
PUTS_MAX = 2.5
CATCH_UP_MB_MIN = 200.0
ENTRY = 100
"""Messages of a batch that is read back, 1 KiB each."""


@contextmanager
def some_store(latency_s: float = 0.0) -> Iterator[str]:
    """The store that was named, or one of our own; a latency has only ours."""
    given = os.environ.get("MILEPOST_S3")
    if given and not latency_s:
        yield given
    else:
        with store(latency_s) as url:
            yield url


def on_bucket(url: str, prefix: str) -> tuple[str, ...]:
    bucket = ("--bucket", f"s3://bench/{prefix}", "--set", f"bucket_endpoint={url}")
    return (*bucket, "--set", f"bucket_linger_s={LINGER_S}")


async def published(options: tuple[str, ...], count: int) -> Figure:
    async with started(*options) as target:
        return await Load(target).publish("publish", count, window=WINDOW, connections=1)


async def many_in_turns(url: str, count: int) -> list[tuple[Figure, Figure]]:
    """What many clients publish to the disk and to the bucket; every other turn the bucket is first."""
    pairs = []
    async with started() as disk, started(*on_bucket(url, uuid4().hex)) as bucket:
        for turn in range(1 + TURNS):
            found = {}
            for target in (disk, bucket) if turn % 2 else (bucket, disk):
                found[target.pid] = await many(target, count, f"turn-{turn}")
            pairs.append((found[disk.pid], found[bucket.pid]))
    return pairs[1:]


async def many(target: Target, count: int, name: str) -> Figure:
    return await Load(target).publish(
        name, count, producers=PRODUCERS, window=PENDING, connections=PRODUCERS
    )


def cpu_of(figure: Figure) -> float:
    assert figure.cpu_s_per_million is not None
    return figure.cpu_s_per_million


async def latency(options: tuple[str, ...]) -> float:
    """The p99 from SEND to arrival at 1,000 messages a second, in milliseconds."""
    async with started(*options) as target:
        figure = await Load(target).latency("latency")
        found = figure.quantile_ms(0.99)
        assert found is not None
        return found


async def put_p99_ms(url: str, count: int = 300) -> float:
    """Of the store itself: objects of the size of a group, as often as a broker at that rate."""
    import obstore
    from obstore.store import from_url

    there = from_url(f"s3://bench/{uuid4().hex}", endpoint=url, client_options={"allow_http": True})
    took = []
    for number in range(count):
        await asyncio.sleep(LINGER_S / 2)
        began = time.perf_counter()
        await obstore.put_async(there, f"{number}", bytes(16 * 1024), mode="create")
        took.append((time.perf_counter() - began) * 1000)
    return statistics.quantiles(took, n=100)[98]


async def caught_up(url: str, megabytes: int) -> tuple[float, float]:
    """MB a second that a second broker delivers from the bucket, and that the store itself gives."""
    options = on_bucket(url, uuid4().hex)
    count = megabytes * 1_000_000 // 1024
    async with started(*options, "--set", "ledger_size_max=64MiB") as target:
        load = Load(target)
        # A load ends after some seconds, whatever it has stored by then: no more than that can be read.
        stored = await load.publish_batched("catch-up", count, 1024, ENTRY, subscription="s")
    async with started(*options) as target:
        figure = await Load(target, run=load.run).drained("catch-up", "s", stored.count, ENTRY)
    return figure.rate * 1024 / 1e6, await given_mb(url)


async def given_mb(url: str, blocks: int = 50, size: int = 4 << 20) -> float:
    """What the store itself gives, eight ranges of 4 MiB at a time."""
    import obstore
    from obstore.store import from_url

    there = from_url(f"s3://bench/{uuid4().hex}", endpoint=url, client_options={"allow_http": True})
    await obstore.put_async(there, "large", os.urandom(8 * size), use_multipart=False)
    gate = asyncio.Semaphore(8)

    async def one(number: int) -> None:
        async with gate:
            await obstore.get_range_async(there, "large", start=number % 8 * size, length=size)

    began = time.perf_counter()
    await asyncio.gather(*map(one, range(blocks)))
    return blocks * size / 1e6 / (time.perf_counter() - began)


def run() -> Iterator[Result]:
    defaults = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    os.environ |= {**defaults, **os.environ}
    times = 2 if bench.FULL else 1
    with some_store() as near:
        disk = asyncio.run(published((), 400_000 * times))
        found = asyncio.run(published(on_bucket(near, uuid4().hex), 400_000 * times))
        yield Result("publish to the disk, one producer", disk.rate, "msg/s")
        yield at_least("on a store beside it, to the disk", found.rate / disk.rate, "×", ONE_MIN)
        arrived = asyncio.run(latency(on_bucket(near, uuid4().hex)))
        put = asyncio.run(put_p99_ms(near))
        yield Result("a PUT of the store, p99", put, "ms")
        most = PUTS_MAX * put + LINGER_S * 1000
        yield at_most("send to arrival at 1,000/s, p99", arrived, "ms", round(most, 1))
        read, given = asyncio.run(caught_up(near, 400 * times))
        yield Result("reads of the store itself", given, "MB/s")
        yield at_least("catch-up from the bucket", read, "MB/s", CATCH_UP_MB_MIN)
    with some_store(LATENCY_S) as far:
        # The first group and the last take the latency alone: a long run shows what clients get between.
        count = 960_000 * times
        pairs = asyncio.run(many_in_turns(far, count))
        rate = statistics.median(disk.rate for disk, _ in pairs)
        yield Result(f"publish to the disk, {PRODUCERS} producers", rate, "msg/s")
        what = f"with {LATENCY_S * 1000:g} ms to the store, to the disk"
        times_disk = statistics.median(found.rate / disk.rate for disk, found in pairs)
        yield at_least(what, times_disk, "×", MANY_MIN)
        # Says more than the rates where others keep the cores busy.
        cpu = statistics.median(cpu_of(found) / cpu_of(disk) for disk, found in pairs)
        yield Result("the broker's CPU, to the disk", cpu, "×")
