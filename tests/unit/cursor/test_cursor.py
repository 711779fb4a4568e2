"""The cursor by example, the traps of design.md under their numbers.

`tests/property/test_cursor.py` compares every step with a dict of states.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stage.acksets import acks_left

from milepost.cursor.cursor import Cursor
from milepost.cursor.facts import SeekFact
from milepost.cursor.outcomes import Acked, Counts, Released
from milepost.errors import IndexNotFound, InvalidRange
from milepost.positions.ackset import AckSet
from milepost.positions.ranges import IndexRanges
from milepost.positions.spans import INDEX_MAX, Span

NOTHING = Acked(0, 0, {}, ())


@pytest.fixture
def cursor() -> Iterator[Cursor]:
    """Ten messages, all ready; whatever a test does to it, its invariants hold."""
    cursor = Cursor(0, 10)
    yield cursor
    cursor.check()


# ── a new one ─────────────────────────────────────────────────────────────────────────────────


def test_a_new_subscription_begins_where_it_is_told() -> None:
    assert Cursor().counts() == Counts(0, 0, 0, 0)
    assert Cursor(5, 20).counts() == Counts(ready=15, inflight=0, delayed=0, acked=0)
    latest = Cursor(5, 20, at=20)
    assert latest.counts() == Counts(ready=0, inflight=0, delayed=0, acked=15)
    assert (latest.mark_delete_index, latest.epoch) == (19, 0)


@pytest.mark.parametrize(("first", "end", "at"), [(-1, 0, 0), (5, 4, 5), (5, 9, 4), (5, 9, 10)])
def test_a_place_that_is_not_there_is_no_beginning(first: int, end: int, at: int) -> None:
    with pytest.raises(InvalidRange, match=rf"a cursor at {at} of \[{first}, {end}\)"):
        Cursor(first, end, at=at)


def test_new_entries_are_ready(cursor: Cursor) -> None:
    assert cursor.extend(13) == 3
    assert cursor.extend(13) == 0
    assert cursor.next_ready(10) == (10, 13)
    for end in (12, INDEX_MAX + 1):
        with pytest.raises(InvalidRange, match=f"from 13 to {end}"):
            cursor.extend(end)


def test_the_largest_end_there_is() -> None:
    cursor = Cursor()
    assert cursor.extend(INDEX_MAX) == INDEX_MAX
    assert cursor.counts().ready == INDEX_MAX


# ── deliver ───────────────────────────────────────────────────────────────────────────────────


def test_a_delivery_takes_the_ready_part_of_a_range(cursor: Cursor) -> None:
    cursor.ack([(1, 2), (4, 6)])
    delivered = cursor.deliver(0, 8, holder=3)
    assert (delivered.count, delivered.ranges) == (5, [(0, 1), (2, 4), (6, 8)])
    assert cursor.deliver(0, 8, holder=4).count == 0
    assert list(cursor.inflight_of(3)) == [(0, 1), (2, 4), (6, 8)]
    assert [cursor.holder_of(index) for index in (0, 1, 7, 8)] == [3, None, 3, None]


def test_a_delivery_of_what_is_all_ready_is_one_range(cursor: Cursor) -> None:
    assert cursor.deliver(2, 9, holder=0).ranges == ((2, 9),)


def test_a_delivery_stops_at_the_end(cursor: Cursor) -> None:
    assert cursor.deliver(8, 100, holder=0).ranges == [(8, 10)]


def test_a_delivery_of_nothing_is_a_mistake(cursor: Cursor) -> None:
    with pytest.raises(InvalidRange, match=r"a delivery of \[3, 3\)"):
        cursor.deliver(3, 3, holder=0)


def test_what_comes_back_is_next(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    assert cursor.next_ready() == (6, 10)
    cursor.release([(2, 4)], count=True)
    assert cursor.next_ready() == (2, 4)
    assert cursor.next_ready(limit=1) == (2, 3)
    assert cursor.next_ready(3, limit=9) == (3, 4)
    assert cursor.next_ready(4, limit=3) == (6, 9)
    assert cursor.next_ready(10) is None
    assert cursor.next_ready(10, limit=3) is None


# ── ack ───────────────────────────────────────────────────────────────────────────────────────


def test_an_ack_tells_who_lost_what(cursor: Cursor) -> None:
    cursor.deliver(0, 4, holder=1)
    cursor.deliver(4, 6, holder=2)
    acked = cursor.ack([(2, 5), (8, 9)], holder=1)
    assert acked == Acked(4, 0, {1: 2, 2: 1}, [(2, 5), (8, 9)])
    assert cursor.counts() == Counts(ready=3, inflight=3, delayed=0, acked=4)


def test_an_ack_given_twice_changes_nothing(cursor: Cursor) -> None:
    cursor.ack([(2, 5)])
    assert cursor.ack([(2, 5)]) == NOTHING
    assert cursor.ack([(2, 6)]).count == 1


def test_an_ack_of_what_was_never_delivered_is_a_plain_ack(cursor: Cursor) -> None:
    assert cursor.ack([(9, 10)]).count == 1


def test_an_ack_of_a_delayed_message(cursor: Cursor) -> None:
    cursor.delay(0, 5, due_ms=100)
    assert cursor.ack([(1, 2)]).count == 1
    assert cursor.counts() == Counts(ready=5, inflight=0, delayed=4, acked=1)
    assert cursor.due(100) == 4


def test_a_bad_range_fails_the_whole_ack(cursor: Cursor) -> None:
    with pytest.raises(IndexNotFound, match=r"\[9, 11\), the end is 10"):
        cursor.ack([(0, 1), (9, 11)])
    for first, end in [(3, 3), (4, 3), (-1, 2)]:
        with pytest.raises(InvalidRange, match=rf"\[{first}, {end}\)"):
            cursor.ack([(0, 1), (first, end)])
    assert cursor.backlog == 10


def test_a_cumulative_ack_covers_everything_below(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.ack([(0, 1), (2, 3)])
    acked = cursor.ack_up_to(5, holder=1)
    assert acked == Acked(3, 0, {1: 3}, ((1, 5),))
    assert cursor.ack_up_to(5) == NOTHING
    assert cursor.mark_delete_index == 4


def test_trap_12_a_cumulative_ack_keeps_the_individual_ones_above(cursor: Cursor) -> None:
    entry = Span(0, 10)
    cursor.ack([(6, 7)])
    cursor.ack_up_to(3)
    assert acks_left(cursor, entry) == AckSet.full(10).without_before(3).without(6)


def test_a_cumulative_ack_before_the_first_is_no_ack() -> None:
    cursor = Cursor(5, 10)
    assert cursor.ack_up_to(5) == NOTHING
    assert cursor.ack_up_to(0) == NOTHING
    with pytest.raises(IndexNotFound, match="up to 11, the end is 10"):
        cursor.ack_up_to(11)


# ── release ───────────────────────────────────────────────────────────────────────────────────


def test_a_release_takes_back_only_what_is_inflight(cursor: Cursor) -> None:
    cursor.deliver(0, 4, holder=1)
    cursor.deliver(4, 6, holder=2)
    cursor.ack([(1, 2)])
    assert cursor.release([(0, 10)], holder=1, count=True) == Released(3, {1: 3})
    assert cursor.release([(0, 10)], count=True) == Released(2, {2: 2})
    assert cursor.release([(0, 10)], count=True) == Released(0, {})
    assert cursor.counts() == Counts(ready=9, inflight=0, delayed=0, acked=1)


@pytest.mark.parametrize(("count", "expected"), [(True, 1), (False, 0)])
def test_a_consumer_that_is_gone_leaves_everything_ready(
    cursor: Cursor, count: bool, expected: int
) -> None:
    cursor.deliver(0, 4, holder=1)
    assert cursor.release_holder(1, count=count) == Released(4, {1: 4})
    assert cursor.release_holder(1, count=count) == Released(0, {})
    assert cursor.redelivery_count(Span(0, 4)) == expected
    assert cursor.next_ready() == (0, 10)


def test_trap_9_an_ack_leaves_the_counts_of_its_siblings(cursor: Cursor) -> None:
    batch = Span(0, 5)
    for expected in (1, 2, 3):
        cursor.deliver(0, 5, holder=1)
        cursor.ack([(expected, expected + 1)], holder=1)
        cursor.release_holder(1, count=True)
        assert cursor.redelivery_count(batch) == expected
    assert acks_left(cursor, batch) == AckSet(0b10001, 5)


def test_an_entry_counts_what_is_not_acked_in_it(cursor: Cursor) -> None:
    cursor.deliver(0, 2, holder=1)
    cursor.release([(0, 1)], count=True)
    assert cursor.redelivery_count(Span(0, 2)) == 1
    cursor.ack([(0, 1)])
    assert cursor.redelivery_count(Span(0, 2)) == 0


# ── delayed ───────────────────────────────────────────────────────────────────────────────────


def test_a_delayed_message_is_not_delivered_before_its_time(cursor: Cursor) -> None:
    assert cursor.delay(2, 4, due_ms=500) == 2
    assert cursor.deliver(0, 10, holder=1).count == 8
    assert (cursor.due(499), cursor.next_due_ms) == (0, 500)
    assert cursor.mark_delete_index == -1
    assert (cursor.due(500), cursor.next_due_ms) == (2, None)
    assert cursor.deliver(0, 10, holder=1).ranges == [(2, 4)]


def test_a_message_keeps_the_time_it_was_given_first(cursor: Cursor) -> None:
    cursor.delay(0, 2, due_ms=500)
    assert cursor.delay(0, 4, due_ms=100) == 2
    assert cursor.due(100) == 2
    assert cursor.counts().delayed == 2


def test_only_what_is_ready_is_delayed(cursor: Cursor) -> None:
    cursor.deliver(0, 2, holder=1)
    cursor.ack([(2, 3)])
    assert cursor.delay(0, 4, due_ms=100) == 1


# ── seek ──────────────────────────────────────────────────────────────────────────────────────


def test_a_seek_leaves_below_acked_and_the_rest_ready(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.ack([(7, 8)])
    cursor.delay(8, 9, due_ms=100)
    fact = cursor.seek(4)
    assert fact == SeekFact(1, 4, IndexRanges([(4, 6), (7, 8)]))
    assert cursor.counts() == Counts(ready=6, inflight=0, delayed=0, acked=4)
    assert (cursor.epoch, cursor.mark_delete_index, cursor.next_due_ms) == (1, 3, None)


def test_a_seek_out_of_the_log(cursor: Cursor) -> None:
    cursor.trim(3)
    assert cursor.seek(1).index == 3
    assert cursor.seek(10).index == 10
    for index in (-1, 11):
        with pytest.raises(IndexNotFound, match=rf"a seek to {index} in \[3, 10\)"):
            cursor.seek(index)
    assert cursor.epoch == 2


def test_a_replay_that_was_asked_for_is_no_redelivery(cursor: Cursor) -> None:
    cursor.deliver(0, 4, holder=1)
    cursor.release_holder(1, count=True)
    cursor.seek(0)
    assert cursor.redelivery_count(Span(0, 4)) == 0


def test_trap_11_a_late_ack_changes_nothing(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.seek(0)
    assert cursor.ack([(2, 4)], holder=1) == Acked(0, 2, {}, ())
    assert cursor.ack_up_to(6) == Acked(0, 6, {}, ())
    assert cursor.backlog == 10


def test_trap_11_what_came_back_before_the_seek_may_be_acked_late_too(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.release([(0, 3)], count=True)
    cursor.seek(0)
    assert cursor.ack([(0, 3)]).ignored == 3


def test_trap_11_what_was_acked_before_the_seek_may_be_acked_late_too(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.ack([(0, 6)], holder=1)
    cursor.seek(2)
    assert cursor.ack([(0, 6)]).ignored == 4
    assert cursor.mark_delete_index == 1


def test_trap_11_what_was_delivered_again_may_be_acked(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.seek(0)
    cursor.deliver(0, 3, holder=2)
    assert cursor.ack([(1, 5)]) == Acked(2, 2, {2: 2}, [(1, 3)])
    assert cursor.ack_up_to(4).count == 0
    assert cursor.ack_up_to(3).count == 1


def test_trap_11_what_was_never_delivered_may_be_acked(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.seek(0)
    assert cursor.ack([(8, 9)]).count == 1
    assert cursor.ack_up_to(8).count == 8, "its own index is 7: everything below, stale or not"


def test_trap_11_two_seeks_do_not_make_it_fresh(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.seek(0)
    cursor.seek(10)
    cursor.seek(0)
    assert cursor.epoch == 3
    assert cursor.ack([(0, 10)]) == Acked(0, 10, {}, ()), "a seek acked them, and took it back"


def test_a_message_released_in_this_epoch_may_be_acked(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.release_holder(1, count=False)
    assert cursor.ack([(0, 6)]).count == 6


# ── trim ──────────────────────────────────────────────────────────────────────────────────────


def test_a_trim_moves_the_first_index(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    cursor.ack([(0, 1)])
    assert cursor.trim(3) == Acked(2, 0, {1: 2}, ((1, 3),))
    assert (cursor.first, cursor.mark_delete_index) == (3, 2)
    assert cursor.counts() == Counts(ready=4, inflight=3, delayed=0, acked=0)
    cursor.ack([(3, 4)])
    assert cursor.trim(4) == NOTHING
    assert cursor.trim(2) == NOTHING
    assert cursor.trim(0) == NOTHING
    assert cursor.first == 4
    for index in (-1, 11):
        with pytest.raises(IndexNotFound, match=f"a trim to {index}, the end is 10"):
            cursor.trim(index)


def test_an_ack_of_what_was_trimmed_changes_nothing(cursor: Cursor) -> None:
    cursor.trim(5)
    assert cursor.ack([(0, 3)]) == NOTHING
    assert cursor.ack([(3, 6)]).count == 1


# ── views ─────────────────────────────────────────────────────────────────────────────────────


def test_trap_1_a_set_bit_is_still_to_be_acked(cursor: Cursor) -> None:
    entry = Span(2, 5)
    assert acks_left(cursor, entry) is None
    cursor.ack([(2, 4)])
    cursor.deliver(5, 6, holder=1)
    cursor.delay(6, 7, due_ms=9)
    assert acks_left(cursor, entry) == AckSet(0b11100, 5)
    assert not cursor.is_acked(entry)
    cursor.ack([(4, 7)])
    assert acks_left(cursor, entry) == AckSet(0, 5)
    assert cursor.is_acked(entry)


def test_a_delivery_shows_what_is_with_nobody(cursor: Cursor) -> None:
    entry = Span(0, 4)
    assert cursor.ready_set(entry) is None
    cursor.ack([(0, 1)])
    cursor.deliver(1, 2, holder=1)
    assert cursor.ready_set(entry) == AckSet(0b1100, 4)
    assert acks_left(cursor, entry) == AckSet(0b1110, 4)


def test_holes_are_what_hangs_back(cursor: Cursor) -> None:
    assert cursor.ack_holes(5) == []
    cursor.deliver(0, 2, holder=1)
    cursor.deliver(2, 3, holder=2)
    cursor.ack([(3, 5), (7, 8)])
    assert cursor.ack_holes(5) == [(0, 3), (5, 7)]
    assert cursor.ack_holes(1) == [(0, 3)]
    assert cursor.backlog == 7


# ── invariants ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("field", "ranges", "why"),
    [
        ("_ready", [(0, 10)], "an index in two states"),
        ("_ready", [(9, 11)], "in the backlog"),
        ("_returned", [(0, 1)], "returned"),
        ("_stale", [(0, 1)], "stale"),
    ],
)
def test_check_finds_a_broken_invariant(
    field: str, ranges: list[tuple[int, int]], why: str
) -> None:
    cursor = Cursor(0, 10)
    cursor.deliver(0, 2, holder=1)
    cursor.check()
    setattr(cursor, field, IndexRanges(ranges))
    with pytest.raises(AssertionError, match=why):
        cursor.check()


@pytest.mark.parametrize("part", ["_ready", "_returned", "_stale"])
def test_check_looks_into_every_set(part: str) -> None:
    cursor = Cursor(0, 10)
    getattr(cursor, part)._bounds.append(7)
    with pytest.raises(AssertionError):
        cursor.check()


def test_check_looks_into_the_parts() -> None:
    cursor = Cursor(0, 10)
    cursor.delay(0, 2, due_ms=100)
    cursor._delays._timetable.clear()
    with pytest.raises(AssertionError, match="timetable"):
        cursor.check()
    cursor = Cursor(0, 10)
    cursor.deliver(0, 2, holder=1)
    cursor._inflight._held[-5] = cursor._inflight._held.pop(1)
    with pytest.raises(AssertionError, match="holder -5"):
        cursor.check()


def test_counts_never_go_negative_unseen() -> None:
    cursor = Cursor(0, 10)
    cursor._ready.add(10, 12)
    with pytest.raises(AssertionError, match=r"12 \+ 0 \+ 0 in \[0, 10\)"):
        cursor.counts()


def test_what_came_back_or_was_sought_was_delivered_before() -> None:
    cursor = Cursor(0, 6)
    cursor.deliver(0, 4, 1)
    assert not any(cursor.was_delivered(index) for index in range(6))  # none of them is ready
    cursor.ack([(3, 4)], 1)
    cursor.release([(1, 2)], 1, count=True)
    assert [index for index in range(6) if cursor.was_delivered(index)] == [1]
    cursor.seek(0)
    assert [index for index in range(6) if cursor.was_delivered(index)] == [0, 1, 2, 3]
    cursor.deliver(0, 2, 2)
    assert [index for index in range(6) if cursor.was_delivered(index)] == [2, 3]


def test_what_nobody_delays_any_more_is_ready(cursor: Cursor) -> None:
    cursor.delay(0, 2, due_ms=100)
    cursor.delay(5, 7, due_ms=200)
    cursor.ack([(5, 6)])
    assert cursor.due(None) == 3
    assert cursor.counts() == Counts(ready=9, inflight=0, delayed=0, acked=1)
    assert cursor.next_due_ms is None
    cursor.check()


# ── acked in a transaction ────────────────────────────────────────────────────────────────────


def test_what_a_transaction_acks_is_taken_from_every_place(cursor: Cursor) -> None:
    """From two consumers, twice from one of them, from what is ready, and the very first message."""
    cursor.deliver(0, 2, holder=1)
    cursor.deliver(2, 4, holder=2)
    cursor.deliver(4, 6, holder=1)
    done = cursor.pend([(0, 3), (3, 8)])
    assert (done.count, done.taken) == (8, {1: 4, 2: 2})
    assert cursor.pended_within([(0, 10)]) == IndexRanges([(0, 8)])
    assert cursor.counts() == Counts(ready=2, inflight=8, delayed=0, acked=0)


@pytest.mark.parametrize("piece", [(-1, 1), (3, 3), (9, 11)])
def test_a_transaction_acks_nothing_that_is_not_there(
    cursor: Cursor, piece: tuple[int, int]
) -> None:
    with pytest.raises(IndexNotFound, match="the end is 10"):
        cursor.pend([piece])
