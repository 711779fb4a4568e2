"""TimeSlices: when a rest is due, and that others work in it."""

from __future__ import annotations

import asyncio

from milepost.broker.limits.time_slices import WORK_S, TimeSlices
from milepost.testing.clock import ManualClock


def test_a_slice_is_over_after_its_time() -> None:
    clock = ManualClock()
    slices = TimeSlices(clock)
    assert not slices.is_over
    clock.advance(WORK_S / 2)
    assert not slices.is_over
    clock.advance(WORK_S)
    assert slices.is_over


def test_a_rest_begins_the_next_slice_and_lets_others_work() -> None:
    clock = ManualClock()
    slices = TimeSlices(clock)
    done: list[str] = []

    async def long() -> None:
        for step in "abc":
            done.append(step)
            clock.advance(WORK_S)
            if slices.is_over:
                await slices.rest()
                assert not slices.is_over

    async def other() -> None:
        for step in "xy":
            done.append(step)
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(long(), other())

    asyncio.run(both())
    assert done == ["a", "x", "y", "b", "c"]
