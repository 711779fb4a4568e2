"""How acks reach the disk: those of one turn of the loop become one fact of the journal.

Clients send acks in bursts; each is applied to the cursor at once and answered when it is durable. All
that arrive in one turn of the loop become one journal record.

When the journal refuses a fact, the cursor has changed all the same: memory is ahead of the disk. The
next fact takes the whole state with it (`Store.fact`); until one is durable, nothing is answered from
memory, or an ack that is sent again would be answered and yet be forgotten by a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.cursor import facts
from milepost.errors import MilepostError, PersistenceError
from milepost.positions.ranges import IndexRanges, Range

if TYPE_CHECKING:
    from milepost.storage.interface import Store

Done = Callable[[PersistenceError | None], None]


class AckJournal:
    def __init__(self, journal: Store, state_id: int, schedule: Callable[[], None]) -> None:
        """`schedule` asks for `Subscription.flush_acks` in the next turn of the loop."""
        self.state_id = state_id
        self._schedule = schedule
        self._journal = journal
        self.noted: list[Range] = []
        """What was acked since the last flush."""
        # The same of what very many ranges have.
        self._noted_sets: list[IndexRanges] = []
        self._answers: list[Callable[[MilepostError | None], None]] = []
        self._is_scheduled = False
        # Flushes and other facts that are not on disk yet. An ack of what a seek has left behind is answered
        # behind the seek: a crash that forgets the one forgets the other.
        self._waiting = 0
        self.is_behind = journal.is_unfounded(state_id)
        """The disk refused something that is true in memory, and nothing later is durable yet."""

    def note(self, ranges: Sequence[Range]) -> None:
        """These indexes were acked and must become durable."""
        self.noted += ranges
        if not self._is_scheduled:
            self._ask()

    def note_set(self, indexes: IndexRanges) -> None:
        """The same of very many."""
        self._noted_sets.append(indexes)
        if not self._is_scheduled:
            self._ask()

    def when_durable(self, done: Callable[[MilepostError | None], None]) -> None:
        """Call `done` when everything noted so far is on disk; at once if it is."""
        if self.noted or self._noted_sets or self._waiting or self.is_behind:
            self._answers.append(done)
            if not self._is_scheduled:
                self._ask()
        else:
            done(None)

    def _ask(self) -> None:
        self._is_scheduled = True
        self._schedule()

    def flush(self, epoch: int) -> None:
        """Journal what was noted, in the epoch in which it was acked, and then answer."""
        self._is_scheduled = False
        ranges, self.noted = self.noted, []
        answers, self._answers = self._answers, []
        sets, self._noted_sets = self._noted_sets, []
        if not ranges and not sets and not answers:
            return
        self._waiting += 1

        def durable(error: PersistenceError | None) -> None:
            self._waiting -= 1
            for answer in answers:
                answer(error)

        if sets:
            acked = IndexRanges(ranges)
            for one in sets:
                acked.add_all(one)
            self._submit(facts.encode(facts.AckFact(epoch, acked)), durable)
        elif not ranges and not self.is_behind:
            # Nothing new, but an earlier fact is on its way: answer behind it.
            self._journal.barrier(durable)
        elif len(ranges) == 1:
            self._submit(facts.encode_ack_range(epoch, *ranges[0]), durable)
        else:
            self._submit(facts.encode_ack(epoch, ranges), durable)

    def fact(self, fact: facts.Fact, done: Done) -> None:
        """Journal a fact of another kind, which is true of the cursor already."""
        self._waiting += 1

        def durable(error: PersistenceError | None) -> None:
            self._waiting -= 1
            done(error)

        self._submit(facts.encode(fact), durable)

    def fact_to_come(self, fact: facts.Fact, done: Done) -> None:
        """Journal a fact that becomes true of the cursor when `done` is called."""
        self._journal.fact_to_come(self.state_id, facts.encode(fact), self._heard(done))

    def beside(self, state_id: int, fact: bytes, done: Done) -> None:
        """Journal a fact of another state that is told of this subscription."""
        self._journal.fact(state_id, fact, done)

    def _submit(self, fact: bytes, done: Done) -> None:
        self._journal.fact(self.state_id, fact, self._heard(done))

    def _heard(self, done: Done) -> Done:
        def durable(error: PersistenceError | None) -> None:
            self.is_behind = error is not None
            done(error)

        return durable
