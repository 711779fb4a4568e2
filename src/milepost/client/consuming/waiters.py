"""The queue of callers that wait for a message.

A caller is woken, not handed a message: what it does not take because it was cancelled meanwhile stays
where it is, and the next one is woken for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Waiters:
    def __init__(self) -> None:
        # Who waits, the first first.
        self.turns: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self.turns)

    async def wait(self, is_left: Callable[[], bool]) -> None:
        """Return when woken. `is_left` says whether there is still something to be woken for."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.turns.append(turn)
        try:
            await turn
        except BaseException:
            if not turn.done() or turn.cancelled():
                turn.cancel()
                if turn in self.turns:
                    self.turns.remove(turn)
            elif is_left():
                self.wake(1)  # this caller was woken, and goes away
            raise

    def wake(self, count: int) -> None:
        while count > 0 and self.turns:
            turn = self.turns.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1

    def wake_all(self) -> None:
        self.wake(len(self.turns))
