"""Lets calls about the own shard in while it is served here, and waits for those inside when it is to go.

    with workers.gate:                  # ShardAway if the shard is on its way to another broker
        ...                             # it stays here until the call has ended, or for a moment at least
    await workers.gate.close()          # at the owner, before it comes to rest

A call that is refused here was not begun: the process that has the client asks the next owner for it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from milepost.errors import ShardAway

# A call that takes longer does not keep the shard.
PATIENCE_S: Final = 1.0


class Gate:
    def __init__(self, shard: int) -> None:
        self._shard = shard
        self._inside = 0
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self.is_open = True

    def check(self) -> None:
        """Refuse a call that the shard does not wait for."""
        if not self.is_open:
            raise ShardAway(f"shard {self._shard} is on its way to another broker: try again")

    def __enter__(self) -> None:
        self.check()
        self._inside += 1
        self._is_empty.clear()

    def __exit__(self, *exc_info: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._is_empty.set()

    async def close(self, patience_s: float = PATIENCE_S) -> None:
        """Let no call in, and return when those inside have ended, or are not waited for any longer."""
        self.is_open = False
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._is_empty.wait()
