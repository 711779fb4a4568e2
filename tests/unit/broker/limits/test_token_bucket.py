"""How much may pass, and when."""

from __future__ import annotations

import pytest

from milepost.broker.limits.token_bucket import NO_LIMIT, Throttle
from milepost.broker.policies.effective import Rate
from milepost.testing.clock import ManualClock


def make(rate: Rate) -> tuple[Throttle, ManualClock]:
    clock = ManualClock()
    return Throttle(rate, clock.monotonic), clock


def test_one_period_passes_at_once() -> None:
    throttle, _ = make(Rate(10, 0))
    assert throttle.room == 10
    throttle.took(10, 5)
    assert throttle.room == 0
    assert throttle.wait_s == pytest.approx(0.1)


def test_it_fills_evenly_and_not_beyond_a_period() -> None:
    throttle, clock = make(Rate(10, 0, 2))
    throttle.took(10, 0)
    clock.advance(0.4)
    assert throttle.room == 2
    clock.advance(100)
    assert throttle.room == 10


def test_debts_are_paid_first() -> None:
    throttle, clock = make(Rate(10, 0))
    throttle.took(35, 0)
    assert (throttle.room, throttle.wait_s) == (0, pytest.approx(2.6))
    clock.advance(2.55)
    assert throttle.room == 0
    clock.advance(0.1)
    assert throttle.room == 1


def test_bytes_count_by_the_size_of_messages() -> None:
    throttle, clock = make(Rate(0, 1000))
    assert throttle.room > 0
    throttle.took(5, 500)
    assert throttle.room == 5
    throttle.took(1, 5000)  # larger than the rate: it passes, and is paid for
    assert throttle.room == 0
    clock.advance(throttle.wait_s)
    assert throttle.room == 1


def test_both_must_have_room() -> None:
    throttle, _ = make(Rate(100, 1000))
    throttle.took(10, 1000)
    assert throttle.room == 0
    throttle, _ = make(Rate(100, 0))
    assert throttle.room == 100
    assert make(Rate(0, 1))[0].room <= NO_LIMIT


def test_a_relative_rate_lets_pass_what_is_published() -> None:
    clock, published = ManualClock(), [0, 0]
    throttle = Throttle(
        Rate(10, 0, relative=True), clock.monotonic, lambda: (published[0], published[1])
    )
    throttle.took(10, 0)
    assert throttle.room == 0
    published[0] += 50
    assert throttle.room == 50


def test_a_clock_that_stands_gives_nothing() -> None:
    throttle, _ = make(Rate(10, 0))
    throttle.took(10, 0)
    assert [throttle.room for _ in range(3)] == [0, 0, 0]
