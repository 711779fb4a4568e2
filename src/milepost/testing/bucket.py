"""A bucket in memory that says what it was asked, and can be told to fail.

It has the conditions of a real one. Its tags are hashes of the content, as those of some stores are: so a
tag does not tell two equal objects apart.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from milepost.storage.bucket.objects import (
    Absent,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    Listed,
    Pause,
    Put,
    Refused,
    Replace,
    Reply,
    Request,
    Scan,
)


class MemoryBucket:
    """`Objects` in a dictionary. `fault` may replace the answer to a request, or hold it up."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Failed | None] = lambda request: None
        """Called before a request is carried out; what it returns is the answer instead."""
        self.lose: Callable[[Request], bool] = lambda request: False
        """Called after a request was carried out: is its answer lost?"""
        self.turns: Callable[[], int] = lambda: 0
        """For how many turns of the loop a request is on its way, and its answer too."""
        self.gate = asyncio.Event()
        """While it is not set no request is carried out."""
        self.gate.set()

    def apply(self, request: Request) -> Reply:
        """Carry out a request, here and now."""
        objects = self.objects
        match request:
            case Get(key):
                return Found(objects[key], self._tag(key)) if key in objects else Absent()
            case Create(key, data):
                if key in objects:
                    return Refused()
                objects[key] = data
                return Done(self._tag(key))
            case Replace(key, data, tag):
                if key not in objects or self._tag(key) != tag:
                    return Refused()
                objects[key] = data
                return Done(self._tag(key))
            case Put(key, data):
                objects[key] = data
                return Done(self._tag(key))
            case Delete(key):
                objects.pop(key, None)
                return Done()
            case Scan(prefix):
                keys = sorted(key for key in objects if key.startswith(prefix))
                return Listed([(key, len(objects[key])) for key in keys])
            case Pause():
                return Done()

    def _tag(self, key: str) -> str:
        return hashlib.sha256(self.objects[key]).hexdigest()

    # -- Objects -----------------------------------------------------------------------------------

    async def answer(self, request: Request) -> Reply:
        await self.gate.wait()
        for _ in range(self.turns()):
            await asyncio.sleep(0)
        self.requests.append(request)
        if (failed := self.fault(request)) is not None:
            return failed
        reply = self.apply(request)
        for _ in range(1 + self.turns()):
            await asyncio.sleep(0)
        return Failed("the answer was lost") if self.lose(request) else reply

    def read(self, key: str, start: int, size: int) -> bytes:
        if key not in self.objects:
            raise FileNotFoundError(key)
        return self.objects[key][start : start + size]

    async def close(self) -> None:
        """There is nothing to give back."""
