"""How fast a broker is, what it costs, and what it holds: the same load for Milepost and its peers.

    python -m bench broker                                     # starts `milepost serve` for itself
    python -m bench broker --url pulsar://127.0.0.1:7650 --pid 4711 --name pulsar
    python -m bench broker --only publish-1,latency --scale 0.2

For each workload: the rate, the server's CPU seconds for a million messages (all of its threads, from
/proc), latency from SEND to receipt, from SEND to arrival, or from ACK to its answer, and resident
memory. The disk's own fdatasync is measured in the same run: latencies are to be read as multiples of
it. Two processes share the machine; compare ratios of one run, not figures of two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import uvloop

from bench.load import frames
from bench.load.echo import measure_echo, measure_stored_echo
from bench.load.target import (
    SyncTime,
    Target,
    measure_restart,
    measure_start,
    measure_sync,
    started,
)
from bench.load.workloads import Figure, Load, joined

IDLE_CONNECTIONS = 10_000
IDLE_TOPICS = 1_000
TOPICS = 1_000
TOPICS_RATE = 10_000
BATCH_SIZE = 100
LATENCY_SLICES = 5
LATENCY_SYNCS = 150
LATENCY_RATE = 1000
LONE = 3_000
LONE_ACKS = 1_000
LONE_CPU_MAX_US = 100
FAN_OUT_MAX = 3
MEMORY_TOPICS = 10_000
RESTART_MAX_S = 3
STARTS = 5
ECHOES = 1500


class Bound(NamedTuple):
    """What a figure ought to be."""

    text: str
    is_met: bool | None
    """None: it could not be judged."""


def at_most(value: float | None, most: float, unit: str) -> Bound:
    return Bound(f"≤ {most:,.4g} {unit}", None if value is None else value <= most)


def at_least(value: float, least: float, unit: str) -> Bound:
    return Bound(f"≥ {least:,g} {unit}", value >= least)


class Report:
    """Prints figures as they come, and remembers them for the bounds that compare two."""

    def __init__(self, name: str, sync: SyncTime, as_json: bool) -> None:
        self.name = name
        self.sync = sync
        self.figures: dict[str, Figure] = {}
        self.missed: list[str] = []
        self._as_json = as_json

    def head(self) -> None:
        if self._as_json:
            print(json.dumps({"server": self.name, "fdatasync_ms": self.sync._asdict()}))
            return
        print(
            f"{self.name}; fdatasync of a small append: p50 {self.sync.p50_ms:.3f} ms, "
            f"p99 {self.sync.p99_ms:.3f} ms"
        )
        print(
            f"{'workload':<26}{'per second':>12}{'CPU s/M':>9}{'p50 ms':>9}{'p99 ms':>9}"
            f"{'p99.9 ms':>9}{'RSS MiB':>9}  target"
        )

    def add(self, figure: Figure, *bounds: Bound) -> None:
        self.figures[figure.name] = figure
        quantiles = [figure.quantile_ms(part) for part in (0.5, 0.99, 0.999)]
        self.missed += [f"{figure.name}: {bound.text}" for bound in bounds if bound.is_met is False]
        if self._as_json:
            numbers = {
                "count": figure.count,
                "seconds": round(figure.seconds, 3),
                "rate": round(figure.rate),
                "cpu_s_per_million": figure.cpu_s_per_million,
                "p50_ms": quantiles[0],
                "p99_ms": quantiles[1],
                "p999_ms": quantiles[2],
                "rss_mib": figure.rss_mib,
                "targets": {bound.text: bound.is_met for bound in bounds},
            }
            print(json.dumps({"server": self.name, "workload": figure.name, **numbers}), flush=True)
            return
        verdicts = {True: "ok", False: "MISSED", None: "?"}
        print(
            f"{figure.name:<26}{figure.rate:>12,.0f}{_cell(figure.cpu_s_per_million, 2)}"
            + "".join(_cell(value, 3) for value in quantiles)
            + _cell(figure.rss_mib, 0)
            + "  "
            + ", ".join(f"{bound.text} {verdicts[bound.is_met]}" for bound in bounds),
            flush=True,
        )


def _cell(value: float | None, digits: int) -> str:
    return f"{'':>9}" if value is None else f"{value:>9,.{digits}f}"


# -- the workloads and what is expected of them ------------------------------------------------------


async def idle(load: Load, report: Report) -> None:
    rss = load.target.rss_mib()
    report.add(Figure("idle", rss_mib=rss), at_most(rss, 64, "MiB"))


async def start(load: Load, report: Report) -> None:
    """From the start of the process until the first CONNECT is answered; the middle one of some."""
    took = [await measure_start() for _ in range(STARTS)]
    figure = Figure("start", STARTS, sum(took), samples=[(one, 1) for one in took])
    report.add(figure, at_most(figure.quantile_ms(0.5), 500, "ms at p50"))


async def restart(load: Load, report: Report) -> None:
    """From the start of a process on what a killed one has left, until the first CONNECT is answered."""

    async def fill(target: Target) -> None:
        await Load(target).idle_topics("many-topics", MEMORY_TOPICS)

    took = await measure_restart(fill)
    figure = Figure("restart", 1, took, samples=[(took, 1)])
    report.add(figure, at_most(took, RESTART_MAX_S, "s"))


async def publish_one(load: Load, report: Report) -> None:
    figure = await load.publish("publish-1", 200_000)
    report.add(figure, at_most(figure.cpu_s_per_million, 10, "CPU s"))


async def publish_many(load: Load, report: Report) -> None:
    figure = await load.publish("publish-16", 200_000, producers=16)
    report.add(figure, at_most(figure.cpu_s_per_million, 10, "CPU s"))


async def batched(load: Load, report: Report) -> None:
    figure = await load.publish_batched("batched-1KiB", 400_000, 1024, BATCH_SIZE)
    report.add(
        figure,
        at_least(figure.mb_per_s, 150, "MB/s"),
        at_most(figure.cpu_s_per_million, 5, "CPU s"),
    )
    figure = await load.publish_batched("batched-100B", 1_000_000, 100, BATCH_SIZE)
    report.add(figure)


async def latency(load: Load, report: Report) -> None:
    """In slices, before each of which the disk is measured: on a shared one that changes by the second."""
    figures: list[Figure] = []
    syncs: list[float] = []
    # What of it is the load generator's and the kernel's.
    [frame] = frames.unbatched(1, 100)
    echo = await measure_echo(frame, ECHOES, LATENCY_RATE)
    report.add(Figure("latency-echo", len(echo), ECHOES / LATENCY_RATE, samples=echo))
    for number in range(LATENCY_SLICES):
        syncs.append(measure_sync(LATENCY_SYNCS).p50_ms)
        figures.append(await load.latency(f"latency-1000-{number}", 1.0, LATENCY_RATE))
    figure = joined("latency-1000", figures)
    sync = statistics.median(syncs)
    report.add(
        figure,
        at_most(figure.quantile_ms(0.5), 2 * sync, "ms at p50"),
        at_most(figure.quantile_ms(0.99), 10 * sync, "ms at p99"),
    )


async def fan_out(load: Load, report: Report) -> None:
    """The same publishing with none, one, four and ten subscriptions: what each of them adds."""
    for subscriptions in (0, 1, 4):
        report.add(
            await load.publish(f"fan-out-{subscriptions}", 100_000, subscriptions=subscriptions)
        )
    ten = await load.publish("fan-out-10", 50_000, subscriptions=10)
    one = report.figures["fan-out-1"].cpu_s_per_million
    most = None if one is None else FAN_OUT_MAX * one
    report.add(
        ten,
        Bound(f"≤ {FAN_OUT_MAX} × one", None)
        if most is None
        else at_most(ten.cpu_s_per_million, most, "CPU s"),
    )


async def lone(load: Load, report: Report) -> None:
    """One client that waits for each answer: what an operation costs that shares its commit with none.
    Beside it what it costs a process that only stores the same bytes and answers."""
    [frame] = frames.unbatched(1, 100)
    floor, cpu_s = await measure_stored_echo(frame, LONE)
    report.add(
        Figure("lone-floor", len(floor), sum(took for took, _ in floor), cpu_s, samples=floor)
    )
    for name, measure, count in (
        ("lone-publish", load.lone_publishes, LONE),
        ("lone-ack", load.lone_acks, LONE_ACKS),
        ("lone-seek", load.lone_seeks, LONE),
    ):
        sync = measure_sync(LATENCY_SYNCS, pause_s=0).p50_ms
        figure = await measure(name, count)
        report.add(
            figure,
            at_most(figure.cpu_s_per_million, LONE_CPU_MAX_US, "µs of CPU"),
            at_most(figure.quantile_ms(0.5), 1.6 * sync, "ms at p50"),
        )


async def catch_up(load: Load, report: Report) -> None:
    figure = await load.catch_up("catch-up-batched", 1_000_000, BATCH_SIZE)
    report.add(figure, at_least(figure.rate, 500_000, "/s"))
    report.add(await load.catch_up("catch-up-unbatched", 300_000, 0))


async def acks(load: Load, report: Report) -> None:
    figure = await load.acks("acks", 100_000)
    report.add(figure, at_least(figure.rate, 20_000, "/s"))
    figure = await load.acks("acks-batch-index", 100_000, BATCH_SIZE)
    report.add(figure, at_least(figure.rate, 25_000, "/s"))


async def topics(load: Load, report: Report) -> None:
    """At one rate, which is what the target speaks of; then as fast as it goes. In this order, so that
    the first checkpoint, which makes a file for each topic, comes behind what is compared."""
    _, one = await load.publish_to_topics(
        "topics-1 paced", 1, 5 * TOPICS_RATE, per_second=TOPICS_RATE
    )
    report.add(one)
    opened, many = await load.publish_to_topics(
        f"topics-{TOPICS} paced", TOPICS, 5 * TOPICS_RATE, per_second=TOPICS_RATE
    )
    report.add(opened, at_most(opened.seconds, 0.5, "s to open"))
    cost = one.cpu_s_per_million
    report.add(
        many,
        at_most(many.cpu_s_per_million, 1.5 * cost, "CPU s")
        if cost is not None
        else Bound("≤ 1.5 × one topic", None),
    )
    for name, count in (("topics-1", 1), (f"topics-{TOPICS}", TOPICS)):
        _, figure = await load.publish_to_topics(name, count, 100_000)
        report.add(figure)


async def idle_connections(load: Load, report: Report) -> None:
    figure = await load.idle_connections("idle-connections", IDLE_CONNECTIONS)
    report.add(figure, at_most(figure.rss_mib, 300, "MiB"))


async def idle_topics(load: Load, report: Report) -> None:
    figure = await load.idle_topics("idle-topics", IDLE_TOPICS)
    report.add(figure, at_most(figure.rss_mib, 256, "MiB"))


async def many_topics(load: Load, report: Report) -> None:
    figure = await load.idle_topics("many-topics", MEMORY_TOPICS)
    report.add(figure, at_most(figure.rss_mib, 400, "MiB"))


Workload = Callable[[Load, Report], Awaitable[None]]

WORKLOADS: dict[str, Workload] = {
    "publish-1": publish_one,
    "publish-16": publish_many,
    "batched": batched,
    "latency": latency,
    "lone": lone,
    "fan-out": fan_out,
    "catch-up": catch_up,
    "acks": acks,
    "topics": topics,
}
# Their figure is the memory of the whole process: each on a broker that was just started.
WORKLOADS_FRESH: dict[str, Workload] = {
    "idle": idle,
    "start": start,
    "restart": restart,
    "idle-connections": idle_connections,
    "idle-topics": idle_topics,
    "many-topics": many_topics,
}
NAMES = (*WORKLOADS, *WORKLOADS_FRESH)


async def run(arguments: argparse.Namespace) -> list[str]:
    """Run the chosen workloads; what missed its target."""
    chosen = arguments.only.split(",") if arguments.only else NAMES
    report = Report(arguments.name, measure_sync(), arguments.json)
    report.head()
    async with _target(arguments) as target:
        load = Load(target, arguments.scale)
        for name in chosen:
            if name in WORKLOADS:
                await WORKLOADS[name](load, report)
    for name in chosen:
        if name in WORKLOADS_FRESH:
            async with _target(arguments) as target:
                await WORKLOADS_FRESH[name](Load(target, arguments.scale), report)
    return report.missed


@asynccontextmanager
async def _target(arguments: argparse.Namespace) -> AsyncIterator[Target]:
    if arguments.url:
        yield Target(arguments.url, arguments.pid)
    else:
        async with started() as target:
            yield target


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench broker", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--url", help="a broker that listens already; default: start milepost serve"
    )
    parser.add_argument("--pid", type=int, help="its process, for CPU and memory")
    parser.add_argument("--name", default="milepost", help="what to call it in the report")
    parser.add_argument("--only", help=f"comma-separated; of {', '.join(NAMES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies message counts")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args(argv)
    unknown = set((arguments.only or NAMES[0]).split(",")) - set(NAMES)
    if unknown:
        parser.error(
            f"no workload is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    missed = uvloop.run(run(arguments))
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
