"""A loop on real sockets whose timers do not wait in earnest.

While the loop has nothing to do its clock runs twenty times as fast as the machine's. While it works, or a
thread works for it, the clock runs as fast as the machine's: on a busy machine no timer fires for that.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stage.unclosed import run_and_collect

T = TypeVar("T")

STEP_S = 0.02
"""The clock advances by at most this much whenever nothing has happened for `PAUSE_S`."""
PAUSE_S = 0.001


class HurriedLoop(asyncio.SelectorEventLoop):
    """Give its `time` to whatever else asks a clock: what is timed by another one is not hurried."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._threads = 0
        self._waits = _Selector(self)
        super().__init__(self._waits)

    def time(self) -> float:
        return super().time() + self._ahead_s

    def passed(self, seconds: float) -> None:
        self._ahead_s += seconds

    @property
    def may_hurry(self) -> bool:
        return not self._threads

    def run_in_executor(  # type: ignore[override]  # of one type for all arguments, which none here cares for
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, future: asyncio.Future[Any]) -> None:
        self._threads -= 1


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: HurriedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= PAUSE_S or not self._loop.may_hurry:
            return super().select(timeout)
        found = super().select(PAUSE_S)
        if not found:
            self._loop.passed(min(timeout - PAUSE_S, STEP_S))
        return found


def hurry(play: Coroutine[Any, Any, T]) -> T:
    """As `run_and_collect`, on a hurried loop."""
    return run_and_collect(play, HurriedLoop)
