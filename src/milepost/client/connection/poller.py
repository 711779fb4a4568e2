"""Repeats a task, such as the search for new partitions, until it is stopped.

    poller = Poller("topics like orders-.*", discover, period_s=60)
    poller.start()
    poller.wake()                               # do it now: there is something new

What goes wrong once is logged and tried again at the next turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from milepost.errors import MilepostError

log = logging.getLogger("milepost.client")


class Poller:
    def __init__(self, what: str, work: Callable[[], Awaitable[None]], period_s: float) -> None:
        self._what = what
        self._work = work
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._what)

    def wake(self) -> None:
        """Once more now; what is under way is done again when it is through."""
        self._woken.set()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            # Not `wait_for`: before Python 3.12 it may lose a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self._work()
            except MilepostError as error:
                log.info("%s: %s", self._what, error)
