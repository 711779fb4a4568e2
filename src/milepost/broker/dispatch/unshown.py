"""What an ack does not speak for, though its ids name it: messages that its sender was not shown.

Messages of one batch part ways only where a transaction acks some of them: those are in no delivery while
it is open, and come again alone when it is aborted. The consumer that got the others acks the whole entry
when it is done with them, or the hidden ones with each of its own: official clients merge the set that came
with the delivery into the one they send. A cumulative ack is as blind, and an ack in a transaction. So what
a consumer was not shown is kept here, and what it gave to a transaction, until it is sent to that consumer.

An ack that names nothing else is taken at its word: that is how a message is acked by its id alone. So is one
that names nothing but what its sender was not shown and what it gave to a transaction, as to the latter.

Empty on a subscription that no transaction has acked on. A seek makes it empty: an ack of something older
changes nothing then.

    >>> unshown = Unshown(Cursor(0, 3)); unshown.begin(sent_to=[1, 2]); unshown.gave([(0, 1)], holder=1)
    >>> unshown.spoken_for(1, [(0, 3)]), unshown.spoken_for(1, [(0, 1)])
    ([(1, 3)], [(0, 1)])
    >>> unshown.spoken_for(2, [(0, 3)]), unshown.spoken_for(3, [(0, 3)])  # 2 was sent it, 3 nothing
    ([(0, 3)], [(1, 3)])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from milepost.broker.messages.ids_to_indexes import Meant, MeantEnd
from milepost.cursor.cursor import Cursor
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.spans import Span
from milepost.wire.events import Ack

# A set may have so many messages that are acked, and as many more as are not.
_SLACK: Final = 1024


class Unshown:
    __slots__ = ("_cursor", "_given", "_hidden", "_tidy_at", "in_use", "torn")

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.in_use = False
        """A transaction has acked something here since the last seek."""
        self.torn = IndexRanges()
        """What transactions have acked: they are open, or were aborted and the message is not acked yet."""
        # By holder: what was not sent to it, and what it gave to transactions and was not sent again. Both
        # may have what is acked by now, which no ack can change. One that was sent nothing is not here: all
        # that is torn was not sent to it. There may be thousands that wait for their turn.
        self._hidden: dict[int, IndexRanges] = {}
        self._given: dict[int, IndexRanges] = {}
        self._tidy_at: dict[int, int] = {}  # more hidden messages: forget those that are acked

    # -- what happens ------------------------------------------------------------------------------

    def begin(self, sent_to: Iterable[int]) -> None:
        """A transaction is about to ack something, the first since the last seek. `sent_to`: holders that
        may have it."""
        self.in_use = True
        for holder in sent_to:
            self._hidden[holder] = IndexRanges()

    def gave(self, ranges: Sequence[Range], holder: int, *, from_others: bool = False) -> None:
        """A consumer acks in a transaction. `from_others`: the cumulative acks of others could name it."""
        self._hidden_from(holder)
        torn = self.torn
        given = self._given.setdefault(holder, IndexRanges())
        for first, end in ranges:
            torn.add(first, end)
            given.add(first, end)
        if given.count > 2 * torn.count + _SLACK:
            self._given[holder] = given & torn
        if from_others and len(self._hidden) > 1:
            fresh = IndexRanges(ranges)
            for other in self._hidden:
                if other != holder:
                    self._hide(fresh, other)

    def recovered(self, ranges: Iterable[Range]) -> None:
        """A transaction that was open when the broker ended has acked these."""
        self.in_use = True
        for first, end in ranges:
            self.torn.add(first, end)

    def left(self, holder: int) -> None:
        """The consumer is gone."""
        for of_holder in (self._hidden, self._given, self._tidy_at):
            of_holder.pop(holder, None)

    def shown(self, ranges: Iterable[Range], holder: int) -> None:
        """These go to a consumer."""
        for marked in (self._hidden_from(holder), self._given.get(holder)):
            if marked:
                for first, end in ranges:
                    marked.discard(first, end)

    def shown_in_part(self, entry: Span, shown: Iterable[Range], holder: int) -> None:
        """Of the messages of an entry only some go to a consumer."""
        first, end = entry.first_index, entry.end_index
        if self.torn.next_range(first, end) is not None:  # else the others are acked
            rest = IndexRanges(shown).gaps(first, end)
            unacked = self._cursor.unacked_within
            unsent = IndexRanges(one for gap in rest for one in unacked(*gap))
            # What it holds of the entry was sent to it before: an ack does not say which delivery it answers.
            unsent.discard_all(self._cursor.inflight_within(holder, unsent))
            self._hide(unsent, holder)

    def settled(self, ranges: Iterable[Range]) -> None:
        """These are acked."""
        if self.torn:
            for first, end in ranges:
                self.torn.discard(first, end)

    def sought(self) -> None:
        """A new epoch began."""
        self.torn.clear()
        for of_holder in (self._hidden, self._given, self._tidy_at):
            of_holder.clear()
        self.in_use = False

    # -- what an ack means -------------------------------------------------------------------------

    def meant_by(self, holder: int, ack: Ack) -> Meant:
        """What a consumer means of what any id in its ack names."""
        return partial(self.spoken_for, holder, is_all=ack.window is None)

    def spoken_for(
        self, holder: int, named: Sequence[Range], *, is_all: bool = True
    ) -> Sequence[Range]:
        """What a consumer means, of the messages that one id in its ack names. `is_all`: the ack says
        nothing more of that entry elsewhere."""
        if hidden := self._hidden.get(holder, self.torn):
            left = _outside(hidden, named)
            if is_all and not left:  # it names nothing else
                is_single = sum([end - first for first, end in named]) == 1
                # Of a batch, what is with a transaction was in no delivery.
                return named if is_single else _outside(self._cursor.pended_within(named), named)
            named = left
        if given := self._given.get(holder):
            left = _outside(given, named)
            return left if left or not is_all else named
        return named

    def end_meant_by(self, holder: int) -> MeantEnd:
        """The same of a cumulative ack."""
        return partial(self.spoken_end, holder)

    def spoken_end(self, holder: int, first: int, end: int) -> int:
        """Behind the last message that a consumer means, of those that the id of a cumulative ack names in
        its entry: clients name the whole entry when nothing that they were shown is left behind it."""
        named = [(first, end)] if first < end else []
        meant = self.spoken_for(holder, named)
        return meant[-1][1] if meant else end

    def hidden_below(self, end: int, holder: int) -> IndexRanges | None:
        """What a cumulative ack of a consumer does not mean, which ends at `end` (`spoken_end`); None: it
        means everything."""
        hidden = self._hidden.get(holder, self.torn)
        if not hidden or end - 1 in hidden or hidden.next_range(0, end) is None:
            return None
        return hidden

    def _hidden_from(self, holder: int) -> IndexRanges:
        """What was not sent to a consumer: from now on a set of its own."""
        hidden = self._hidden.get(holder)
        if hidden is None:
            hidden = self._hidden[holder] = self.torn.copy()
        return hidden

    def _hide(self, ranges: IndexRanges, holder: int) -> None:
        hidden = self._hidden_from(holder)
        hidden.add_all(ranges)
        if hidden.count > self._tidy_at.get(holder, _SLACK):
            within = self._cursor.unacked_within
            self._hidden[holder] = left = IndexRanges(one for gap in hidden for one in within(*gap))
            self._tidy_at[holder] = 2 * left.count + _SLACK


def _outside(marked: IndexRanges, ranges: Sequence[Range]) -> Sequence[Range]:
    """What of these ranges is not marked."""
    return [gap for first, end in ranges for gap in marked.gaps(first, end)]
