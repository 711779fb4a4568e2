"""Sliced steps: all are taken, none waits for one that breaks down, and live traffic waits for none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from simulation.loop import VirtualLoop

from milepost.broker.limits.sliced_steps import SlicedSteps, Step
from milepost.broker.limits.time_slices import REST_S, WORK_S
from milepost.testing.clock import ManualClock


class Table:
    """Steps on a virtual clock, each of which takes a while."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = VirtualLoop(self.clock)
        self.errors: list[tuple[str, str]] = []
        self.taken: list[int] = []
        self.steps = self.loop.do(
            lambda: SlicedSteps(
                self.clock, lambda place, error: self.errors.append((place, str(error)))
            )
        )

    def take(self, number: int, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.taken.append(number)

    def series(self, count: int, seconds: float = 0.0) -> Iterator[Step]:
        for number in range(count):
            yield "place", partial(self.take, number, seconds)

    def rest(self) -> None:
        self.clock.advance(2 * REST_S)
        self.loop.turn()


@pytest.fixture
def table() -> Table:
    return Table()


def test_few_are_taken_at_once(table: Table) -> None:
    table.steps.begin(table.series(100))
    assert table.taken == [*range(100)]
    assert not table.steps.is_under_way


def test_after_half_a_millisecond_others_have_their_turn(table: Table) -> None:
    table.steps.begin(table.series(12, WORK_S / 4))
    assert table.taken == [*range(4)]
    assert table.steps.is_under_way
    table.loop.turn()
    assert len(table.taken) == 4  # not before the rest is over
    table.rest()
    assert len(table.taken) == 8
    table.rest()
    assert table.taken == [*range(12)]
    table.rest()
    assert not table.steps.is_under_way


def test_one_that_breaks_down_costs_itself(table: Table) -> None:
    def broken() -> None:
        raise ValueError("no")

    def series() -> Iterator[Step]:
        yield "here", broken
        yield "there", partial(table.take, 7)

    table.steps.begin(series())
    assert (table.errors, table.taken) == ([("here", "no")], [7])


def test_a_series_that_breaks_down_does_not_keep_the_next_one_from_its_turn(table: Table) -> None:
    def series() -> Iterator[Step]:
        yield "here", partial(table.take, 1)
        raise ValueError("gone")

    table.steps.begin(series())
    assert table.errors == [("tick", "gone")]
    table.steps.begin(table.series(1))
    assert table.taken == [1, 0]


def test_what_is_left_is_not_taken_behind_a_stop(table: Table) -> None:
    table.steps.begin(table.series(12, WORK_S))
    table.steps.stop()
    table.rest()
    assert table.taken == [0]
    assert not table.steps.is_under_way


def test_a_step_may_stop_them(table: Table) -> None:
    def series() -> Iterator[Step]:
        yield "here", table.steps.stop
        yield "there", partial(table.take, 1)

    table.steps.begin(series())
    assert (table.taken, table.steps.is_under_way) == ([], False)
