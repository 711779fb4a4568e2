"""Runs the asyncio client inside a command."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them; the first that fails ends the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of its own, uvloop's if it is installed; Ctrl-C cancels it and is raised."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
