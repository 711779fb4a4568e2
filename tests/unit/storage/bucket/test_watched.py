"""A watched bucket: the right to serve ends 4 seconds after the last write that succeeded was begun."""

from __future__ import annotations

import asyncio

import pytest

from milepost.storage.bucket.objects import Absent, Create, Failed, Get, Put, Reply, Request
from milepost.storage.bucket.watched import RIGHT_S, WatchedObjects
from milepost.testing.bucket import MemoryBucket


class Slow(MemoryBucket):
    """Takes some time for each request."""

    now = 100.0
    takes_s = 0.0

    async def answer(self, request: Request) -> Reply:
        self.now += self.takes_s
        return await super().answer(request)


def watched() -> tuple[Slow, WatchedObjects]:
    bucket = Slow()
    return bucket, WatchedObjects(bucket, lambda: bucket.now)


def test_a_write_counts_from_when_it_was_begun() -> None:
    bucket, objects = watched()
    bucket.takes_s = 3.0
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.idle_s() == 3.0
    assert objects.has_right()
    bucket.now += 1.0
    assert not objects.has_right()
    bucket.takes_s = 0.0
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.has_right()


def test_reads_refusals_and_errors_give_no_right() -> None:
    bucket, objects = watched()
    asyncio.run(objects.answer(Put("k", b"")))
    bucket.now += RIGHT_S
    assert asyncio.run(objects.answer(Get("none"))) == Absent()
    asyncio.run(objects.answer(Create("k", b"")))
    bucket.fault = lambda request: Failed("503")
    asyncio.run(objects.answer(Put("k", b"")))
    assert not objects.has_right()


def test_a_right_that_came_back_is_another_one() -> None:
    """As of the right that processes of a broker share: the process looks at its claim."""
    bucket, objects = watched()
    bucket.now += 3.9
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.lapses == 0
    bucket.now += 0.1
    bucket.takes_s = 5.0  # it is begun in time, and answered too late
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.lapses == 1
    bucket.takes_s = 0.0
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.lapses == 2, "that write was begun too long ago"
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.lapses == 2


def test_requests_are_counted_and_timed() -> None:
    bucket, objects = watched()
    bucket.takes_s = 0.03
    for _ in range(3):
        asyncio.run(objects.answer(Put("k", b"")))
    bucket.fault = lambda request: Failed("503")
    asyncio.run(objects.answer(Put("k", b"")))
    assert objects.errors == {"put": 1}
    counts = dict(objects.latencies["put"].cumulative())
    assert (counts["0.02"], counts["0.05"], counts["+Inf"]) == (0, 3, 3)


def test_a_bucket_that_can_be_read_and_not_written_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each read between two writes ended the failure, and each write began it again."""
    bucket, objects = watched()
    bucket.fault = lambda request: Failed("403") if isinstance(request, Put) else None
    for _ in range(3):
        asyncio.run(objects.answer(Put("k", b"")))
        asyncio.run(objects.answer(Get("k")))
    assert [record.message for record in caplog.records] == [
        "the bucket does not answer (put): 403"
    ]
    bucket.fault = lambda request: None
    asyncio.run(objects.answer(Put("k", b"")))
    assert caplog.records[-1].message == "the bucket answers again (put)"


def test_credentials_that_expire_while_the_store_is_away_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else the last word on it would be the failure that began, and mends itself."""
    bucket, objects = watched()
    failures = ["503", "cut", "403 ExpiredToken", "503", "403 ExpiredToken"]
    for reason in failures:
        bucket.fault = lambda request, reason=reason: Failed(  # type: ignore[misc]
            reason, is_denied=reason.startswith("403")
        )
        asyncio.run(objects.answer(Put("k", b"")))
    assert [one.message for one in caplog.records] == [
        "the bucket does not answer (put): 503",
        "the bucket does not answer (put): 403 ExpiredToken",
    ]


def test_reads_are_counted_and_their_failures_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bucket = MemoryBucket()
    bucket.objects["pack/1"] = b"12345"
    objects = WatchedObjects(bucket)
    assert objects.read("pack/1", 1, 3) == b"234"
    for _ in range(3):
        with pytest.raises(OSError, match="pack/2"):
            objects.read("pack/2", 0, 1)
    assert objects.read("pack/1", 0, 1) == b"1"
    assert objects.errors["read"] == 3
    assert sum(objects.latencies["read"].counts) == 2
    assert caplog.text.count("old messages cannot be read from the bucket") == 1
    assert caplog.text.count("old messages can be read from the bucket again") == 1
