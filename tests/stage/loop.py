"""An event loop that a test turns by hand: it runs what is ready and never waits.

What the product gives to another thread is done here and now: a test that is turned by hand cannot wait for
a thread, and on a busy machine some of them were not ready when it looked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# A stage that is still busy after so many turns will never be quiet.
TURNS_MAX = 10_000


class TurnLoop(asyncio.SelectorEventLoop):
    """Timers never fire: time is the manual clock's. What goes wrong in a callback is raised by the turn
    in which it happened."""

    def __init__(self) -> None:
        super().__init__()
        self._wrong: list[BaseException] = []
        self.set_exception_handler(self._note)

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._wrong.append(context.get("exception") or AssertionError(context["message"]))

    def turn(self) -> int:
        """Run what is ready, and what that makes ready, until nothing is; how many turns it took."""
        for turns in range(TURNS_MAX):
            if self._wrong:
                raise self._wrong.pop(0)
            if not self._ready:  # type: ignore[attr-defined]  # CPython's own queue of callbacks
                return turns
            self.call_soon(self.stop)
            self.run_forever()
        raise AssertionError(f"not quiet after {TURNS_MAX} turns")

    def run_in_executor(  # type: ignore[override]  # of one type for all arguments, which none here cares for
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def do(self, function: Callable[[], T]) -> T:
        """Call something that wants to find a running loop."""

        async def call() -> T:
            return function()

        return self.run_until_complete(call())

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something; it gets on at every turn."""
        return self.create_task(work)
