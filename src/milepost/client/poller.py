"""Something done again and again until it is stopped: looking for new partitions and topics.

What goes wrong once is logged and tried again at the next turn.
"""

from __future__ import annotations

import asyncio
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

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._what)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            try:
                await self._work()
            except MilepostError as error:
                log.info("%s: %s", self._what, error)
