"""The pace of a load: calls at even distances, finer than a loop's own timers go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def evenly(send: Callable[[], None], count: int, per_second: int) -> None:
    """Call `send` so many times on the loop.

    A loop's own timers go by the millisecond: at a thousand a second they would send two at a time now
    and then, and the second of them would wait for the first.
    """
    loop = asyncio.get_running_loop()

    def pace() -> None:
        began = time.perf_counter()
        for number in range(count):
            wait = began + number / per_second - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            loop.call_soon_threadsafe(send)

    await asyncio.to_thread(pace)
