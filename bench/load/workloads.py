"""The workloads: each opens what it needs, runs for a few seconds, and says what it saw.

Counts are for `scale` 1 and chosen so that none takes longer than ten seconds on a slow peer; a
publisher stops at its deadline in any case, and the figures are of what was answered until then.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from bench.load import frames
from bench.load.lanes import Acker, Drain, Lane, Publisher, Sample
from bench.load.link import Frames, Link
from bench.load.pace import evenly
from bench.load.target import Target
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.replies import reply

SECONDS_MAX = 10.0
# What was sent is answered, and what was stored is read to its end, however slow that is.
DRAIN_SECONDS_MAX = 120.0
WINDOW = 1000
_NAMESPACE = "persistent://public/default"
# Of a ledger and an entry: as -1 looks in an unsigned field.
_EARLIEST = 2**64 - 1


class Figure(NamedTuple):
    """What one workload showed. None: it has no such number, or nobody knows the process."""

    name: str
    count: int = 0  # type: ignore[assignment]
    seconds: float = 0.0
    cpu_s: float | None = None
    samples: Sequence[Sample] = ()
    rss_mib: float | None = None
    bytes_each: int = 0
    load_cpu_s: float | None = None
    """What the load generator itself took: near to `seconds`, it is what was measured."""

    @property
    def rate(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0

    @property
    def mb_per_s(self) -> float:
        return self.rate * self.bytes_each / 1e6

    @property
    def cpu_s_per_million(self) -> float | None:
        return None if self.cpu_s is None or not self.count else self.cpu_s / self.count * 1e6

    def quantile_ms(self, part: float) -> float | None:
        """A latency that this part of the messages did not exceed."""
        if not self.samples:
            return None
        ordered = sorted(self.samples)
        left = part * sum(count for _, count in ordered)
        for latency, count in ordered:
            left -= count
            if left <= 0:
                return latency * 1000
        return ordered[-1][0] * 1000


def joined(name: str, figures: Sequence[Figure]) -> Figure:
    """What a workload showed that was run in slices."""
    cpu = [figure.cpu_s for figure in figures if figure.cpu_s is not None]
    return Figure(
        name,
        sum(figure.count for figure in figures),
        sum(figure.seconds for figure in figures),
        sum(cpu) if len(cpu) == len(figures) else None,
        [sample for figure in figures for sample in figure.samples],
        figures[-1].rss_mib,
    )


class Load:
    """Runs workloads against one broker. Topics are named apart, so that runs do not meet."""

    def __init__(self, target: Target, scale: float = 1.0, run: str = "") -> None:
        """`run`: that of an earlier broker, whose topics are meant."""
        self.target = target
        self._scale = scale
        self.run = run or f"bench-{os.getpid()}-{time.time_ns():x}"

    def topic(self, name: str) -> str:
        return f"{_NAMESPACE}/{self.run}-{name}"

    def count(self, count: int) -> int:
        return max(int(count * self._scale), 100)

    async def measured(
        self, name: str, work: Callable[[], Awaitable[tuple[int, Sequence[Sample]]]]
    ) -> Figure:
        """Run the part that counts between two looks at the clock and at the process."""
        cpu, own = self.target.cpu_seconds(), time.process_time()
        began = time.perf_counter()
        count, samples = await work()
        seconds = time.perf_counter() - began
        now, own = self.target.cpu_seconds(), time.process_time() - own
        used = None if cpu is None or now is None else now - cpu
        rss = self.target.rss_mib()
        return Figure(name, count, seconds, used, samples, rss, load_cpu_s=own)

    async def link(self) -> Link:
        return await Link.open(self.target.address)

    # -- publish -----------------------------------------------------------------------------------

    async def publish(
        self,
        name: str,
        count: int,
        *,
        producers: int = 1,
        size: int = 100,
        subscriptions: int = 0,
        window: int = WINDOW,
        connections: int = 2,
    ) -> Figure:
        """Unbatched, `window` pending for each producer, receipts awaited; consumers only count. Producers
        share `connections`, as those of one client do."""
        topic = self.topic(name)
        each = self.count(count) // producers
        # Before there are connections: it takes seconds, and meanwhile they would not answer the broker.
        lanes: list[list[Lane]] = [[] for _ in range(min(producers, connections))]
        for number in range(producers):
            some = lanes[number % len(lanes)]
            some.append(Lane(frames.unbatched(each, size, first_producer=len(some))))
        links = [await self.link() for _ in lanes]
        for link, some in zip(links, lanes, strict=True):
            for lane_id in range(len(some)):
                await link.produce(topic, lane_id)
        reader = await self.link() if subscriptions else None
        for number in range(subscriptions):
            assert reader is not None
            await reader.subscribe(topic, f"s{number}", number)
        await self._warm_up(self.topic(f"{name}-warm"))

        async def work() -> tuple[int, Sequence[Sample]]:
            drain = (
                Drain(reader, subscriptions, each * producers * subscriptions) if reader else None
            )
            deadline = time.perf_counter() + SECONDS_MAX
            publishers = [
                Publisher(link, one, window, deadline)
                for link, one in zip(links, lanes, strict=True)
            ]
            for link, publisher in zip(links, publishers, strict=True):
                await link.finished(publisher.done, DRAIN_SECONDS_MAX)
            if drain is not None and reader is not None:
                await reader.finished(drain.done, SECONDS_MAX)
            samples = [sample for publisher in publishers for sample in publisher.samples]
            return sum(publisher.count for publisher in publishers), samples

        figure = await self.measured(name, work)
        for link in (*links, *([reader] if reader else [])):
            link.close()
        return figure._replace(bytes_each=size)

    async def publish_batched(
        self, name: str, count: int, size: int, batch_size: int, subscription: str = ""
    ) -> Figure:
        """One producer; a thousand messages pending, as clients count them. `subscription`: made before, so
        that nothing is trimmed."""
        lane = Lane(frames.batched(self.count(count), size, batch_size))
        link = await self.link()
        await link.produce(self.topic(name), 0)
        if subscription:
            await link.subscribe(self.topic(name), subscription, 1)
        await self._warm_up(self.topic(f"{name}-warm"))

        async def work() -> tuple[int, Sequence[Sample]]:
            deadline = time.perf_counter() + SECONDS_MAX
            publisher = Publisher(link, [lane], max(WINDOW // batch_size, 1), deadline)
            await link.finished(publisher.done, DRAIN_SECONDS_MAX)
            samples = [(latency, count * batch_size) for latency, count in publisher.samples]
            return publisher.count * batch_size, samples

        figure = await self.measured(name, work)
        link.close()
        return figure._replace(bytes_each=size)

    async def publish_to_topics(
        self, name: str, topics: int, count: int, *, per_second: int = 0
    ) -> tuple[Figure, Figure]:
        """Topics take turns; and how long it took to open them. `WINDOW` pending over all of them, or
        at a steady rate, a little every millisecond. Over two connections, however many topics: what
        a connection costs is not what a topic costs."""
        links = [await self.link() for _ in range(2)]
        await self._warm_up(self.topic(f"{name}-warm"))

        async def open_all() -> tuple[int, Sequence[Sample]]:
            gate = asyncio.Semaphore(32)

            async def open_one(number: int) -> None:
                async with gate:
                    topic = self.topic(f"{name}-{number % topics}")
                    await links[number % 2].produce(topic, number // 2)

            await asyncio.gather(*(open_one(number) for number in range(max(topics, 2))))
            return topics, ()

        opened = await self.measured(f"{name}: open", open_all)
        each = self.count(count) // 2
        lanes = [
            Lane(frames.unbatched(each, 100, producers=max((topics + 1 - number) // 2, 1)))
            for number in range(2)
        ]

        async def work() -> tuple[int, Sequence[Sample]]:
            deadline = time.perf_counter() + SECONDS_MAX
            window = 0 if per_second else WINDOW // len(lanes)
            publishers = [
                Publisher(link, [lane], window, deadline)
                for link, lane in zip(links, lanes, strict=False)
            ]
            if per_second:
                await _paced(publishers, each, per_second // len(publishers))
            for link, publisher in zip(links, publishers, strict=False):
                await link.finished(publisher.done, DRAIN_SECONDS_MAX)
            samples = [sample for publisher in publishers for sample in publisher.samples]
            return sum(publisher.count for publisher in publishers), samples

        published = await self.measured(name, work)
        for link in links:
            link.close()
        return opened, published

    async def _warm_up(self, topic: str) -> None:
        """A short load of the same kind, so that files, caches and a peer's compiler are warm."""
        link = await self.link()
        await link.produce(topic, 0)
        lane = Lane(frames.unbatched(self.count(20_000), 100))
        publisher = Publisher(link, [lane], WINDOW, time.perf_counter() + 2.0)
        await link.finished(publisher.done, SECONDS_MAX)
        link.close()

    # -- publish and receive -----------------------------------------------------------------------

    async def latency(self, name: str, seconds: float = 5.0, per_second: int = 1000) -> Figure:
        """From the SEND of a message to its arrival at a consumer, at a moderate rate."""
        topic = self.topic(name)
        sender, receiver = await self.link(), await self.link()
        await sender.produce(topic, 0)
        await receiver.subscribe(topic, "s", 0)
        warm = per_second // 2
        count = int(seconds * self._scale * per_second) + warm
        ready = frames.unbatched(count, 100)
        sent: list[float] = []
        samples: list[Sample] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow = reply(pb.CommandFlow(consumer_id=0, messagePermits=500))

        def received(data: bytes, found: Frames) -> None:
            now = time.perf_counter()
            for _ in found:
                samples.append((now - sent[len(samples)], 1))
                if len(samples) % 500 == 0:
                    receiver.write(flow)
            if len(samples) == count:
                done.set_result(None)

        receiver.hot[Kind.MESSAGE] = received
        receiver.flow(0, 1000)

        def send() -> None:
            frame = ready[len(sent)]
            sent.append(time.perf_counter())
            sender.write(frame)

        async def work() -> tuple[int, Sequence[Sample]]:
            await evenly(send, count, per_second)
            await receiver.finished(done, SECONDS_MAX)
            return count, samples[warm:]

        figure = await self.measured(name, work)
        sender.close()
        receiver.close()
        return figure

    # -- consume -----------------------------------------------------------------------------------

    async def catch_up(self, name: str, count: int, batch_size: int) -> Figure:
        """Read a backlog from its beginning; nothing is acked."""
        count = await self._fill(self.topic(name), count, batch_size)
        return await self.drained(name, "s", count, batch_size)

    async def drained(self, name: str, subscription: str, count: int, batch_size: int) -> Figure:
        """Read what a subscription has; nothing is acked."""
        link = await self.link()
        await link.subscribe(self.topic(name), subscription, 0)

        async def work() -> tuple[int, Sequence[Sample]]:
            drain = Drain(link, 1, count, messages=max(batch_size, 1))
            await link.finished(drain.done, DRAIN_SECONDS_MAX)
            return drain.count, ()

        figure = await self.measured(name, work)
        link.close()
        return figure

    async def acks(self, name: str, count: int, batch_size: int = 0) -> Figure:
        """One ack a message on a Shared subscription, each answered when it is durable."""
        topic = self.topic(name)
        count = await self._fill(topic, count, batch_size)
        link = await self.link()
        await link.subscribe(topic, "s", 0, shared=True)

        async def work() -> tuple[int, Sequence[Sample]]:
            acker = Acker(link, count, batch_size=batch_size)
            await link.finished(acker.done, 2 * SECONDS_MAX)
            return acker.count, acker.samples

        figure = await self.measured(name, work)
        link.close()
        return figure

    async def acks_of_many(self, name: str, count: int, consumers: int) -> Figure:
        """Consumers of one Shared subscription, on a connection each, wait for the answer to each ack."""
        topic = self.topic(name)
        count = await self._fill(topic, count, 0)
        links = [await self.link() for _ in range(consumers)]
        for link in links:
            await link.subscribe(topic, "s", 0, shared=True)

        async def work() -> tuple[int, Sequence[Sample]]:
            # How many messages each of them gets is the broker's to say.
            ackers = [Acker(link, count + 1, parallel=1, queue=100) for link in links]
            async with asyncio.timeout(2 * SECONDS_MAX):
                while sum(acker.count for acker in ackers) < count:
                    await asyncio.sleep(0.002)
            return count, [sample for acker in ackers for sample in acker.samples]

        figure = await self.measured(name, work)
        for link in links:
            link.close()
        return figure

    # -- one by one --------------------------------------------------------------------------------

    async def lone_publishes(self, name: str, count: int) -> Figure:
        """A producer that waits for each receipt before it sends the next message."""
        link = await self.link()
        await link.produce(self.topic(name), 0)
        lane = Lane(frames.unbatched(self.count(count), 100))

        async def work() -> tuple[int, Sequence[Sample]]:
            publisher = Publisher(link, [lane], 1, time.perf_counter() + SECONDS_MAX)
            await link.finished(publisher.done, DRAIN_SECONDS_MAX)
            return publisher.count, publisher.samples

        figure = await self.measured(name, work)
        link.close()
        return figure

    async def lone_acks(self, name: str, count: int) -> Figure:
        """A consumer that has its messages, and waits for the answer to each ack."""
        topic = self.topic(name)
        count = await self._fill(topic, min(count, WINDOW), 0)
        link = await self.link()
        await link.subscribe(topic, "s", 0, shared=True)
        acker = Acker(link, count, parallel=1, queue=4 * count)

        async def work() -> tuple[int, Sequence[Sample]]:
            await link.finished(acker.done, 2 * SECONDS_MAX)
            return acker.count, acker.samples

        figure = await self.measured(name, work)
        link.close()
        return figure

    async def lone_seeks(self, name: str, count: int) -> Figure:
        """A consumer that follows in place (PIP-194), and waits for the answer to each seek."""
        topic = self.topic(name)
        count = self.count(count)
        await self._fill(topic, WINDOW, 0)
        link = await self.link()
        await link.subscribe(topic, "s", 0, epoch=0)
        samples: list[Sample] = []

        async def work() -> tuple[int, Sequence[Sample]]:
            for number in range(count):
                seek = pb.CommandSeek(consumer_id=0, consumer_epoch=number + 1)
                seek.message_id.ledgerId = seek.message_id.entryId = _EARLIEST
                began = time.perf_counter()
                await link.request(seek)
                samples.append((time.perf_counter() - began, 1))
            return count, samples

        figure = await self.measured(name, work)
        link.close()
        return figure

    async def _fill(self, topic: str, count: int, batch_size: int) -> int:
        """Publish a backlog; how many messages it has."""
        link = await self.link()
        await link.produce(topic, 0)
        count = self.count(count)
        if batch_size:
            ready = frames.batched(count, 100, batch_size)
        else:
            ready = frames.unbatched(count, 100)
        publisher = Publisher(link, [Lane(ready)], WINDOW, time.perf_counter() + SECONDS_MAX)
        await link.finished(publisher.done, DRAIN_SECONDS_MAX)
        link.close()
        return publisher.count * max(batch_size, 1)

    # -- idle --------------------------------------------------------------------------------------

    async def idle_connections(self, name: str, count: int) -> Figure:
        """Connections that shook hands and say nothing."""
        links: list[Link] = []

        async def work() -> tuple[int, Sequence[Sample]]:
            for first in range(0, count, 200):
                links.extend(
                    await asyncio.gather(*(self.link() for _ in range(min(200, count - first))))
                )
            return count, ()

        figure = await self.measured(name, work)
        for link in links:
            link.close()
        return figure

    async def idle_topics(self, name: str, count: int) -> Figure:
        """Topics with a message and a subscription each, and nobody connected to them."""
        link = await self.link()

        async def one(number: int, gate: asyncio.Semaphore) -> None:
            async with gate:
                topic = self.topic(f"{name}-{number}")
                await link.produce(topic, number)
                await link.subscribe(topic, "s", number)

        async def work() -> tuple[int, Sequence[Sample]]:
            gate = asyncio.Semaphore(32)
            await asyncio.gather(*(one(number, gate) for number in range(count)))
            ready = frames.unbatched(count, 100, producers=count)
            publisher = Publisher(link, [Lane(ready)], WINDOW, time.perf_counter() + SECONDS_MAX)
            await link.finished(publisher.done, SECONDS_MAX)
            return count, ()

        figure = await self.measured(name, work)
        link.close()
        await asyncio.sleep(0.2)
        return figure._replace(rss_mib=self.target.rss_mib())


async def _paced(publishers: Sequence[Publisher], each: int, per_second: int) -> None:
    """Let every publisher send `each` frames at a steady rate."""
    began, sent = time.perf_counter(), 0
    while sent < each:
        due = min(int((time.perf_counter() - began) * per_second), each)
        if due > sent:
            for publisher in publishers:
                publisher.send(due - sent)
            sent = due
        await asyncio.sleep(0.001)
