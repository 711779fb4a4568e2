"""Tries a bucket out: does the store keep the conditions that everything rests on?

Each trial uses keys of its own below `check/` and deletes them. A store that carries out a write whose
condition does not hold, or lets two writers of one key both win, would lose data: it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple
from uuid import uuid4

from milepost.clock import Clock
from milepost.errors import BucketUnusable
from milepost.storage.bucket.objects import (
    Absent,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    Listed,
    Objects,
    Put,
    Refused,
    Replace,
    Reply,
    Request,
    Scan,
)

RACES: Final = 20
RACERS: Final = 8
LATENCIES: Final = 40


class Trial(NamedTuple):
    """What was tried, and how it went."""

    name: str
    is_good: bool
    detail: str


class _Wrong(Exception):
    """The store did not do as it should."""


async def probe(objects: Objects, url: str, key: str, data: bytes) -> None:
    """Raise `BucketUnusable` unless a key can be written and conditions hold there. A few requests."""
    first = await _asked(objects, url, Put(key, data))
    second = await _asked(objects, url, Put(key, data + b" "))
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    for request in (Create(key, data), Replace(key, data, first.tag)):
        if isinstance(await _asked(objects, url, request), Done):
            raise BucketUnusable(
                f"{url}: the store writes although the condition does not hold "
                f"({type(request).__name__.lower()}), so it cannot keep two brokers apart: "
                "use one with conditional writes, and see `milepost bucket check`"
            )


async def _asked(objects: Objects, url: str, request: Request) -> Reply:
    reply: Reply = Absent()
    for _ in range(4):
        reply = await objects.answer(request)
        if not isinstance(reply, Failed):
            return reply
        if reply.is_denied:
            break
    assert isinstance(reply, Failed)
    raise BucketUnusable(
        f"{url}: cannot be written: {reply.reason}; the broker needs to get, put, list and delete "
        "objects there: look at its credentials, and at the name"
    )


async def tried_out(objects: Objects, clock: Clock) -> list[Trial]:
    """Try everything that a broker needs of a bucket."""
    folder = f"check/{uuid4().hex}/"
    trials: list[tuple[str, Callable[[Objects, str], Awaitable[str]]]] = [
        ("write, read, list, delete", _plain),
        ("create only if absent", _create),
        ("replace only what was read", _replace),
        ("one of many creators wins", _race_to_create),
        ("one of many replacers wins", _race_to_replace),
        ("latency", lambda objects, key: _latency(objects, key, clock)),
    ]
    found: list[Trial] = []
    for number, (name, trial) in enumerate(trials):
        try:
            found.append(Trial(name, True, await trial(objects, f"{folder}{number}")))
        except _Wrong as wrong:
            found.append(Trial(name, False, str(wrong)))
    listed = await objects.answer(Scan(folder))
    if isinstance(listed, Listed):
        await asyncio.gather(*(objects.answer(Delete(key)) for key, _ in listed.objects))
    return found


def _expect(reply: Reply, wanted: type[Reply], what: str) -> None:
    if isinstance(reply, Failed):
        raise _Wrong(f"{what}: {reply.reason}")
    if not isinstance(reply, wanted):
        raise _Wrong(f"{what}: answered {type(reply).__name__.lower()}")


async def _plain(objects: Objects, key: str) -> str:
    _expect(await objects.answer(Put(key, b"one")), Done, "a write")
    reply = await objects.answer(Get(key))
    _expect(reply, Found, "a read after a write")
    if isinstance(reply, Found) and reply.data != b"one":
        raise _Wrong("a read after a write gave other bytes")
    listed = await objects.answer(Scan(key.rpartition("/")[0] + "/"))
    _expect(listed, Listed, "a list")
    if isinstance(listed, Listed) and key not in [one for one, _ in listed.objects]:
        raise _Wrong("a list after a write does not show the object")
    _expect(await objects.answer(Delete(key)), Done, "a deletion")
    _expect(await objects.answer(Get(key)), Absent, "a read after a deletion")
    return "as expected"


async def _create(objects: Objects, key: str) -> str:
    _expect(await objects.answer(Create(key, b"one")), Done, "the first creation")
    _expect(await objects.answer(Create(key, b"two")), Refused, "the second creation")
    await _holds(objects, key, b"one")
    return "the second is refused"


async def _replace(objects: Objects, key: str) -> str:
    first = await objects.answer(Put(key, b"one"))
    _expect(first, Done, "a write")
    assert isinstance(first, Done)
    second = await objects.answer(Replace(key, b"two", first.tag))
    _expect(second, Done, "a replacement")
    _expect(await objects.answer(Replace(key, b"three", first.tag)), Refused, "a stale replacement")
    await _holds(objects, key, b"two")
    return "a stale one is refused"


async def _holds(objects: Objects, key: str, data: bytes) -> None:
    reply = await objects.answer(Get(key))
    _expect(reply, Found, "a read")
    if isinstance(reply, Found) and reply.data != data:
        raise _Wrong(f"{reply.data!r} is there in place of {data!r}")


async def _race_to_create(objects: Objects, key: str) -> str:
    for number in range(RACES):
        one = f"{key}-{number}"
        await _one_wins(objects, one, [Create(one, b"%d" % n) for n in range(RACERS)])
    return f"{RACES} races of {RACERS}"


async def _race_to_replace(objects: Objects, key: str) -> str:
    reply = await objects.answer(Put(key, b"begin"))
    for number in range(RACES):
        _expect(reply, Done, "a write")
        assert isinstance(reply, Done)
        tag = reply.tag
        racers = [Replace(key, b"%d-%d" % (number, n), tag) for n in range(RACERS)]
        reply = await _one_wins(objects, key, racers)
    return f"{RACES} races of {RACERS}"


async def _one_wins(objects: Objects, key: str, racers: Sequence[Create | Replace]) -> Done:
    replies = await asyncio.gather(*map(objects.answer, racers))
    winners = [
        (request, reply)
        for request, reply in zip(racers, replies, strict=True)
        if isinstance(reply, Done)
    ]
    if len(winners) != 1:
        raise _Wrong(f"{len(winners)} of {len(racers)} writers were told that they won")
    (request, reply) = winners[0]
    await _holds(objects, key, request.data)
    return reply


async def _latency(objects: Objects, key: str, clock: Clock) -> str:
    times: list[float] = []
    data = bytes(64 * 1024)
    for number in range(LATENCIES):
        began = clock.monotonic()
        _expect(await objects.answer(Create(f"{key}-{number}", data)), Done, "a creation")
        times.append(clock.monotonic() - began)
    times.sort()
    half, most = times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000
    return f"64 KiB: half within {half:.1f} ms, 99 % within {most:.1f} ms"
