"""Negative acks wait, are due, and are forgotten."""

from __future__ import annotations

from milepost.client.messages.redelivery import Redeliveries
from milepost.positions import Position


def test_each_is_due_in_its_time() -> None:
    later = Redeliveries()
    later.add(Position(1, 5), 10.0)
    later.add(Position(1, 3), 5.0)
    assert later.next_due_s == 5.0
    assert later.take_due(4.9) == []
    assert later.take_due(5.0) == [(1, 3)]
    assert later.take_due(99.0) == [(1, 5)]
    assert later.next_due_s is None


def test_all_chunks_come_together() -> None:
    later = Redeliveries()
    later.add(Position(1, 5), 1.0, (Position(1, 2), Position(1, 4), Position(1, 5)))
    assert later.take_due(1.0) == [(1, 2), (1, 4), (1, 5)]


def test_an_ack_takes_it_out() -> None:
    later = Redeliveries()
    later.add(Position(1, 5), 1.0)
    later.add(Position(1, 6), 2.0)
    later.discard(Position(1, 5))
    assert (later.next_due_s, len(later)) == (2.0, 1)
    later.discard(Position(1, 6))
    assert later.next_due_s is None


def test_the_first_time_counts() -> None:
    later = Redeliveries()
    later.add(Position(1, 5), 1.0)
    later.add(Position(1, 5), 9.0)
    assert later.take_due(1.0) == [(1, 5)]
    assert later.take_due(9.0) == []


def test_one_taken_out_and_put_in_again_has_its_new_time() -> None:
    later = Redeliveries()
    later.add(Position(1, 5), 1.0)
    later.add(Position(1, 6), 3.0)
    later.discard(Position(1, 5))
    later.add(Position(1, 5), 2.0)
    assert later.take_due(1.5) == []
    assert later.take_due(2.0) == [(1, 5)]


def test_clear() -> None:
    later = Redeliveries()
    later.add(Position(1, 5), 1.0)
    later.clear()
    assert later.take_due(9.0) == []
