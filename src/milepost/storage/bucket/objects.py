"""What is asked of a bucket, and how an answer that was lost is settled.

The protocol is written as *steps*: plain generators that yield a request and are sent the reply. They
decide; `perform` carries their requests out. So tests run the very same steps under a scheduler that delays
a request, lets it fail, or carries it out and loses the answer.

Two requests have a condition, and the whole protocol rests on these: `Create` (only if the key is absent)
and `Replace` (only if the object is still the one that was read). Any other reply to them than `Done`
proves nothing: a request whose answer was lost may have been carried out, and some stores report that as a
condition that did not hold. `created` and `replaced` settle every such case by reading the object. They
tell their own bytes from another writer's, so what is written under a condition must be unique to its
writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from milepost.storage.files import Buffer

T = TypeVar("T")

# Between attempts while the bucket does not answer.
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0
# The code of a request that was not made, for want of credentials.
NO_CREDENTIALS: Final = "NoCredentials"
# The code of a list that met a key which lists cannot tell, such as one with two slashes side by side.
FOREIGN_KEY: Final = "ForeignKey"


class Get(NamedTuple):
    """Read a whole object: `Found`, `Absent`."""

    key: str


class Create(NamedTuple):
    """Write an object if its key is absent: `Done`, `Refused`."""

    key: str
    data: bytes


class Replace(NamedTuple):
    """Write an object if it still has the tag: `Done`, `Refused`."""

    key: str
    data: bytes
    tag: str


class Put(NamedTuple):
    """Write an object, whatever is there: `Done`. For keys that have one writer only."""

    key: str
    data: bytes


class Delete(NamedTuple):
    """Delete an object, whether or not it is there: `Done`."""

    key: str


class Scan(NamedTuple):
    """List the objects whose keys begin with a prefix that ends with a slash: `Listed`."""

    prefix: str


class Pause(NamedTuple):
    """Wait before the next attempt, longer each time: `Done`."""

    attempt: int


Request = Get | Create | Replace | Put | Delete | Scan | Pause


class Found(NamedTuple):
    data: bytes
    tag: str
    """Names this very object; `Replace` takes it."""


class Absent(NamedTuple):
    """There is no object of that key."""


class Done(NamedTuple):
    tag: str = ""


class Refused(NamedTuple):
    """The condition did not hold, says the store."""


class Listed(NamedTuple):
    objects: Sequence[tuple[str, int]]
    """Key and size of each, by key."""


class Failed(NamedTuple):
    """No answer, or an error: the request may have been carried out or not, or may still be."""

    reason: str
    is_denied: bool = False
    """The store knows the broker and does not permit it, or does not know it."""
    code: str = ""
    """The store's own word for the error, such as NoSuchBucket; empty if it said none."""


Reply = Found | Absent | Done | Refused | Listed | Failed
Steps = Generator[Request, Reply, T]


class Objects(Protocol):
    """A bucket, or a folder in one. Keys use `/`."""

    async def answer(self, request: Request) -> Reply:
        """Carry out one request. Never raises for what the store says."""
        ...

    def read(self, key: str, start: int, size: int) -> Buffer:
        """Part of an object, for threads that may block; `NotAnswered` if the store does not say for now
        what it has, another `OSError` if it has not."""
        ...

    async def close(self) -> None: ...


async def perform(objects: Objects, steps: Steps[T]) -> T:
    """Carry out the requests of some steps, one after the other."""
    reply: Reply | None = None
    while True:
        try:
            request = steps.send(reply)  # type: ignore[arg-type]  # None begins a generator
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(request, Pause):
            await asyncio.sleep(pause_s(request.attempt))
            reply = Done()
        else:
            reply = await objects.answer(request)


def pause_s(attempt: int) -> float:
    """How long to wait before an attempt, the first being number 0.

    >>> [pause_s(attempt) for attempt in (0, 1, 9)]
    [0.05, 0.1, 2.0]
    """
    return min(_PAUSE_FIRST_S * 2.0 ** min(attempt, 10), _PAUSE_MAX_S)


def fetched(key: str) -> Steps[Found | None]:
    """Read an object; None if it is absent. Ask until there is an answer."""
    attempt = 0
    while True:
        reply = yield Get(key)
        if isinstance(reply, Found):
            return reply
        if isinstance(reply, Absent):
            return None
        yield Pause(attempt)
        attempt += 1


def created(key: str, data: bytes) -> Steps[str | None]:
    """Create an object: its tag, or None if another writer's is there."""
    attempt = 0
    while True:
        reply = yield Create(key, data)
        if isinstance(reply, Done):
            return reply.tag
        found = yield from fetched(key)
        if found is not None:
            return found.tag if found.data == data else None
        # It may still arrive. Then the next attempt finds it, and knows it by its bytes.
        yield Pause(attempt)
        attempt += 1


def replaced(key: str, data: bytes, tag: str) -> Steps[str | None]:
    """Replace the object that has a tag: the new tag, or None if another writer came first."""
    attempt = 0
    while True:
        reply = yield Replace(key, data, tag)
        if isinstance(reply, Done):
            return reply.tag
        found = yield from fetched(key)
        if found is None:
            return None
        if found.data == data:
            return found.tag
        if found.tag != tag:
            return None
        yield Pause(attempt)
        attempt += 1


def stored(key: str, data: bytes) -> Steps[None]:
    """Write an object that has one writer. Try until it is there."""
    yield from _until_done(lambda: Put(key, data))


def deleted(keys: Sequence[str]) -> Steps[None]:
    for key in keys:
        yield from _until_done(lambda key=key: Delete(key))  # type: ignore[misc]


def listed(prefix: str) -> Steps[Sequence[tuple[str, int]]]:
    attempt = 0
    while True:
        reply = yield Scan(prefix)
        if isinstance(reply, Listed):
            return reply.objects
        yield Pause(attempt)
        attempt += 1


def _until_done(request: Callable[[], Request]) -> Steps[None]:
    attempt = 0
    while not isinstance((yield request()), Done):
        yield Pause(attempt)
        attempt += 1
