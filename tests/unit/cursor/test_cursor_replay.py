"""A cursor from its facts: what the journal says comes true again, once and for all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.cursor.cursor import Cursor
from milepost.cursor.facts import AckFact, DeliveryFact, Fact, SeekFact, TrimFact
from milepost.cursor.outcomes import Acked
from milepost.errors import CorruptData
from milepost.positions.ranges import IndexRanges
from milepost.positions.spans import Span


@pytest.fixture
def cursor() -> Iterator[Cursor]:
    """Ten messages, all ready; whatever a test does to it, its invariants hold."""
    cursor = Cursor(0, 10)
    yield cursor
    cursor.check()


def test_facts_bring_a_cursor_back(cursor: Cursor) -> None:
    replayed = Cursor(0, 10)
    cursor.deliver(0, 6, holder=1)
    first_ack = AckFact(0, IndexRanges(cursor.ack([(0, 2), (4, 5)], holder=1).ranges))
    sought = cursor.seek(1)
    cursor.deliver(1, 3, holder=1)
    second_ack = AckFact(1, IndexRanges(cursor.ack([(1, 2)], holder=1).ranges))
    cursor.trim(1)
    facts = [first_ack, sought, second_ack, TrimFact(1, 1)]
    for fact in facts + facts:
        replayed.replay(fact)
    assert replayed.backlog_ranges() == cursor.backlog_ranges()
    assert (replayed.first, replayed.epoch, replayed.mark_delete_index) == (1, 1, 1)
    # The second delivery of index 2 was not journaled: its ack would be ignored.
    assert [replayed.is_stale(index) for index in (2, 5, 6)] == [True, True, False]


def test_an_ack_of_an_older_epoch_is_dropped(cursor: Cursor) -> None:
    cursor.seek(0)
    cursor.replay(AckFact(0, IndexRanges([(0, 5)])))
    assert cursor.backlog == 10


def test_a_fact_of_an_epoch_that_never_began_is_damage(cursor: Cursor) -> None:
    for fact in (AckFact(2, IndexRanges([(0, 5)])), DeliveryFact(2, IndexRanges([(0, 5)]))):
        with pytest.raises(CorruptData, match="a fact of epoch 2, but no seek after 0"):
            cursor.replay(fact)
    assert cursor.backlog == 10


def test_a_seek_that_is_known_is_dropped(cursor: Cursor) -> None:
    fact = cursor.seek(3)
    cursor.ack([(3, 5)])
    cursor.replay(fact)
    assert (cursor.epoch, cursor.mark_delete_index) == (1, 4)


def test_a_replayed_ack_is_not_judged_again(cursor: Cursor) -> None:
    """The delivery that made it good is not in the journal."""
    cursor.deliver(0, 5, holder=1)
    cursor.seek(0)
    cursor.replay(AckFact(1, IndexRanges([(2, 3)])))
    assert cursor.is_acked(Span(2, 1))
    assert not cursor.is_stale(2)
    cursor.check()


@pytest.mark.parametrize(
    "fact",
    [
        AckFact(0, IndexRanges([(11, 15)])),
        SeekFact(1, 15, IndexRanges()),
        SeekFact(1, 3, IndexRanges([(5, 15)])),
        TrimFact(0, 15),
        DeliveryFact(0, IndexRanges([(12, 15)])),
    ],
    ids=str,
)
def test_a_fact_proves_that_its_indexes_exist(cursor: Cursor, fact: Fact) -> None:
    cursor.replay(fact)
    cursor.check()
    assert cursor.end == 15


def test_what_may_have_been_delivered_before_a_crash_is_stale_behind_a_seek() -> None:
    cursor = Cursor(0, 6)
    cursor.unsure_end = 4
    assert cursor.ack([(0, 1)]).count == 1  # without a seek there is nothing that it could undo
    assert cursor.seek(0).stale == IndexRanges([(0, 4)])
    assert cursor.ack([(2, 6)])[:2] == (2, 2)


def test_after_a_crash_what_was_delivered_again_may_still_be_acked(cursor: Cursor) -> None:
    cursor.deliver(0, 6, holder=1)
    sought = cursor.seek(0)
    delivered = cursor.deliver(0, 3, holder=2)
    assert delivered.stale == [(0, 3)]
    crashed = Cursor(0, 10)
    crashed.replay(sought)
    crashed.replay(DeliveryFact(1, IndexRanges(delivered.ranges)))
    crashed.check()
    assert crashed.ack([(0, 6)]) == Acked(3, 3, {}, [(0, 3)])


def test_a_replayed_delivery_is_remembered_by_the_next_seek(cursor: Cursor) -> None:
    assert cursor.deliver(0, 3, holder=2).stale == []
    crashed = Cursor(0, 10)
    crashed.ack([(1, 2)])
    crashed.replay(DeliveryFact(0, IndexRanges([(0, 3)])))
    crashed.check()
    assert crashed.seek(0).stale == IndexRanges([(0, 3)])


def test_a_delivery_of_an_older_epoch_is_dropped(cursor: Cursor) -> None:
    cursor.deliver(0, 3, holder=2)
    cursor.seek(0)
    cursor.replay(DeliveryFact(0, IndexRanges([(0, 3)])))
    assert cursor.is_stale(0)


def test_a_replayed_seek_to_what_was_trimmed_since(cursor: Cursor) -> None:
    cursor.trim(6)
    cursor.replay(SeekFact(1, 2, IndexRanges([(2, 8)])))
    cursor.check()
    assert (cursor.epoch, cursor.next_ready()) == (1, (6, 10))
    assert [cursor.is_stale(index) for index in (6, 7, 8)] == [True, True, False]


def test_a_fact_may_be_replayed_into_two_cursors() -> None:
    fact = SeekFact(1, 0, IndexRanges([(0, 5)]))
    one, other = Cursor(0, 10), Cursor(0, 10)
    one.replay(fact)
    one.deliver(0, 5, holder=1)
    other.replay(fact)
    assert other.is_stale(3)
