"""What publishing feels of work that goes on behind it: on large topics, each kind of it by itself.

    python -m bench upkeep              # a twentieth of the size
    python -m bench --full upkeep       # topics of a million messages, which takes minutes

Every topic has half of its messages in batches, in several ledgers, with subscriptions that have acked
every second entry, so that there is as much to look through as can be. All rounds of one kind of work are
measured, then those of the next (`bench/load/beside.py`): first what only looks, then what takes backlogs
away, then the ledgers, then the topic. At last messages that were delayed become due, all of them within a
second.

A phase is a second, of a thousand messages, and its p99 is that of ten of them: what holds publishing for
ten milliseconds shows. A sync that a shared disk takes five for now and then must not, or the figure tells
of the disk: in phases of half a second, of one topic each, it did. So in each phase the work is done to
several topics, one after another, and each kind has so many rounds that the median ratio is not that of one
bad phase. The topics of a phase are others than those of every other: most work can be done to one once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import uvloop

import bench
from bench import Result, at_most
from bench.load import frames
from bench.load.beside import SETTLE_S, Beside, Disturbance, compare
from bench.load.link import Frames, Link
from bench.load.target import started
from bench.load.workloads import Load
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.scanners.encode import send_frame

MESSAGES = 1_000_000
PHASE_S = 1.0
# Of them, delayed: as many as can be dispatched in some seconds.
DELAYED_PART = 0.2
BATCH_SIZE = 100
LEDGERS = 8
SUBSCRIPTIONS = ("looked-at", "expired", "evicted")
GROWTH_MAX = 2.0
QUOTA_INTERVAL_S = 0.2
WINDOW_FRAMES = 200
ACKED_AT_ONCE = 1000
PERMITS = 500
DELAYED = "delayed messages become due"

Act = Callable[[str], Awaitable[object]]


class Work(NamedTuple):
    """One kind of work, done to the topic of each round."""

    name: str
    act: Act
    before: Act | None = None
    """Done to all of them when nothing is measured."""


class Stage:
    """A broker with a large topic for each round."""

    def __init__(self, load: Load, http: httpx2.AsyncClient, dials: Dials) -> None:
        self.load = load
        self._http = http
        self._dials = dials
        self.topics: list[str] = []

    async def prepare(self) -> None:
        link = await self.load.link()
        for number in range(self._dials.rounds * self._dials.at_a_time):
            topic = self.load.topic(f"large-{number}")
            await _fill(link, topic, self._dials.messages)
            for name in SUBSCRIPTIONS:
                await self._ack_every_second(link, topic, name)
            self.topics.append(topic)
        link.close()

    async def _ack_every_second(self, link: Link, topic: str, name: str) -> None:
        await link.subscribe(topic, name, 0, shared=True)
        for ledger in (await self.ask("GET", topic, "/internalStats")).json()["ledgers"]:
            for first in range(0, ledger["entries"], 2 * ACKED_AT_ONCE):
                ack = pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual)
                for entry in range(first, min(first + 2 * ACKED_AT_ONCE, ledger["entries"]), 2):
                    ack.message_id.add(ledgerId=ledger["ledgerId"], entryId=entry)
                await link.request(ack)
        await link.close_consumer(0)

    async def ask(self, method: str, topic: str, path: str, **options: Any) -> httpx2.Response:
        path = topic.replace("persistent://", "/admin/v2/persistent/") + path
        answer = await self._http.request(method, path, timeout=120, **options)
        assert answer.status_code < 400, f"{method} {path}: {answer.text}"
        return answer

    def asks(self, method: str, path: str) -> Act:
        return lambda topic: self.ask(method, topic, path)

    async def evict(self, topic: str) -> None:
        quota = {"limitSize": 1000, "limitTime": -1, "policy": "consumer_backlog_eviction"}
        path = "/backlogQuota?backlogQuotaType=destination_storage"
        await self.ask("POST", topic, path, json=quota)
        await asyncio.sleep(2 * QUOTA_INTERVAL_S)

    async def measured(self, work: Work) -> Beside:
        if work.before is not None:
            for topic in self.topics:
                await work.before(topic)
        disturbance = self._disturbance(work.act)
        return await _measured(self.load, work.name, disturbance, self._dials.rounds)

    def _disturbance(self, act: Act) -> Disturbance:
        """One topic after the other, some in each phase."""
        topics = iter(self.topics)

        async def soon(some: Sequence[str]) -> None:
            for topic in some:
                await asyncio.sleep(2 * SETTLE_S)  # when every message counts
                await act(topic)

        @asynccontextmanager
        async def acting() -> AsyncIterator[None]:
            task = asyncio.create_task(soon([*islice(topics, self._dials.at_a_time)]))
            try:
                yield
            finally:
                await task

        return acting


async def _fill(link: Link, topic: str, messages: int) -> None:
    """One by one and in batches, taking turns."""
    link.hot[Kind.SEND_RECEIPT] = _ignored
    step = messages // LEDGERS // 2
    sent = frames.unbatched(step, 100) + frames.batched(step, 100, BATCH_SIZE)
    for _ in range(LEDGERS):
        await link.produce(topic, 0)
        await _send(link, sent)
        await link.close_producer(0)  # answered behind everything that was sent


async def _send(link: Link, sent: list[bytes]) -> None:
    for at in range(0, len(sent), WINDOW_FRAMES):
        link.writelines(sent[at : at + WINDOW_FRAMES])
        await asyncio.sleep(0)


def _ignored(data: bytes, found: Frames) -> None:
    pass


# -- delayed messages --------------------------------------------------------------------------------


def _becoming_due(load: Load, messages: int) -> Disturbance:
    """A consumer has met them all, and takes them when their time comes."""
    rounds = count()

    @asynccontextmanager
    async def due() -> AsyncIterator[None]:
        link = await load.link()
        topic = load.topic(f"delayed-{next(rounds)}")
        await link.produce(topic, 0)
        await link.subscribe(topic, "s", 0, shared=True)
        came = 0

        def received(data: bytes, found: Frames) -> None:
            nonlocal came
            before, came = came // PERMITS, came + len(found)
            if came // PERMITS > before:
                link.flow(0, PERMITS * (came // PERMITS - before))

        link.hot[Kind.MESSAGE], link.hot[Kind.SEND_RECEIPT] = received, _ignored
        link.flow(0, 2 * PERMITS)
        due_s = time.time() + 2 + messages / 15_000
        await _send(link, _delayed(messages, int(due_s * 1000)))
        await link.close_producer(0)
        assert time.time() < due_s, "they were not published in time"
        await asyncio.sleep(due_s - time.time())
        yield
        while came < messages:
            await asyncio.sleep(0.05)
        link.close()

    return due


def _delayed(messages: int, due_ms: int) -> list[bytes]:
    """Due within a second, in no order."""
    metadata = pb.MessageMetadata(producer_name="p", publish_time=1)
    made = []
    for number in range(messages):
        metadata.sequence_id = number
        metadata.deliver_at_time = due_ms + number * 7919 % 1000
        made.append(b"".join(send_frame(0, number, metadata.SerializeToString(), bytes(100))))
    return made


async def _measured(load: Load, name: str, disturbance: Disturbance, rounds: int) -> Beside:
    name = name.replace(" ", "-")
    return await compare(load, name, disturbance, rounds=rounds, seconds=PHASE_S)


class Dials(NamedTuple):
    """How large the topics are, how often each kind of work is looked at, and to how many it is done then."""

    messages: int
    rounds: int
    at_a_time: int = 1

    @property
    def delayed(self) -> int:
        return int(self.messages * DELAYED_PART)


FULL = Dials(MESSAGES, 6)
PART = Dials(MESSAGES // 20, 5, at_a_time=2)


async def disturbed(dials: Dials, source: Path | None = None) -> AsyncIterator[tuple[str, Beside]]:
    """What publishing felt of each kind of work. `source`: of another commit (`bench/load/target.py`)."""
    settings = {
        "ledger_entries_max": str(dials.messages // LEDGERS // 2),
        "quota_check_interval_s": str(QUOTA_INTERVAL_S),
        "max_unacked_messages_per_consumer": "0",
        "max_unacked_messages_per_subscription": "0",
    }
    async with (
        started(source=source, **settings) as target,
        httpx2.AsyncClient(base_url=target.http_url) as http,
    ):
        load = Load(target)
        stage = Stage(load, http, dials)
        await stage.prepare()
        for work in works(stage):
            yield work.name, await stage.measured(work)
        due = _becoming_due(load, dials.delayed)
        yield DELAYED, await _measured(load, DELAYED, due, min(dials.rounds, 5))


def works(stage: Stage) -> list[Work]:
    """First what only looks, then what takes away."""
    looked_at, expired = (f"/subscription/{name}" for name in SUBSCRIPTIONS[:2])
    return [
        Work("peek far into a backlog", stage.asks("GET", f"{looked_at}/position/9999")),
        Work("analyse a backlog", stage.asks("POST", f"{looked_at}/analyzeBacklog")),
        Work("statistics", stage.asks("GET", "/stats?getPreciseBacklog=true")),
        Work("open", stage.asks("GET", "/stats"), before=stage.asks("PUT", "/unload")),
        Work("unload", stage.asks("PUT", "/unload")),
        Work("clear a backlog", stage.asks("POST", f"{looked_at}/skip_all")),
        Work("expire messages", stage.asks("POST", f"{expired}/expireMessages/0")),
        Work("evict by quota", stage.evict),
        Work("trim ledgers", stage.asks("POST", "/trim")),
        Work("delete", stage.asks("DELETE", "?force=true")),
    ]


async def measure() -> list[Result]:
    dials = FULL if bench.FULL else PART
    results = [
        Result(f"topics of {dials.messages:,} messages, subscriptions", len(SUBSCRIPTIONS), "")
    ]
    async for name, beside in disturbed(dials):
        told = f"{dials.delayed:,} {name}" if name == DELAYED else name
        told += f": p99 of publishing {beside.quiet_ms:.2f} ms, beside it {beside.busy_ms:.2f}"
        results.append(at_most(told, beside.growth, "x", GROWTH_MAX))
    return results


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
