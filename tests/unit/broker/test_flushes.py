"""Flushes: once a turn, the last one first, and nobody is forgotten behind one that breaks down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from milepost.broker.flushes import Flushes


class Sink:
    def __init__(self, name: str, flushed: list[str], then: Callable[[], None] | None = None):
        self.name = name
        self.flushed = flushed
        self.then = then

    def flush(self) -> None:
        self.flushed.append(self.name)
        if self.then is not None:
            self.then()


def test_what_was_added_in_a_turn_is_flushed_in_the_next_one_the_last_first() -> None:
    flushed: list[str] = []

    async def run() -> None:
        flushes = Flushes()
        for name in "abc":
            flushes.add(Sink(name, flushed))
        assert flushed == []
        await asyncio.sleep(0)
        assert flushed == ["c", "b", "a"]
        await asyncio.sleep(0)
        assert flushed == ["c", "b", "a"]

    asyncio.run(run())


def test_what_is_written_by_those_who_had_a_turn_before_it_goes_along() -> None:
    """A feed that a commit woke runs before the flush that the commit's receipts asked for."""
    flushed: list[str] = []

    async def run() -> None:
        flushes = Flushes()
        asyncio.get_running_loop().call_soon(lambda: flushes.add(Sink("consumer", flushed)))
        flushes.add(Sink("producer", flushed))
        await asyncio.sleep(0)
        assert flushed == ["consumer", "producer"]

    asyncio.run(run())


def test_one_that_is_added_while_others_are_flushed_has_its_turn() -> None:
    flushed: list[str] = []

    async def run() -> None:
        flushes = Flushes()
        late = Sink("late", flushed)
        flushes.add(Sink("early", flushed, then=lambda: flushes.add(late)))
        await asyncio.sleep(0)
        assert flushed == ["early"]
        await asyncio.sleep(0)
        assert flushed == ["early", "late"]

    asyncio.run(run())


def test_one_that_breaks_down_keeps_nobody_waiting() -> None:
    flushed: list[str] = []
    failures: list[object] = []

    def fail() -> None:
        raise RuntimeError("broken")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: failures.append(context["exception"]))
        flushes = Flushes()
        flushes.add(Sink("a", flushed))
        flushes.add(Sink("b", flushed, then=fail))
        flushes.add(Sink("c", flushed))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert flushed == ["c", "b", "a"]

    asyncio.run(run())
    with pytest.raises(RuntimeError, match="broken"):
        raise failures[0]  # type: ignore[misc]
