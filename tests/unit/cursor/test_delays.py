"""Delays: what is due when, in times given from outside."""

from __future__ import annotations

import pytest

from milepost.cursor.delays import Delays


def test_what_is_due_comes_out_once() -> None:
    delays = Delays()
    delays.add(0, 2, due_ms=500)
    delays.add(5, 6, due_ms=300)
    assert delays.take_due(299) == []
    assert delays.take_due(300) == [(5, 6)]
    assert delays.take_due(300) == []
    assert delays.take_due(900) == [(0, 2)]
    assert delays.indexes.count == 0
    delays.check()


def test_what_was_dropped_before_its_time_does_not_come_out() -> None:
    delays = Delays()
    delays.add(0, 5, due_ms=100)
    delays.add(7, 8, due_ms=200)
    assert delays.discard(1, 3) == 2
    delays.check()
    assert delays.take_due(150) == [(0, 1), (3, 5)]
    assert delays.discard(0, 8) == 1
    assert delays.take_due(999) == []


def test_the_next_time_is_that_of_something_still_delayed() -> None:
    delays = Delays()
    assert delays.next_due_ms is None
    delays.add(0, 1, due_ms=100)
    delays.add(1, 2, due_ms=200)
    assert delays.next_due_ms == 100
    delays.discard(0, 1)
    assert delays.next_due_ms == 200
    delays.clear()
    assert delays.next_due_ms is None


def test_an_index_has_one_due_time() -> None:
    delays = Delays()
    delays.add(0, 3, due_ms=100)
    with pytest.raises(AssertionError, match=r"part of \[2, 4\)"):
        delays.add(2, 4, due_ms=50)


def test_check_finds_an_index_without_a_time() -> None:
    delays = Delays()
    delays.add(0, 3, due_ms=100)
    delays.indexes.add(7, 8)
    with pytest.raises(AssertionError, match="timetable"):
        delays.check()


def test_check_finds_an_index_with_two_times() -> None:
    delays = Delays()
    delays.add(0, 3, due_ms=100)
    delays.indexes.discard(1, 2)
    delays.add(1, 2, due_ms=300)
    with pytest.raises(AssertionError, match="twice"):
        delays.check()


def test_what_is_due_comes_out_some_lines_at_a_time() -> None:
    delays = Delays()
    for index in range(6):
        delays.add(2 * index, 2 * index + 2, due_ms=100 + index)
    delays.discard(0, 2)
    assert delays.take_due(104, lines_max=2) == [(2, 4)]
    assert delays.take_due(104, lines_max=2) == [(4, 6), (6, 8)]
    assert delays.take_due(104, lines_max=2) == [(8, 10)]
    assert delays.next_due_ms == 105
    delays.check()


def test_of_very_many_that_left_early_some_are_skipped_at_a_time() -> None:
    delays = Delays()
    for index in range(1000):
        delays.add(index, index + 1, due_ms=index)
    delays.discard(0, 999)
    asked = 1
    while (due_ms := delays.next_due_ms) != 999:
        assert due_ms is not None
        asked += 1
    assert asked > 5
    assert delays.take_due(2000) == [(999, 1000)]
