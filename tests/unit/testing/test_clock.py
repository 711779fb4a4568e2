"""ManualClock: time moves when told, and only then."""

from __future__ import annotations

import pytest

from milepost.clock import Clock
from milepost.testing.clock import ManualClock


def test_it_is_a_clock() -> None:
    clock: Clock = ManualClock(wall_ms=5)
    assert (clock.wall_ms(), clock.monotonic(), clock.thread_cpu()) == (5, 0.0, 0.0)


def test_advance_moves_both_readings() -> None:
    clock = ManualClock(wall_ms=1_000)
    clock.advance(1.5)
    assert (clock.wall_ms(), clock.monotonic()) == (2_500, 1.5)


def test_many_small_steps_add_up_exactly() -> None:
    clock = ManualClock(wall_ms=0)
    for _ in range(1_000):
        clock.advance(0.1)
    assert (clock.wall_ms(), clock.monotonic()) == (100_000, 100.0)


def test_steps_below_a_millisecond_are_kept() -> None:
    clock = ManualClock(wall_ms=0)
    for _ in range(10):
        clock.advance(0.0001)
    assert clock.wall_ms() == 1


@pytest.mark.parametrize("ms", [3_600_000, -3_600_000])
def test_jump_moves_the_wall_clock_only(ms: int) -> None:
    clock = ManualClock(wall_ms=10_000_000)
    clock.advance(2)
    clock.jump(ms)
    assert (clock.wall_ms(), clock.monotonic()) == (10_002_000 + ms, 2.0)


def test_time_does_not_pass_backwards() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match=r"-0\.5"):
        clock.advance(-0.5)
    assert clock.monotonic() == 0.0
