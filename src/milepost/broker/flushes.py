"""Flushes: the sessions that were written to in this turn of the loop, each flushed once at its end.

What a commit makes visible goes to many: receipts to producers, messages to consumers. One call a turn
sends it all. Who was written to last is flushed first: a receipt is written when its entry is durable, its
delivery right behind; and a consumer waits for the message, while the producer is only told.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Flushable(Protocol):
    def flush(self) -> None:
        """Send what was written."""
        ...


class Flushes:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Invariant: if there is any, a call is on its way.
        self._waiting: list[Flushable] = []

    def add(self, session: Flushable) -> None:
        """Flush the session when everybody has had their turn who has one now."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(session)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            while waiting:
                waiting.pop().flush()
        finally:
            for session in waiting:  # behind one that broke down
                self.add(session)
