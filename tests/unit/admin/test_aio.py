"""The asynchronous face: calls at once, and one that is given up."""

from __future__ import annotations

import asyncio
import threading

import pytest
from unit.admin.conftest import Played

from milepost.admin import AsyncAdmin
from milepost.admin.aio import AsyncFace
from milepost.admin.calls import Calls
from milepost.admin.request import Answer, Request


class Face(Calls, AsyncFace):
    pass


class Together(Played):
    """Answers when so many have asked: they must be under way at once."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(count, timeout=10)

    def exchange(self, request: Request) -> Answer:
        self._barrier.wait()
        return Answer(request, "", 200, {}, b'["a"]')


def test_calls_are_under_way_at_once() -> None:
    async def four() -> list[list[str]]:
        async with Face(Together(4)) as admin:
            return await asyncio.gather(*(admin.list_tenants() for _ in range(4)))

    assert asyncio.run(four()) == [["a"]] * 4


def test_a_call_that_is_given_up_is_not_waited_for() -> None:
    asked, go = threading.Event(), threading.Event()

    class Slow(Played):
        def exchange(self, request: Request) -> Answer:
            asked.set()
            go.wait(10)
            return Answer(request, "", 200, {}, b"[]")

    async def given_up() -> None:
        async with Face(Slow()) as admin:
            call = asyncio.create_task(admin.list_tenants())
            await asyncio.to_thread(asked.wait, 10)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            go.set()

    asyncio.run(given_up())


def test_it_is_loaded_when_it_is_asked_for() -> None:
    assert AsyncAdmin.__name__ == "AsyncAdmin"
    import milepost.admin

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        milepost.admin.Nothing  # type: ignore[attr-defined]  # noqa: B018
