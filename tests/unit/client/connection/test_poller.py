"""Polling: from time to time, or now, until it is stopped, whenever that is."""

from __future__ import annotations

import asyncio

from milepost.client.connection.poller import Poller
from milepost.errors import ConnectError


def test_it_is_done_when_it_is_woken() -> None:
    async def main() -> None:
        done: asyncio.Queue[None] = asyncio.Queue()

        async def work() -> None:
            done.put_nowait(None)
            raise ConnectError("not now")  # and goes on

        poller = Poller("a test", work, period_s=3600)
        poller.start()
        for _ in range(3):
            poller.wake()
            await done.get()
        await poller.stop()
        await poller.stop()
        assert done.empty()

    asyncio.run(main())


def test_it_is_done_from_time_to_time() -> None:
    async def main() -> None:
        done: asyncio.Queue[None] = asyncio.Queue()

        async def work() -> None:
            done.put_nowait(None)

        poller = Poller("a test", work, period_s=0)
        poller.start()
        for _ in range(3):
            await done.get()
        await poller.stop()

    asyncio.run(main())


def test_it_stops_in_the_moment_in_which_it_is_woken() -> None:
    async def main() -> None:
        async def work() -> None:
            pass

        for steps in range(6):
            poller = Poller("a test", work, period_s=3600)
            poller.start()
            for _ in range(3):
                await asyncio.sleep(0)
            poller.wake()
            for _ in range(steps):
                await asyncio.sleep(0)
            async with asyncio.timeout(30):
                await poller.stop()

    asyncio.run(main())
