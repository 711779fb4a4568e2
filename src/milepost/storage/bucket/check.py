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
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.objects import (
    FOREIGN_KEY,
    NO_CREDENTIALS,
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
    pause_s,
)

RACES: Final = 20
RACERS: Final = 8
LATENCIES: Final = 40
# How often a start asks a bucket that does not answer, before it gives up.
_ATTEMPTS: Final = 4


class Trial(NamedTuple):
    """What was tried, and how it went."""

    name: str
    is_good: bool
    detail: str
    remedy: str = ""
    """What to do about an error of the store."""


class _Wrong(Exception):
    """The store did not do as it should; with its reply if that was an error."""

    def __init__(self, what: str, failure: Failed | None = None) -> None:
        super().__init__(what)
        self.failure = failure


# What to do about an error, by the store's word for it.
_CLOCK: Final = "the store finds this machine's clock wrong: set it, and keep it right with NTP"
_KEYS: Final = "the store does not take the credentials: look at them"
_NAME: Final = "there is no such bucket: make it, or look at its name, the region and the endpoint"
_REMEDIES: Final = {
    "RequestTimeTooSkewed": _CLOCK,
    "RequestExpired": _CLOCK,
    "InvalidAccessKeyId": _KEYS,
    "SignatureDoesNotMatch": _KEYS,
    "InvalidToken": _KEYS,
    "ExpiredToken": _KEYS,
    "NoSuchBucket": _NAME,
    "ContainerNotFound": _NAME,
    FOREIGN_KEY: "no other program may write below the prefix",
    "NotImplemented": "the store does not have what is needed: use one with conditional writes",
}


# What the credentials of a broker have to permit.
_BROKER_NEEDS: Final = "the broker needs to get, put, list and delete objects there"


def remedy(failure: Failed, needs: str = _BROKER_NEEDS) -> str:
    """What to do about a bucket that cannot be used; `needs` says what has to be permitted.

    >>> remedy(Failed("404", code="NoSuchBucket"))
    'there is no such bucket: make it, or look at its name, the region and the endpoint'
    """
    if failure.code in _REMEDIES:
        return _REMEDIES[failure.code]
    if failure.code == NO_CREDENTIALS:
        return (
            "there are no credentials in the environment (AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT, "
            "AZURE_STORAGE_ACCOUNT_KEY, …), and this machine has no role: set them"
        )
    if failure.is_denied:
        return f"{needs}: look at the credentials, and at what they permit"
    return "look at the name, the region and the endpoint"


async def asked(objects: Objects, url: str, request: Request, needs: str = _BROKER_NEEDS) -> Reply:
    """The store's answer; `BucketUnusable` if it has none, with what to do in one line."""
    reply: Reply = Absent()
    for attempt in range(_ATTEMPTS):
        reply = await objects.answer(request)
        if not isinstance(reply, Failed):
            return reply
        if reply.is_denied or reply.code in _REMEDIES:
            break
        await asyncio.sleep(pause_s(attempt))
    assert isinstance(reply, Failed)
    if isinstance(request, Put | Create | Replace):
        how = "cannot be written"
    else:
        how = "not permitted" if reply.is_denied else "cannot be reached"
    raise BucketUnusable(f"{url}: {how}: {reply.reason}; {remedy(reply, needs)}")


async def probe(objects: Objects, url: str, key: str, data: bytes) -> None:
    """Raise `BucketUnusable` unless a key can be written and listed, and conditions hold there. A few
    requests."""
    first = await asked(objects, url, Put(key, data))
    second = await asked(objects, url, Put(key, data + b" "))
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    for request in (Create(key, data), Replace(key, data, first.tag)):
        if isinstance(await asked(objects, url, request), Done):
            raise BucketUnusable(
                f"{url}: the store writes although the condition does not hold "
                f"({type(request).__name__.lower()}), so it cannot keep two brokers apart: "
                "use one with conditional writes, and see `milepost bucket check`"
            )
    listed = await asked(objects, url, Scan(key.rpartition("/")[0] + "/"))
    if not isinstance(listed, Listed) or key not in [one for one, _ in listed.objects]:
        raise BucketUnusable(
            f"{url}: a list does not show {key}, which was just written: use a store whose lists "
            "are up to date, and see `milepost bucket check`"
        )


async def first_contact(objects: Objects, url: str) -> None:
    """Raise `BucketUnusable` if the bucket cannot be read at all."""
    await asked(objects, url, Get(MANIFEST))


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
            failure = wrong.failure
            found.append(Trial(name, False, str(wrong), remedy(failure) if failure else ""))
            if failure is not None and not number:
                break  # the others would say the same
    listed = await objects.answer(Scan(folder))
    if isinstance(listed, Listed):
        await asyncio.gather(*(objects.answer(Delete(key)) for key, _ in listed.objects))
    return found


def _expect(reply: Reply, wanted: type[Reply], what: str) -> None:
    if isinstance(reply, Failed):
        raise _Wrong(f"{what}: {reply.reason}", reply)
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
    failures = [reply for reply in replies if isinstance(reply, Failed)]
    if not winners and failures:
        raise _Wrong(f"a race: {failures[0].reason}", failures[0])
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
