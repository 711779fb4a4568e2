"""Conditional writes: mine, another writer's, or not there, whatever the store says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from milepost.storage.bucket.objects import (
    Create,
    Done,
    Failed,
    Pause,
    Refused,
    Replace,
    Reply,
    Request,
    Steps,
    created,
    fetched,
    perform,
    replaced,
    stored,
)
from milepost.testing.bucket import MemoryBucket

Answer = Callable[[MemoryBucket, Request], Reply]


def lost(bucket: MemoryBucket, request: Request) -> Reply:
    bucket.apply(request)
    return Failed("lost")


def lost_and_refused(bucket: MemoryBucket, request: Request) -> Reply:
    """As a client that repeats by itself reports it: the repetition met the first attempt."""
    bucket.apply(request)
    return Refused()


def dropped(bucket: MemoryBucket, request: Request) -> Reply:
    return Failed("dropped")


def wrongly_refused(bucket: MemoryBucket, request: Request) -> Reply:
    """As a store that says 409 and has done nothing."""
    return Refused()


def run(bucket: MemoryBucket, steps: Steps[str | None], *first: Answer) -> str | None:
    """Run steps; the first conditional writes are answered in special ways."""
    ways = list(first)
    reply: Reply | None = None
    while True:
        try:
            request = steps.send(reply)  # type: ignore[arg-type]
        except StopIteration as end:
            assert not ways, "not every way was met"
            return end.value
        if isinstance(request, Create | Replace) and ways:
            reply = ways.pop(0)(bucket, request)
        else:
            reply = bucket.apply(request)


WAYS = [(), (lost,), (lost_and_refused,), (dropped,), (wrongly_refused,), (dropped, lost)]


@pytest.mark.parametrize("ways", WAYS)
def test_a_creation_is_mine_whatever_became_of_the_answer(ways: tuple[Answer, ...]) -> None:
    bucket = MemoryBucket()
    tag = run(bucket, created("k", b"mine"), *ways)
    assert bucket.objects == {"k": b"mine"}
    assert tag is not None
    assert run(bucket, replaced("k", b"next", tag)) is not None


@pytest.mark.parametrize("ways", [(), (dropped,), (wrongly_refused,)])
def test_a_creation_where_another_was_first_is_told(ways: tuple[Answer, ...]) -> None:
    bucket = MemoryBucket()
    bucket.objects["k"] = b"theirs"
    assert run(bucket, created("k", b"mine"), *ways) is None
    assert bucket.objects == {"k": b"theirs"}


@pytest.mark.parametrize("ways", WAYS)
def test_a_replacement_is_mine_whatever_became_of_the_answer(ways: tuple[Answer, ...]) -> None:
    bucket = MemoryBucket()
    tag = run(bucket, created("k", b"old"))
    assert tag is not None
    assert run(bucket, replaced("k", b"mine", tag), *ways) is not None
    assert bucket.objects == {"k": b"mine"}


def test_a_replacement_of_what_another_has_replaced_is_refused() -> None:
    bucket = MemoryBucket()
    tag = run(bucket, created("k", b"old"))
    assert tag is not None
    bucket.objects["k"] = b"theirs"
    assert run(bucket, replaced("k", b"mine", tag)) is None
    del bucket.objects["k"]
    assert run(bucket, replaced("k", b"mine", tag)) is None
    assert bucket.objects == {}


def test_attempts_pause_longer_each_time() -> None:
    steps = fetched("k")
    assert next(steps)
    pauses = []
    for _ in range(3):
        pauses.append(steps.send(Failed("503")))
        steps.send(Done())
    assert pauses == [Pause(0), Pause(1), Pause(2)]


async def perform_with_faults() -> None:
    bucket = MemoryBucket()
    fails = iter([True, True, False])
    bucket.fault = lambda request: Failed("503") if next(fails) else None
    await perform(bucket, stored("k", b"v"))
    assert bucket.objects == {"k": b"v"}
    assert len(bucket.requests) == 3


def test_requests_are_carried_out_until_they_succeed() -> None:
    asyncio.run(perform_with_faults())
