"""The cursor: every transition of ready, inflight and acked. Every transition is in this file.

Theory
======

Indexes below `first` are not retained, those from `end` on do not exist yet. Each index between is in
exactly one state:

            extend                deliver
    (new) ─────────▶  ready  ◀──────────────▶  inflight
                        │        release          │
                        └──────▶  acked  ◀────────┘         ack, ack_up_to, skip, trim
                                    │
                        ready ◀─────┘                       seek, and only seek

`ready` is with no consumer, `inflight` is with a consumer and has no verdict yet, `acked` is done. The sets
`ready` and `inflight` are stored, `acked` is what remains. A seek puts every index anew: acked below
its target, ready from there on. A ready index that is not due yet is *delayed*: kept and counted
apart, never delivered, due by `due(now_ms)`. A ready index that dispatch looked at and no consumer may have
now is *set aside* until it is called back; one that must wait for others of the same message is *withheld*
until it is admitted. Both count as ready, and no search for the next ready index meets them, however many
there are. What Pulsar calls mark-delete position, individual acks
and batch ack sets, and RocketMQ consumer offset, ready and inflight counts, are views of this one
partition, so they cannot disagree.

Epochs and late acks. `epoch` counts the seeks. An ack carries no epoch, so it is judged by what the
cursor remembers of the index it names. After a seek, an index that had been delivered or acked before
and was not delivered since is *stale*: an ack of it was sent for an older delivery and changes nothing
(it is still answered). A cumulative ack is judged by its own index, the last one it covers; if that is
stale all of it is ignored. An index never seen before is not stale, and may be acked out of the blue.

Redelivery counts belong to indexes, not to entries: acking one message of a batch leaves the counts
of its siblings alone. An entry is delivered with the highest count of what is not acked in it.

What survives a restart. Acks, seeks and trims do, exactly: each is a fact (facts.py) that is on disk
before the answer leaves. A delivery of stale indexes is a fact too, or their acks would be ignored
after a crash; any other delivery may be one. What no fact says is as of the last snapshot
(snapshot.py): redelivery counts, and which ready indexes have been with a consumer. Inflight comes
back as ready.

The cursor knows no entry, no message id, no time but what it is given, and no file.

    >>> cursor = Cursor(first=0, end=10)
    >>> cursor.deliver(0, 5, holder=1).count, cursor.ack([(0, 2), (3, 4)], holder=1).count
    (5, 3)
    >>> cursor.counts(), cursor.mark_delete_index, cursor.ack_holes(limit=9)
    (Counts(ready=5, inflight=2, delayed=0, acked=3), 1, [(2, 3)])
    >>> cursor.seek(0).epoch, cursor.ack([(4, 5)]).ignored, cursor.ack([(9, 10)]).count
    (1, 1, 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from milepost.cursor.delays import Delays
from milepost.cursor.facts import DeliveryFact, Fact, SeekFact, TrimFact
from milepost.cursor.inflight import Inflight
from milepost.cursor.outcomes import Acked, Counts, Delivered, Released
from milepost.cursor.redeliveries import RedeliveryCounts
from milepost.cursor.state import CursorState
from milepost.cursor.strip import Strip
from milepost.errors import CorruptData, IndexNotFound, InvalidRange
from milepost.positions.ackset import AckSet
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.spans import INDEX_MAX, Span

# The holder of an ack that comes from no consumer (an operator, Spark, a member of no session).
# Real holders are small numbers from 0, one a consumer session, given by the broker.
NO_HOLDER = -1

# The holder of what transactions have acked that have not ended yet.
TRANSACTIONS = 2**62


class Cursor:
    """Ready, inflight and acked indexes of one subscription. Only its verbs change it."""

    __slots__ = (
        "_aside",
        "_delays",
        "_inflight",
        "_ready",
        "_redeliveries",
        "_returned",
        "_stale",
        "_withheld",
        "end",
        "epoch",
        "first",
        "unsure_end",
    )

    # The first retained index; rises by trim.  Invariant: 0 <= first <= end.
    first: int

    # The first index that is not durable yet; rises by extend.
    end: int

    # How many seeks there were.  Invariant: never falls.
    epoch: int

    # Where the indexes end that a process before this one may have delivered without a fact.
    unsure_end: int

    # Ready and due.  Invariant: ready, set aside, withheld, delayed and inflight indexes are disjoint and
    # inside [first, end); together they are the backlog, the rest of [first, end) is acked.
    _ready: IndexRanges

    # Ready and due, but dispatch found that no consumer may have them now.
    _aside: IndexRanges

    # Ready and due, but waiting for others of the same message.
    _withheld: IndexRanges

    # Ready and not due.
    _delays: Delays

    # With a consumer.
    _inflight: Inflight

    # Ready indexes that were with a consumer in this epoch: a seek makes them stale.
    # Invariant: inside ready, set aside, withheld and delayed.
    _returned: IndexRanges

    # Indexes delivered or acked before the last seek and not delivered since.
    # Invariant: inside ready, set aside, withheld and delayed, apart from `_returned`.
    _stale: IndexRanges

    # How often an index was released.  Invariant: not zero only inside returned and inflight.
    _redeliveries: RedeliveryCounts

    def __init__(self, first: int = 0, end: int = 0, *, at: int | None = None) -> None:
        """A new subscription at index `at`: what is below is acked. By default all is ready."""
        at = first if at is None else at
        if not 0 <= first <= at <= end <= INDEX_MAX:
            raise InvalidRange(f"a cursor at {at} of [{first}, {end})")
        self.first, self.end, self.epoch, self.unsure_end = first, end, 0, 0
        self._ready = IndexRanges([(at, end)])
        self._aside = IndexRanges()
        self._withheld = IndexRanges()
        self._delays = Delays()
        self._inflight = Inflight()
        self._returned = IndexRanges()
        self._stale = IndexRanges()
        self._redeliveries = RedeliveryCounts()

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────

    def extend(self, end: int) -> int:
        """New entries are durable: everything up to `end` exists. How many indexes are new."""
        if not self.end <= end <= INDEX_MAX:
            raise InvalidRange(f"the end went from {self.end} to {end}")
        added = self._ready.add(self.end, end)
        self.end = end
        return added

    def deliver(self, first: int, end: int, holder: int) -> Delivered:
        """Ready → inflight with `holder`, for what of `[first, end)` is ready and due."""
        if not 0 <= first < end:
            raise InvalidRange(f"a delivery of [{first}, {end})")
        ready = self._ready
        ranges: Sequence[Range]
        # One message is in the set or is not: there is no need to ask first.
        if end - first == 1 or ready.covers(first, end):
            ranges = ((first, end),)
        else:
            ranges = list(ready.within(first, end))
        count = 0
        stale: list[Range] = []
        for first, end in ranges:
            if not (removed := ready.discard(first, end)):
                return Delivered(0, (), ())
            count += removed
            self._inflight.add(first, end, holder)
            if self._returned.count:
                self._returned.discard(first, end)
            if self._stale.count:
                stale += self._stale.within(first, end)
                self._stale.discard(first, end)
        return Delivered(count, ranges, stale)

    def ack(self, ranges: Sequence[Range], holder: int = NO_HOLDER) -> Acked:
        """Ready or inflight → acked. `holder` says who speaks, and is where to look first; what is
        with others, or with no consumer, is acked just as well. Stale indexes are ignored."""
        for first, end in ranges:
            if not 0 <= first < end:
                raise InvalidRange(f"an ack of [{first}, {end})")
            if end > self.end:
                raise IndexNotFound(f"an ack of [{first}, {end}), the end is {self.end}")
        count = ignored = 0
        stale = self._stale
        if stale.count:
            ignored = sum(stale.count_within(first, end) for first, end in ranges)
            if ignored:
                ranges = [gap for first, end in ranges for gap in stale.gaps(first, end)]
        taken: dict[int, int] = {}
        for first, end in ranges:
            count += self._settle(first, end, holder, taken)
        return Acked(count, ignored, taken, ranges if count else ())

    def ack_up_to(self, end: int, holder: int = NO_HOLDER) -> Acked:
        """A cumulative ack: everything below `end` → acked, individual acks above stay (trap 12).

        Its own index is `end − 1`. When that is stale the ack was meant for an older epoch."""
        if end > self.end:
            raise IndexNotFound(f"a cumulative ack up to {end}, the end is {self.end}")
        if self._stale.count and end - 1 in self._stale:
            return Acked(0, self._stale.count_within(self.first, end), {}, ())
        return self.skip(end, holder)

    def skip(self, end: int, holder: int = NO_HOLDER) -> Acked:
        """Everything below `end` → acked, stale or not: it expired, or an operator says so."""
        lowest = self._lowest_in_backlog()
        if lowest is None or lowest >= end:
            return Acked(0, 0, {}, ())
        taken: dict[int, int] = {}
        return Acked(self._settle(lowest, end, holder, taken), 0, taken, ((lowest, end),))

    def skip_ranges(self, ranges: Sequence[Range], holder: int = NO_HOLDER) -> Acked:
        """These → acked, stale or not: a cumulative ack that leaves out what ends later."""
        taken: dict[int, int] = {}
        count = sum(self._settle(first, end, holder, taken) for first, end in ranges)
        return Acked(count, 0, taken, ranges if count else ())

    def skip_set(self, indexes: IndexRanges) -> Acked:
        """The same of very many, which nothing below counts one by one: `ranges` is empty."""
        taken: dict[int, int] = {}
        count = self._inflight.take_set(indexes, None, taken).count
        for waiting in (self._ready, self._aside, self._withheld):
            count += waiting.discard_all(indexes)
        for one in list(self._delays.indexes & indexes):
            count += self._delays.discard(*one)
        self._returned.discard_all(indexes)
        self._stale.discard_all(indexes)
        self._redeliveries.forget_all(indexes)
        return Acked(count, 0, taken, ())

    def release(
        self, ranges: Sequence[Range], holder: int | None = None, *, count: bool
    ) -> Released:
        """Inflight → ready: a negative ack or a redeliver command. With a `holder`, only what is
        with it. With `count`, each redelivery count grows by one."""
        taken: dict[int, int] = {}
        released = self._inflight.take_ranges(ranges, holder, taken)
        self._return(released, count)
        return Released(released.count, taken)

    def release_holder(self, holder: int, *, count: bool) -> Released:
        """Inflight → ready for all that is with a consumer that is gone.

        Upstream does not count that as a redelivery, so that a message which kills its consumers
        never reaches a dead-letter topic; `count` is for those who want it to."""
        released = self._inflight.take_all(holder)
        self._return(released, count)
        return Released(released.count, {holder: released.count} if released else {})

    def pend(self, ranges: Sequence[Range], holder: int = NO_HOLDER) -> Acked:
        """Anything not acked → inflight with `TRANSACTIONS`: a transaction acked it and has not ended.
        Its commit acks it, its abort releases it, a seek forgets it. `holder` is where to look first.
        Stale indexes are ignored."""
        count = ignored = 0
        taken: dict[int, int] = {}
        pended: list[Range] = []
        for first, end in ranges:
            if not 0 <= first < end <= self.end:
                raise IndexNotFound(f"an ack of [{first}, {end}), the end is {self.end}")
            if self._inflight.holds(holder, first, end):
                count += self._inflight.take_from(holder, first, end, taken)
                self._inflight.add(first, end, TRANSACTIONS)
                pended.append((first, end))
                continue
            ignored += self._stale.count_within(first, end)
            took: dict[int, int] = {}
            found = self._inflight.take_ranges([(first, end)], None, took)
            for one, lost in took.items():
                taken[one] = taken.get(one, 0) + lost
            for waiting in (self._ready, self._aside, self._withheld, self._delays.indexes):
                for piece in list(waiting.within(first, end)):
                    found.add(*piece)
            found.discard_all(self._stale)
            for piece in found:
                for waiting in (self._ready, self._aside, self._withheld):
                    waiting.discard(*piece)
                self._delays.discard(*piece)
                self._returned.discard(*piece)
                self._inflight.add(*piece, TRANSACTIONS)
                count += piece[1] - piece[0]
                pended.append(piece)
        taken.pop(TRANSACTIONS, None)
        return Acked(count, ignored, taken, pended)

    def holds(self, holder: int, first: int, end: int) -> bool:
        """Whether all of `[first, end)` is inflight with a consumer."""
        return self._inflight.holds(holder, first, end)

    def pended_within(self, ranges: Sequence[Range]) -> IndexRanges:
        """What of these is acked by a transaction that has not ended."""
        return self._inflight.within(TRANSACTIONS, IndexRanges(ranges))

    def withdraw(self, indexes: IndexRanges, holder: int) -> int:
        """Inflight → ready and stale again, for stale indexes whose delivery never left; how many."""
        withdrawn = self._inflight.take_ranges(indexes, holder, {})
        self._ready.add_all(withdrawn)
        return self._stale.add_all(withdrawn)

    def delay(self, first: int, end: int, due_ms: int) -> int:
        """Ready → delayed until `due_ms`; how many. An index already delayed keeps its time."""
        delayed = list(self._ready.within(first, end))
        for first, end in delayed:
            self._ready.discard(first, end)
            self._delays.add(first, end, due_ms)
        return sum(end - first for first, end in delayed)

    def due(self, now_ms: int | None, lines_max: int | None = None) -> int:
        """Delayed → ready for what is due, or all; how many. The limit is one of calls of `delay`."""
        return sum(self._ready.add(*one) for one in self._delays.take_due(now_ms, lines_max))

    def set_aside(self, first: int, end: int) -> int:
        """Ready → set aside, for what of `[first, end)` no consumer may have now; how many."""
        return _move(self._ready, self._aside, first, end)

    def call_back(self, first: int, end: int) -> int:
        """Set aside → ready, for what of `[first, end)` is to be looked at again; how many."""
        return _move(self._aside, self._ready, first, end)

    def call_all_back(self) -> int:
        """Set aside → ready, all of it; how many."""
        called = self._ready.add_all(self._aside)
        self._aside.clear()
        return called

    def withhold(self, first: int, end: int) -> int:
        """Ready → withheld, for what of `[first, end)` must wait for others; how many."""
        return _move(self._ready, self._withheld, first, end)

    def admit(self, first: int, end: int) -> int:
        """Withheld → ready, for what of `[first, end)` need not wait any more; how many."""
        return _move(self._withheld, self._ready, first, end)

    def seek(self, index: int) -> SeekFact:
        """Below `index` → acked, the rest → ready, nothing inflight; the next epoch begins.

        An index no longer retained means the first that is; `end` means skip everything."""
        if not 0 <= index <= self.end:
            raise IndexNotFound(f"a seek to {index} in [{self.first}, {self.end})")
        index = max(index, self.first)
        # Whatever does not wait has been with a consumer, or was acked; and some of what waits.
        stale = IndexRanges()
        if not self._ready.covers(index, self.end):
            stale.add(index, self.end)
            for waiting in (self._ready, self._aside, self._withheld, self._delays.indexes):
                stale.discard_all(waiting)
        for seen in (self._returned, self._stale):
            stale.add_all(seen)
        if stale.count:
            stale.discard(0, index)
        if index < self.unsure_end:
            stale.add(index, min(self.unsure_end, self.end))
        fact = SeekFact(self.epoch + 1, index, stale)
        self._begin_epoch(fact)
        return fact

    def trim(self, index: int) -> Acked:
        """Below `index` → acked and no longer retained. To be journaled as a `TrimFact`; or as an
        ack, by a broker whose log says at every start where it begins."""
        if not 0 <= index <= self.end:
            raise IndexNotFound(f"a trim to {index}, the end is {self.end}")
        if index <= self.first:
            return Acked(0, 0, {}, ())
        acked = self.skip(index)
        self.first = index
        return acked

    def replay(self, fact: Fact) -> None:
        """Make a journaled fact true again. Twice is as good as once, and what a snapshot has
        already may come again; but the order must be the journal's.

        A fact that names an index past the end proves that it exists.
        """
        if isinstance(fact, TrimFact):
            self.extend(max(self.end, fact.index))
            self.trim(fact.index)
        elif isinstance(fact, SeekFact):
            if fact.epoch > self.epoch:
                self.extend(max(self.end, fact.index, fact.stale.end or 0))
                index = max(fact.index, self.first)
                stale = fact.stale.copy()
                stale.discard(0, index)
                self._begin_epoch(SeekFact(fact.epoch, index, stale))
        elif fact.epoch > self.epoch:
            raise CorruptData(f"a fact of epoch {fact.epoch}, but no seek after {self.epoch}")
        elif fact.epoch == self.epoch:
            self.extend(max(self.end, fact.ranges.end or 0))
            for first, end in fact.ranges:
                if isinstance(fact, DeliveryFact):
                    self._stale.discard(first, end)
                    for waiting in (self._ready, self._aside, self._withheld):
                        for piece in waiting.within(first, end):
                            self._returned.add(*piece)
                else:
                    self._settle(first, end, NO_HOLDER, {})

    # ── views ─────────────────────────────────────────────────────────────────────────────────

    def counts(self) -> Counts:
        """All four numbers at one moment."""
        ready = self._ready.count + self._aside.count + self._withheld.count
        delayed = self._delays.indexes.count
        inflight = self._inflight.count
        acked = self.end - self.first - ready - delayed - inflight
        assert acked >= 0, f"{ready} + {inflight} + {delayed} in [{self.first}, {self.end})"
        return Counts(ready, inflight, delayed, acked)

    @property
    def backlog(self) -> int:
        """How many messages are not acked."""
        ready, inflight, delayed, _ = self.counts()
        return ready + inflight + delayed

    @property
    def mark_delete_index(self) -> int:
        """The last index with everything up to it acked; `first − 1` if the first one is not."""
        lowest = self._lowest_in_backlog()
        return (self.end if lowest is None else lowest) - 1

    @property
    def first_ready(self) -> int | None:
        """The first index that is with no consumer and due, set aside and withheld ones too."""
        firsts = (self._ready.first, self._aside.first, self._withheld.first)
        return min((first for first in firsts if first is not None), default=None)

    @property
    def aside_count(self) -> int:
        """How many of the ready messages are set aside."""
        return self._aside.count

    @property
    def aside_end(self) -> int:
        """Behind the last index that is set aside; 0 if none is."""
        return self._aside.end or 0

    def next_ready(self, index: int = 0, limit: int | None = None) -> Range | None:
        """The next range at or after `index` that can be delivered, cut to `limit` indexes. What is set
        aside or withheld cannot.

        From the front on, what was released comes before what was never delivered."""
        if limit is None:
            return self._ready.next_range(index)
        found = self._ready.next_index(index)
        return None if found is None else (found, self._ready.next_absent(found, found + limit))

    def is_ready(self, index: int) -> bool:
        """Whether the message can be delivered now."""
        return index in self._ready

    def is_waiting(self, index: int) -> bool:
        """Whether the message is with no consumer and due, set aside and withheld ones too."""
        return index in self._ready or index in self._aside or index in self._withheld

    def is_withheld(self, index: int) -> bool:
        """Whether the message waits for others."""
        return index in self._withheld

    def are_withheld(self, ranges: Sequence[Range]) -> bool:
        """Whether all of these wait for others."""
        return all(self._withheld.covers(first, end) for first, end in ranges)

    @property
    def withheld_count(self) -> int:
        """How many of the ready messages are withheld."""
        return self._withheld.count

    def ready_set(self, span: Span) -> AckSet | None:
        """Which messages of an entry can be delivered now; None when all of them can.

        What a delivery of the entry shows to the client (`CommandMessage.ack_set`), so that nothing
        acked and nothing that is with another consumer is seen again.
        """
        first, end = span.first_index, span.end_index
        if self._ready.covers(first, end):
            return None
        return AckSet(self._ready.bits(first, end), span.count)

    def is_acked(self, span: Span) -> bool:
        """Whether the whole entry is done with."""
        first, end = span.first_index, span.end_index
        return not any(indexes.next_range(first, end) for indexes in self._backlog_sets())

    def redelivery_count(self, span: Span) -> int:
        """How often the entry came back: the most of any message in it that is not acked."""
        return self._redeliveries.highest(span.first_index, span.end_index)

    def redelivery_run(self, first: int, end: int) -> tuple[int, int]:
        """How often the message at `first` came back, and where in `[first, end)` that changes."""
        return self._redeliveries.run(first, end)

    def holder_of(self, index: int) -> int | None:
        """The holder of the message; None if it has none."""
        return self._inflight.holder_of(index)

    def inflight_of(self, holder: int) -> IndexRanges:
        """What is inflight with a consumer (a copy)."""
        return self._inflight.of(holder)

    def inflight_count_of(self, holder: int) -> int:
        """How much is inflight with a consumer."""
        return self._inflight.count_of(holder)

    def inflight_within(self, holder: int, wanted: IndexRanges) -> IndexRanges:
        """What of a set is inflight with a consumer, however much else it holds."""
        return self._inflight.within(holder, wanted)

    def is_stale(self, index: int) -> bool:
        """Whether an ack of this index would be ignored."""
        return index in self._stale

    def was_delivered(self, index: int) -> bool:
        """Whether a ready message was with a consumer before, in any epoch, as far as is known."""
        return index in self._returned or index in self._stale

    @property
    def next_due_ms(self) -> int | None:
        """When `due` will next find something, if anything is delayed."""
        return self._delays.next_due_ms

    def unacked_within(self, first: int, end: int) -> list[Range]:
        """What of `[first, end)` is not acked."""
        pieces = (one for indexes in self._backlog_sets() for one in indexes.within(first, end))
        return list(IndexRanges(pieces))

    def backlog_ranges(self) -> IndexRanges:
        """Everything that is not acked (a copy)."""
        sets = sorted(self._backlog_sets(), key=lambda indexes: -indexes.page_count)
        # To copy is cheaper than to add, so the most scattered one is copied.
        union = sets[0].copy()
        for indexes in sets[1:]:
            union.add_all(indexes)
        return union

    def ack_holes(self, limit: int) -> list[Range]:
        """The oldest ranges that are not acked though something above them is."""
        holes: list[Range] = []
        for first, end in self.backlog_ranges():
            if end == self.end or len(holes) == limit:
                break
            holes.append((first, end))
        return holes

    def strip(self) -> Strip:
        """The state of every index, as copies: what is read from them is of this moment."""
        return Strip(
            self.first,
            self.end,
            [one.copy() for one in (self._ready, self._aside, self._withheld) if one],
            [held.copy() for held in self._inflight.sets() if held],
            self._delays.indexes.copy(),
        )

    def hole_count(self) -> tuple[int, Range | None]:
        """How many such ranges there are, and the oldest of them."""
        backlog = self.backlog_ranges()
        count = backlog.range_count() - (backlog.end == self.end)
        return count, backlog.next_range(0) if count else None

    # ── the durable state ─────────────────────────────────────────────────────────────────────

    def state(self) -> CursorState:
        """What a restart must bring back, as values of their own."""
        returned = self._returned.copy()
        for held in self._inflight.sets():
            returned.add_all(held)
        return CursorState(
            self.first,
            self.end,
            self.epoch,
            self.backlog_ranges(),
            returned,
            self._stale.copy(),
            [plane.copy() for plane in self._redeliveries.planes],
        )

    @classmethod
    def from_state(cls, state: CursorState) -> Cursor:
        """The cursor that had this state, with inflight released; `CorruptData` if none had."""
        if not 0 <= state.first <= state.end <= INDEX_MAX:
            raise CorruptData(f"a cursor of [{state.first}, {state.end})")
        cursor = cls(state.first, state.end, at=state.end)
        cursor.epoch = state.epoch
        cursor._ready = state.backlog
        cursor._returned = state.returned
        cursor._stale = state.stale
        cursor._redeliveries = RedeliveryCounts(state.redeliveries)
        for fault in cursor._faults():
            raise CorruptData(f"no cursor has this state: {fault}")
        return cursor

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        self._delays.check()
        self._inflight.check()
        sets = (self._ready, self._aside, self._withheld, self._returned, self._stale)
        for indexes in (*sets, *self._redeliveries.planes):
            indexes.check()
        for fault in self._faults():
            raise AssertionError(fault)

    # ── shared by the verbs ───────────────────────────────────────────────────────────────────

    def _settle(self, first: int, end: int, holder: int, taken: dict[int, int]) -> int:
        """Anything → acked, wherever the indexes are; how many were not acked yet."""
        left = end - first - self._inflight.take_from(holder, first, end, taken)
        # The states are disjoint: what was found in one place need not be looked for elsewhere.
        if left:
            left -= self._ready.discard(first, end)
        if left and self._aside.count:
            left -= self._aside.discard(first, end)
        if left and self._withheld.count:
            left -= self._withheld.discard(first, end)
        if left and self._delays.indexes.count:
            left -= self._delays.discard(first, end)
        if left:
            left -= self._inflight.take(first, end, taken)
        if self._returned.count:
            self._returned.discard(first, end)
        if self._stale.count:
            self._stale.discard(first, end)
        if self._redeliveries.planes:
            self._redeliveries.forget(first, end)
        return end - first - left

    def _return(self, released: IndexRanges, count: bool) -> None:
        """Make ready again what was taken from its holders."""
        self._ready.add_all(released)
        self._returned.add_all(released)
        if count:
            self._redeliveries.raise_all(released)

    def _begin_epoch(self, fact: SeekFact) -> None:
        self.epoch = fact.epoch
        self._ready.clear()
        self._ready.add(fact.index, self.end)
        self._aside.clear()
        self._withheld.clear()
        self._delays.clear()
        self._inflight.clear()
        self._returned.clear()
        if fact.stale.count or self._stale.count:
            self._stale = fact.stale.copy()
        # A replay that was asked for is no redelivery.
        self._redeliveries.clear()

    def _backlog_sets(self) -> Sequence[IndexRanges]:
        inflight, delayed = self._inflight.sets(), self._delays.indexes
        return (self._ready, self._aside, self._withheld, delayed, *inflight)

    def _lowest_in_backlog(self) -> int | None:
        lowest: int | None = None
        for one in self._backlog_sets():
            if one.count and (first := one.next_index(0)) is not None:
                lowest = first if lowest is None or first < lowest else lowest
        return lowest

    def _faults(self) -> Iterator[str]:
        """The broken invariants that only the sets together can show."""
        if self.epoch < 0:
            yield f"epoch {self.epoch}"
        backlog = self.backlog_ranges()
        if backlog.count != sum(indexes.count for indexes in self._backlog_sets()):
            yield "an index in two states"
        if backlog.count != backlog.count_within(self.first, self.end):
            yield f"{backlog} in the backlog of [{self.first}, {self.end})"
        resting = self._ready.copy()
        resting.add_all(self._aside)
        resting.add_all(self._withheld)
        resting.add_all(self._delays.indexes)
        for name, part in (("returned", self._returned), ("stale", self._stale)):
            if (part & resting).count != part.count:
                yield f"{name} {part}, but ready {resting}"
        if self._returned & self._stale:
            yield f"returned {self._returned} and stale {self._stale} overlap"
        counted = self._redeliveries.counted()
        counted.discard_all(self._returned)
        for held in self._inflight.sets():
            counted.discard_all(held)
        if counted:
            yield f"redelivery counts of {counted}"


def _move(source: IndexRanges, target: IndexRanges, first: int, end: int) -> int:
    """Move what of `[first, end)` is in one set to another; how many indexes."""
    if source.covers(first, end):
        source.discard(first, end)
        return target.add(first, end)
    pieces = list(source.within(first, end))
    for piece in pieces:
        source.discard(*piece)
    return sum(target.add(*piece) for piece in pieces)
