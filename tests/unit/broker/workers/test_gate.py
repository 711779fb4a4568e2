from __future__ import annotations

import asyncio

import pytest

from milepost.broker.workers.gate import Gate
from milepost.errors import ShardAway


def test_a_closed_gate_refuses_calls_and_names_the_shard() -> None:
    async def play() -> None:
        gate = Gate(3)
        with gate:
            pass
        await gate.close()
        with pytest.raises(ShardAway, match="shard 3 is on its way"), gate:
            raise AssertionError("let in")

    asyncio.run(play())


def test_it_closes_behind_the_last_call() -> None:
    async def play() -> None:
        gate, told = Gate(0), list[str]()
        end = asyncio.Event()

        async def call() -> None:
            with gate:
                await end.wait()
                told.append("ended")

        calls = [asyncio.create_task(call()) for _ in range(2)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(gate.close(60))
        await asyncio.sleep(0)
        assert not closing.done()
        end.set()
        await closing
        assert told == ["ended", "ended"]
        await asyncio.gather(*calls)

    asyncio.run(play())


def test_a_call_that_takes_long_does_not_keep_it_open() -> None:
    async def play() -> None:
        gate = Gate(0)
        with gate:
            await gate.close(0.01)

    asyncio.run(play())
