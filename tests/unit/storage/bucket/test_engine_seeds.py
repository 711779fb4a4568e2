"""Brokers that come and go on one bucket, at random: each finds what was answered, and nothing else changes.

A life is some publishing, changing of the catalog, trimming and checkpoints, on a bucket that fails requests
and loses answers. It ends in order, or by a kill in the middle of anything, or because the next broker takes
over while this one still runs. Packs are merged by nearly every checkpoint.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from stage.counts import examples
from stage.stored import StoredHistory
from unit.storage.bucket.test_engine import NOW_MS, Bench, Broker, on_loop

from milepost.storage.bucket.objects import Failed
from milepost.storage.bucket.upkeep import merge
from milepost.storage.ledgers.entry import NewEntry
from milepost.storage.ledgers.log import Log


class Truth:
    """Which topics there are, and may be; and the history of their messages."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.maybe_topics: set[str] = set()
        self.told = StoredHistory()
        self._count = 0

    def next_payload(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    async def look(self, broker: Broker) -> None:
        names = await broker.engine.catalog(lambda catalog: {t.name for t in catalog.topics()})
        assert self.topics <= names <= self.topics | self.maybe_topics
        for name in sorted(names):
            log = await broker.found(name)
            stored = await broker.read(log)
            assert log.next_index - log.first_index == len(stored)
            self.told.found(name, log.first_index, stored)
            self.topics.add(name)
        self.maybe_topics -= names


async def live(broker: Broker, truth: Truth, random: Random, steps: int) -> None:
    """Do this and that; whatever is not answered when the broker ends may have happened or not."""
    logs: dict[str, Log] = {}
    for name in truth.topics:
        logs[name] = await broker.found(name)
    for _ in range(steps):
        luck = random.random()
        if luck < 0.15 or not logs:
            name = f"t{random.randrange(10**9)}"
            truth.maybe_topics.add(name)
            logs[name] = await broker.topic(name)
            truth.topics.add(name)
        elif luck < 0.25:
            broker.start(broker.engine.checkpoint())
        elif luck < 0.3:
            name = random.choice(sorted(logs))
            log = logs[name]
            before = random.randrange(log.first_index, log.next_index + 1)
            trimmed = truth.told.trim(name, before)
            await broker.engine.trim(log, before)
            trimmed(log.first_index)
        else:
            name = random.choice(sorted(logs))
            publish(truth, name, logs[name])
            if random.random() < 0.5:
                await broker.engine.flush()
    await broker.engine.flush()
    await broker.settled()


def publish(truth: Truth, name: str, log: Log) -> None:
    payload = truth.next_payload()
    log.append([NewEntry(payload)], NOW_MS, truth.told.publish(name, payload))


async def history(bench: Bench, random: Random, lives: int) -> None:
    truth = Truth()

    def weather(is_bad: bool) -> None:
        odds = 0.05 if is_bad else 0.0
        bench.bucket.fault = lambda request: Failed("503") if random.random() < odds else None
        bench.bucket.lose = lambda request: random.random() < odds
        bench.bucket.turns = lambda: random.randrange(20) if is_bad else 0

    for _ in range(lives):
        broker = await bench.broker(entries_max=random.choice([2, 5, 100]))
        await truth.look(broker)
        weather(is_bad=random.random() < 0.6)
        work = asyncio.ensure_future(live(broker, truth, random, random.randrange(5, 40)))
        end = random.choice(["close", "kill", "kill", "take over"])
        if end == "close":
            await work
            weather(is_bad=False)
            await broker.engine.close()
            bench.open.remove(broker)
            truth.told.killed()
            continue
        for _ in range(random.randrange(1500)):
            await asyncio.sleep(0)
        if end == "kill":
            await broker.kill()
            bench.open.remove(broker)
        work.cancel()
        await asyncio.wait([work])
        truth.told.killed()
        weather(is_bad=False)
    last = await bench.broker()
    await truth.look(last)
    assert truth.told.anomalies() == []


@pytest.fixture(autouse=True)
def packs_are_merged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "FAN", 2)


@pytest.mark.parametrize("seed", range(8))
def test_every_broker_finds_what_was_answered(seed: int, tmp_path: Path) -> None:
    on_loop(tmp_path, lambda bench: history(bench, Random(seed), 5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + examples(60)))
def test_more_histories(seed: int, tmp_path: Path) -> None:
    on_loop(tmp_path, lambda bench: history(bench, Random(seed), 8))
