"""A part of a bucket: keys that begin with a prefix, seen without it."""

from __future__ import annotations

from typing import cast

from milepost.storage.bucket.objects import Listed, Objects, Pause, Reply, Request, Scan
from milepost.storage.files import Buffer


class PartObjects:
    """`Objects` below a prefix of others."""

    def __init__(self, objects: Objects, prefix: str) -> None:
        assert prefix.endswith("/"), "a prefix is a folder"
        self._objects = objects
        self._prefix = prefix

    async def answer(self, request: Request) -> Reply:
        reply = await self._objects.answer(within(self._prefix, request))
        return without(self._prefix, reply)

    def read(self, key: str, start: int, size: int) -> Buffer:
        return self._objects.read(self._prefix + key, start, size)

    async def close(self) -> None:
        await self._objects.close()


def within(prefix: str, request: Request) -> Request:
    """The same request about a key below a prefix."""
    if isinstance(request, Pause):
        return request
    if isinstance(request, Scan):
        return Scan(prefix + request.prefix)
    return cast("Request", request._replace(key=prefix + request.key))


def without(prefix: str, reply: Reply) -> Reply:
    """The same reply, its keys without the prefix."""
    if isinstance(reply, Listed):
        return Listed([(key.removeprefix(prefix), size) for key, size in reply.objects])
    return reply
