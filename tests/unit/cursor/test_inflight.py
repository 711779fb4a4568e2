"""Inflight: who has what."""

from __future__ import annotations

import pytest

from milepost.cursor.inflight import Inflight


@pytest.fixture
def inflight() -> Inflight:
    inflight = Inflight()
    inflight.add(0, 4, holder=1)
    inflight.add(4, 8, holder=2)
    inflight.add(8, 9, holder=1)
    inflight.check()
    return inflight


def test_each_index_has_one_holder(inflight: Inflight) -> None:
    assert inflight.count == 9
    assert [inflight.holder_of(index) for index in (0, 3, 4, 8, 9)] == [1, 1, 2, 1, None]
    assert list(inflight.of(1)) == [(0, 4), (8, 9)]
    assert list(inflight.of(7)) == []


def test_what_a_holder_has_is_shown_as_a_copy(inflight: Inflight) -> None:
    inflight.of(1).clear()
    assert inflight.of(1).count == 5


def test_taking_from_one_leaves_the_others_alone(inflight: Inflight) -> None:
    taken: dict[int, int] = {}
    assert inflight.take_from(1, 2, 6, taken) == 2
    assert inflight.take_from(9, 2, 6, taken) == 0
    assert taken == {1: 2}
    assert list(inflight.of(2)) == [(4, 8)]


def test_taking_from_whoever_has_it(inflight: Inflight) -> None:
    taken = {1: 10}
    assert inflight.take(2, 20, taken) == 7
    assert taken == {1: 13, 2: 4}
    assert inflight.count == 2


def test_taking_ranges_tells_which_there_were(inflight: Inflight) -> None:
    taken: dict[int, int] = {}
    assert list(inflight.take_ranges([(0, 1), (3, 6), (20, 30)], 2, taken)) == [(4, 6)]
    assert list(inflight.take_ranges([(0, 1), (3, 7)], None, taken)) == [(0, 1), (3, 4), (6, 7)]
    assert taken == {1: 2, 2: 1}
    inflight.check()


def test_a_holder_that_is_gone_leaves_everything(inflight: Inflight) -> None:
    assert list(inflight.take_all(1)) == [(0, 4), (8, 9)]
    assert list(inflight.take_all(1)) == []
    assert inflight.count == 4
    inflight.clear()
    assert inflight.count == 0


def test_nothing_is_given_twice(inflight: Inflight) -> None:
    with pytest.raises(AssertionError, match=r"a part of \[3, 5\)"):
        inflight.add(3, 5, holder=1)
    with pytest.raises(AssertionError, match="holder -1"):
        inflight.add(30, 31, holder=-1)


def test_check_finds_an_index_with_two_holders(inflight: Inflight) -> None:
    inflight.add(7, 8, holder=1)
    with pytest.raises(AssertionError, match="two holders"):
        inflight.check()
