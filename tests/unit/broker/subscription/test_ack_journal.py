"""AckJournal: one fact for the acks of a turn, answers behind it, and nothing answered from memory alone."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.subscription.ack_journal import AckJournal, Done
from milepost.cursor import facts
from milepost.cursor.facts import AckFact, SeekFact
from milepost.errors import PersistenceError
from milepost.positions.ranges import IndexRanges

REFUSED = PersistenceError("full")


class Journal:
    """What is submitted waits until the test says how it went."""

    def __init__(self) -> None:
        self.submitted: list[tuple[facts.Fact | str, Done]] = []

    def fact(self, state_id: int, fact: bytes, done: Done) -> int:
        assert state_id == 7
        self.submitted.append((facts.decode(fact), done))
        return len(self.submitted)

    def barrier(self, done: Done) -> None:
        self.submitted.append(("barrier", done))

    def is_unfounded(self, state_id: int) -> bool:
        return False

    def answer(self, error: PersistenceError | None = None) -> facts.Fact | str:
        fact, done = self.submitted.pop(0)
        done(error)
        return fact


class Bench:
    def __init__(self) -> None:
        self.journal = Journal()
        self.acks = AckJournal(self.journal, 7, self._schedule)
        self.scheduled = 0
        self.answers: list[Any] = []

    def _schedule(self) -> None:
        self.scheduled += 1

    def ack(self, *ranges: tuple[int, int], name: str = "ack") -> None:
        """An ack that did something (or nothing), and asks for an answer."""
        if ranges:
            self.acks.note(ranges)
        self.acks.when_durable(lambda error: self.answers.append((name, error)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_acks_of_a_turn_are_one_fact(bench: Bench) -> None:
    bench.ack((0, 2), name="a")
    bench.ack((5, 6), (2, 3), name="b")
    assert bench.scheduled == 1
    assert not bench.journal.submitted
    bench.acks.flush(epoch=3)
    assert bench.answers == []
    assert bench.journal.answer() == AckFact(3, IndexRanges([(0, 3), (5, 6)]))
    assert bench.answers == [("a", None), ("b", None)]
    assert not bench.journal.submitted


def test_the_next_turn_is_the_next_fact(bench: Bench) -> None:
    bench.ack((0, 1))
    bench.acks.flush(0)
    bench.ack((1, 2))
    assert bench.scheduled == 2
    bench.acks.flush(0)
    assert [bench.journal.answer() for _ in range(2)] == [
        AckFact(0, IndexRanges([(0, 1)])),
        AckFact(0, IndexRanges([(1, 2)])),
    ]


def test_an_ack_that_changes_nothing_is_answered_at_once(bench: Bench) -> None:
    bench.ack()
    assert bench.answers == [("ack", None)]
    assert bench.scheduled == 0


def test_an_ack_that_changes_nothing_waits_behind_one_that_does(bench: Bench) -> None:
    """What it repeats may be on its way only."""
    bench.ack((0, 1), name="first")
    bench.acks.flush(0)
    bench.ack(name="again")
    bench.acks.flush(0)
    assert [fact for fact, _ in bench.journal.submitted] == [
        AckFact(0, IndexRanges([(0, 1)])),
        "barrier",
    ]
    bench.journal.answer()
    assert bench.answers == [("first", None)]
    bench.journal.answer()
    assert bench.answers == [("first", None), ("again", None)]
    bench.ack(name="once more")
    assert bench.answers[-1] == ("once more", None)


def test_an_ack_in_the_same_turn_waits_for_its_fact(bench: Bench) -> None:
    bench.ack((0, 1), name="first")
    bench.ack(name="again")
    bench.acks.flush(0)
    assert bench.answers == []
    bench.journal.answer()
    assert bench.answers == [("first", None), ("again", None)]


def test_acks_without_a_request_are_journaled_all_the_same(bench: Bench) -> None:
    bench.acks.note([(4, 9)])
    assert bench.scheduled == 1
    bench.acks.flush(1)
    assert bench.journal.answer() == AckFact(1, IndexRanges([(4, 9)]))


def test_a_flush_of_nothing_writes_nothing(bench: Bench) -> None:
    bench.acks.flush(0)
    assert not bench.journal.submitted


def test_a_refusal_is_the_answer_of_all_that_waited(bench: Bench) -> None:
    bench.ack((0, 1), name="a")
    bench.ack(name="b")
    bench.acks.flush(0)
    bench.journal.answer(REFUSED)
    assert bench.answers == [("a", REFUSED), ("b", REFUSED)]


def test_an_ack_sent_again_after_a_refusal_is_written_before_it_is_answered(bench: Bench) -> None:
    """The cursor has it, the disk has not: a crash would deliver the message again."""
    bench.ack((0, 1))
    bench.acks.flush(0)
    bench.journal.answer(REFUSED)
    bench.answers.clear()
    bench.ack(name="again")
    assert bench.answers == []
    assert bench.scheduled == 2
    bench.acks.flush(0)
    assert bench.answers == []
    assert isinstance(bench.journal.answer(), AckFact)  # of nothing: the store adds the whole state
    assert bench.answers == [("again", None)]
    bench.ack(name="at last")
    assert bench.answers[-1] == ("at last", None)


def test_an_ack_of_what_a_seek_left_behind_waits_for_the_seek(bench: Bench) -> None:
    """A crash that forgets the seek brings the message back: until then the ack is not durable."""
    outcomes: list[Any] = []
    bench.acks.fact(SeekFact(1, 4, IndexRanges()), outcomes.append)
    bench.ack(name="ack")
    bench.acks.flush(1)
    assert bench.answers == []
    bench.journal.answer()
    assert outcomes == [None]
    bench.journal.answer()
    assert bench.answers == [("ack", None)]
    bench.ack(name="at once")
    assert bench.answers[-1] == ("at once", None)


def test_a_refused_seek_makes_acks_wait_too(bench: Bench) -> None:
    outcomes: list[Any] = []
    bench.acks.fact(SeekFact(1, 0, IndexRanges()), outcomes.append)
    bench.journal.answer(REFUSED)
    assert outcomes == [REFUSED]
    bench.ack(name="ack")
    bench.acks.flush(1)
    bench.journal.answer(REFUSED)
    assert bench.answers == [("ack", REFUSED)]
    bench.acks.fact(SeekFact(2, 0, IndexRanges()), outcomes.append)
    bench.journal.answer()
    bench.ack(name="caught up")
    assert bench.answers[-1] == ("caught up", None)


@pytest.mark.parametrize("ranges", [[(3, 4), (3, 8)], [(3, 8), (3, 4)], [(3, 5), (3, 8), (3, 4)]])
def test_of_acks_that_begin_alike_the_longest_is_journalled(ranges: list[tuple[int, int]]) -> None:
    bench = Bench()
    for one in ranges:
        bench.ack(one)
    bench.acks.flush(0)
    assert bench.journal.answer() == AckFact(0, IndexRanges([(3, 8)]))
