"""What no image names is deleted after the grace, not before, however the store answers."""

from __future__ import annotations

import asyncio

import pytest

from milepost.storage.bucket.objects import Failed, Reply, Request
from milepost.storage.bucket.upkeep import collector as upkeep
from milepost.storage.bucket.upkeep.collector import DELETIONS, Collector, delete_all
from milepost.testing.bucket import MemoryBucket


def test_an_object_is_deleted_when_its_grace_is_over() -> None:
    async def test() -> None:
        bucket, now = MemoryBucket(), [100.0]
        bucket.objects = {"a": b"", "b": b"", "kept": b""}
        collector = Collector(bucket, lambda: now[0], 60.0)
        collector.add(["a"])
        now[0] += 30
        collector.add(["a", "b"])
        await collector.collect()
        assert (set(bucket.objects), collector.upkeep.waiting) == ({"a", "b", "kept"}, 2)
        now[0] += 30
        await collector.collect()
        assert set(bucket.objects) == {"b", "kept"}, (
            "the grace runs from the first time it was named"
        )
        now[0] += 30
        await collector.collect()
        assert (set(bucket.objects), collector.upkeep.collected, collector.upkeep.waiting) == (
            {"kept"},
            2,
            0,
        )

    asyncio.run(test())


def test_many_objects_are_deleted_side_by_side() -> None:
    async def test() -> None:
        bucket = MemoryBucket()
        bucket.objects = {f"{n}": b"" for n in range(100)}
        under_way = most = 0
        answer = bucket.answer

        async def watched(request: Request) -> Reply:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            reply = await answer(request)
            under_way -= 1
            return reply

        bucket.answer = watched  # type: ignore[method-assign]
        bucket.turns = lambda: 3
        await delete_all(bucket, [f"{n}" for n in range(99)])
        assert (set(bucket.objects), most) == ({"99"}, DELETIONS)

    asyncio.run(test())


def test_after_a_deletion_that_failed_no_other_is_begun_and_what_is_left_waits() -> None:
    """A store may need its time-out for each of thousands."""

    async def test() -> None:
        bucket, now = MemoryBucket(), [100.0]
        bucket.objects = {f"{n}": b"" for n in range(100)}
        bucket.fault = lambda request: Failed("no answer")
        collector = Collector(bucket, lambda: now[0], 0.0)
        collector.add(bucket.objects)
        await collector.collect()
        await collector.collect()
        assert (len(bucket.requests), collector.upkeep.waiting) == (1, 100)
        bucket.fault = lambda request: None
        now[0] += upkeep.RETRY_S
        await collector.collect()
        assert (bucket.objects, collector.upkeep.waiting) == ({}, 0)

    asyncio.run(test())


def test_a_store_that_fails_is_asked_again_and_news_wake_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_S", 0.05)

    async def test() -> None:
        bucket = MemoryBucket()
        bucket.objects = {"a": b""}
        failures = [Failed("503"), Failed("503")]
        bucket.fault = lambda request: failures.pop() if failures else None
        collector = Collector(bucket, asyncio.get_running_loop().time, 0.0)
        running = asyncio.ensure_future(collector.run())
        await asyncio.sleep(0)
        collector.add(["a"])
        async with asyncio.timeout(10):
            while bucket.objects or collector.upkeep.waiting:
                await asyncio.sleep(0.01)  # sleep: between two looks
        assert collector.upkeep.collected == 1
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(test())
