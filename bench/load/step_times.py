"""`milepost serve` whose loop notes how much processor time each of its steps takes.

    async with started_noting_steps() as (target, steps):
        steps.forget()              # what came before does not count
        …
    steps.noted                     # [(milliseconds, "FlushRound._run"), …], the longest first

While a step runs, every client waits. Latencies on a shared disk say little about the broker; the processor
time of its longest steps is what it can do about them. A step is one callback of the loop, or one read of a
socket, with all that it calls. Steps below half a millisecond are not noted. Runs of the garbage collector
are part of the step that they meet, and noted by themselves too.

`python -m bench.load.step_times FILE serve …` is the process: SIGUSR1 lets it forget, and at its end it
writes what it noted to the file.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench.load.target import Target, started

NOTED_FROM_S = 0.0005


class Steps:
    """What such a process has noted; known when it has ended."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.noted: list[tuple[float, str]] = []
        """Milliseconds of processor time, and what the step was; the longest first."""

    def forget(self) -> None:
        assert self._target.pid is not None
        os.kill(self._target.pid, signal.SIGUSR1)


@asynccontextmanager
async def started_noting_steps() -> AsyncIterator[tuple[Target, Steps]]:
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        file = Path(folder) / "steps.json"
        async with started(program=(__name__, str(file))) as target:
            steps = Steps(target)
            yield target, steps
        noted = json.loads(file.read_text())
        steps.noted = sorted(((seconds * 1000, name) for seconds, name in noted), reverse=True)


# -- in the process of its own -------------------------------------------------------------------------

_noted: list[tuple[float, str]] = []
_is_inside = False


def _timed(callback: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        global _is_inside
        if _is_inside:
            return callback(*args, **options)
        _is_inside, began = True, time.thread_time()
        try:
            return callback(*args, **options)
        finally:
            took, _is_inside = time.thread_time() - began, False
            if took >= NOTED_FROM_S:
                _noted.append((took, name or _name(callback)))

    return run


def _name(callback: Any) -> str:
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return getattr(owner.get_coro(), "__qualname__", "a task")
    return getattr(callback, "__qualname__", type(callback).__name__)


class _Loop(uvloop.Loop):
    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon(_timed(callback), *args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon_threadsafe(_timed(callback), *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_later(delay, _timed(callback), *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_at(when, _timed(callback), *args, context=context)


def _note_collections() -> None:
    began = 0.0

    def collected(phase: str, about: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        elif (took := time.thread_time() - began) >= NOTED_FROM_S:
            _noted.append((took, f"the collector, generation {about['generation']}"))

    gc.callbacks.append(collected)


def _main(file: Path, arguments: list[str]) -> int:
    from milepost.broker.connection.server import Connection
    from milepost.cli.main import run
    from milepost.cli.server import process

    process._loop_factory = lambda: _Loop
    Connection.data_received = _timed(  # type: ignore[method-assign]
        Connection.data_received, "Connection.data_received"
    )
    _note_collections()
    signal.signal(signal.SIGUSR1, lambda *_: _noted.clear())
    try:
        return run(arguments)
    finally:
        file.write_text(json.dumps(_noted))


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), sys.argv[2:]))
