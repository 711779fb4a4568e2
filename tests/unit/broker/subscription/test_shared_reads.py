"""Recent reads: what is found again, who waits for whose read, and what is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from stage.frames import batch, message
from stage.stage import Stage

from milepost.broker.subscription import shared_reads
from milepost.broker.subscription.shared_reads import SharedReads
from milepost.errors import CorruptData
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import ReadPlan
from milepost.storage.ledgers.log import Log


class Disk:
    """Gives a log's entries when it is let; or fails."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.reads: list[int] = []
        """The first entry of each."""
        self.gate = asyncio.Event()
        self.errors: dict[int, Exception] = {}
        """By the first entry of a read."""
        self.cut: int | None = None
        """The entry that is damaged: what comes before it is given."""

    async def read(self, plan: ReadPlan) -> list[Entry]:
        self.reads.append(plan.first_entry_id)
        await self.gate.wait()
        if plan.first_entry_id in self.errors:
            raise self.errors[plan.first_entry_id]
        entries = self.log.read(self.log.locate(plan.ledger.first_index).position)
        end = plan.first_entry_id + len(plan.offsets)
        return entries[plan.first_entry_id : end if self.cut is None else min(end, self.cut)]


@pytest.fixture
def log(stage: Stage) -> Log:
    """Entries 0 to 3 with the indexes 0, 1-4, 5 and 6-7."""
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), batch(1, 4), message(2), batch(3, 2))
    return topic.log


def plan(log: Log, first: int, end: int) -> ReadPlan:
    return log.plan_read_from(first, end, entries_max=1000, size_max=1 << 20)


def ids(entries: Sequence[Entry]) -> list[int]:
    return [entry.entry_id for entry in entries]


def test_what_was_read_is_found_again(stage: Stage, log: Log) -> None:
    kept = SharedReads(Disk(log))
    assert ids(kept.find(log, 0, 8)) == []
    kept.keep(log, log.read(log.locate(0).position)[1:])

    def found(first: int, end: int) -> list[int]:
        return ids(kept.find(log, first, end))

    assert found(0, 8) == []  # the first entry asked for was not read: nothing
    assert found(1, 8) == [1, 2, 3]
    assert found(4, 5) == [1]  # inside the batch
    assert found(3, 6) == [1, 2]
    assert found(5, 100) == [2, 3]
    assert found(8, 9) == []
    other = stage.topic("persistent://public/default/other")
    assert ids(kept.find(other.log, 1, 8)) == []


def test_who_comes_while_it_is_read_waits_for_that_read(log: Log) -> None:
    async def run() -> None:
        disk = Disk(log)
        reads = SharedReads(disk)
        demands = [(0, 8), (0, 1), (1, 6), (3, 4), (7, 8)]
        tasks = [
            asyncio.create_task(reads.read(log, plan(log, *demand), demand)) for demand in demands
        ]
        await asyncio.sleep(0)
        disk.gate.set()
        found = [ids(await task) for task in tasks]
        assert found == [[0, 1, 2, 3], [0], [1, 2], [1], [3]]
        assert disk.reads == [0]
        # And who comes later finds it.
        assert ids(reads.find(log, 2, 8)) == [1, 2, 3]

    asyncio.run(run())


def test_who_begins_before_it_reads_for_itself(log: Log) -> None:
    async def run() -> None:
        disk = Disk(log)
        reads = SharedReads(disk)
        disk.gate.set()
        late = asyncio.create_task(reads.read(log, plan(log, 5, 8), (5, 8)))
        early = asyncio.create_task(reads.read(log, plan(log, 0, 8), (0, 8)))
        assert (ids(await late), ids(await early)) == ([2, 3], [0, 1, 2, 3])
        assert disk.reads == [2, 0]

    asyncio.run(run())


def test_what_fails_fails_for_nobody_else(log: Log) -> None:
    """The entry at the beginning of a read is damaged, or one in its middle."""

    async def run() -> None:
        disk = Disk(log)
        reads = SharedReads(disk)
        disk.errors[0] = CorruptData("entry 0")
        first = asyncio.create_task(reads.read(log, plan(log, 0, 8), (0, 8)))
        second = asyncio.create_task(reads.read(log, plan(log, 5, 8), (5, 8)))
        await asyncio.sleep(0)
        disk.gate.set()
        with pytest.raises(CorruptData):
            await first
        assert ids(await second) == [2, 3]
        disk.errors.clear()
        disk.gate.clear()
        disk.cut = 1
        first = asyncio.create_task(reads.read(log, plan(log, 0, 8), (0, 8)))
        second = asyncio.create_task(reads.read(log, plan(log, 0, 8), (0, 8)))
        third = asyncio.create_task(reads.read(log, plan(log, 6, 8), (6, 8)))
        await asyncio.sleep(0)
        disk.gate.set()
        assert (ids(await first), ids(await second)) == ([0], [0])
        disk.cut = None
        assert ids(await third) == [3]

    asyncio.run(run())


def test_only_so_much_is_kept(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        disk = Disk(log)
        disk.gate.set()
        reads = SharedReads(disk)
        spans = [(0, 1), (1, 5), (5, 6)]
        entries = [(await reads.read(log, plan(log, *span), span))[0] for span in spans]
        sizes = [len(entry.payload) for entry in entries]
        assert [ids(reads.find(log, *span)) for span in spans] == [[0], [1], [2]]
        monkeypatch.setattr(shared_reads, "KEPT_SIZE_MAX", sizes[2] + 1)
        await reads.read(log, plan(log, 6, 8), (6, 8))
        assert [ids(reads.find(log, *span)) for span in spans] == [[], [], []]
        assert ids(reads.find(log, 6, 8)) == [3]  # the newest, whatever its size

    asyncio.run(run())


def test_only_so_many_reads_are_kept(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_reads, "KEPT_RUNS_MAX", 2)

    async def run() -> None:
        disk = Disk(log)
        disk.gate.set()
        reads = SharedReads(disk)
        spans = [(0, 1), (1, 5), (5, 6)]
        for span in spans:
            await reads.read(log, plan(log, *span), span)
        assert [ids(reads.find(log, *span)) for span in spans] == [[], [1], [2]]

    asyncio.run(run())
