"""An event loop on a background thread, and calls from other threads.

loop = LoopThread("milepost")
loop.run(client.create_producer("orders"))  # waits, like a call
loop.post(producer.send_nowait, b"one")     # does not wait; many posted at once wake it once
loop.stop()
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from milepost.client.connection.context import ForkGuard
from milepost.errors import AlreadyClosed, WrongContext

T = TypeVar("T")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # where there is none, the standard one does
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    def __init__(self, name: str) -> None:
        self._fork = ForkGuard()
        self._loop = _new_loop()
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            # As `asyncio.run` ends: what still runs is told so.
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for it here. Interrupting the wait cancels it."""
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function there and wait for it here."""

        async def work() -> T:
            return function(*args)

        return self.run(work())

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Have a function called there, after those posted before; what it returns is dropped."""
        self._posted.append((function, args))
        if not self._is_woken:
            self.check(is_waiting=False)
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # First, so that what is posted from now on wakes the loop again.
        self._is_woken = False
        posted = self._posted
        while posted:
            function, args = posted.popleft()
            function(*args)

    def check(self, *, is_waiting: bool = True) -> None:
        """Raise where a call would wait for ever."""
        self._fork.check()
        if self._is_stopped:
            raise AlreadyClosed("the client is closed")
        if is_waiting and threading.current_thread() is self._thread:
            raise WrongContext("a blocking call from a callback on the client's own thread")

    def stop(self) -> None:
        """End the loop and wait for its thread; from that thread itself, do not wait."""
        self.leave()
        if not self._fork.is_forked and threading.current_thread() is not self._thread:
            self._thread.join()

    def leave(self) -> None:
        """Have the loop end by itself: no thread is left to wait for it."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if not self._fork.is_forked:  # else the thread is the parent's
            self._loop.call_soon_threadsafe(self._loop.stop)
