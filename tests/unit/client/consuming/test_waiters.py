"""Callers wait in turn, and one that goes away takes nothing with it."""

from __future__ import annotations

import asyncio

from milepost.client.consuming.waiters import Waiters


def test_each_is_woken_in_its_turn() -> None:
    async def run() -> None:
        waiters = Waiters()
        order: list[int] = []

        async def wait(number: int) -> None:
            await waiters.wait(lambda: True)
            order.append(number)

        tasks = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert len(waiters) == 3
        waiters.wake(2)
        await asyncio.gather(*tasks[:2])
        assert order == [0, 1]
        waiters.wake_all()
        await tasks[2]

    asyncio.run(run())


def test_who_goes_away_when_woken_wakes_the_next() -> None:
    async def run() -> None:
        waiters = Waiters()
        first, second = [asyncio.ensure_future(waiters.wait(lambda: True)) for _ in range(2)]
        await asyncio.sleep(0)
        waiters.wake(1)
        first.cancel()
        await second
        assert first.cancelled()

    asyncio.run(run())


def test_who_goes_away_unwoken_is_forgotten() -> None:
    async def run() -> None:
        waiters = Waiters()
        task = asyncio.ensure_future(waiters.wait(lambda: True))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert len(waiters) == 0

    asyncio.run(run())
