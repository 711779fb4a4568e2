"""An event loop on the virtual clock: it runs what is ready, its timers follow the clock, nothing waits."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from milepost.testing.clock import ManualClock

T = TypeVar("T")

# A world that is still busy after so many steps at one moment will never be quiet.
STEPS_MAX = 100_000


class Step:
    """A callback that is to be run; as light as `asyncio.Handle` would be without its debugging."""

    __slots__ = ("args", "callback", "context", "due")

    def __init__(
        self,
        callback: Callable[..., Any] | None,
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        due: float = 0.0,
    ) -> None:
        self.callback, self.args, self.context, self.due = callback, args, context, due

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due


class VirtualLoop(asyncio.AbstractEventLoop):
    """What goes wrong in a callback is raised by the turn in which it happened."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._ready: deque[Step] = deque()
        self._timers: list[tuple[float, int, Step]] = []
        self._timed = 0
        self._wrong: list[BaseException] = []

    # -- what asyncio needs of it -------------------------------------------------------------------

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        step = Step(callback, args, context)
        self._ready.append(step)
        return step

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self._clock.monotonic() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        step = Step(callback, args, context, when)
        self._timed += 1
        heapq.heappush(self._timers, (when, self._timed, step))
        return step

    def time(self) -> float:
        return self._clock.monotonic()

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return False

    def close(self) -> None:
        self._ready.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._wrong.append(context.get("exception") or AssertionError(context["message"]))

    # -- what a simulation does ----------------------------------------------------------------------

    def turn(self) -> int:
        """Run what is ready or due, and what that makes ready, until nothing is; how many steps it took."""
        ready, timers, steps = self._ready, self._timers, 0
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while True:
                while ready:
                    step = ready.popleft()
                    callback, context = step.callback, step.context
                    if callback is None:
                        continue
                    steps += 1
                    if context is None:
                        callback(*step.args)
                    else:
                        context.run(callback, *step.args)
                    if self._wrong:
                        raise self._wrong.pop(0)
                if not timers or timers[0][0] > self._clock.monotonic():
                    return steps
                ready.append(heapq.heappop(timers)[2])
                if steps > STEPS_MAX:
                    raise AssertionError(f"not quiet after {STEPS_MAX} steps")
        finally:
            events._set_running_loop(before)

    def next_due(self) -> float | None:
        """When the next timer fires, of those that are not cancelled."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def do(self, function: Callable[[], T]) -> T:
        """Call something that wants to find a running loop."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return function()
        finally:
            events._set_running_loop(before)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something; it gets on at every turn."""
        return self.create_task(work)  # type: ignore[no-any-return]
