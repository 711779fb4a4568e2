"""Cursor against its dumb twin, a dict of states: the same commands, then everything compared."""

from __future__ import annotations

import doctest
import zlib
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from stage import cursor_twin
from stage.acksets import acks_left, is_pending
from stage.counts import examples
from stage.cursor_twin import CursorTwin

from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.cursor.outcomes import Counts
from milepost.cursor.redeliveries import RedeliveryCounts
from milepost.errors import CorruptData
from milepost.positions import pages
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.spans import Span

# Pages of 8 and some 60 indexes: every range may cross page borders, fill a page or empty one.
INDEX_COUNT = 60
HOLDERS = range(3)

index_numbers = st.integers(0, INDEX_COUNT)
lengths = st.integers(1, 20)
holders = st.sampled_from(HOLDERS)
times_ms = st.integers(0, 10)


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE_SHIFT", 3)
        yield


def singles(ranges: IndexRanges) -> set[int]:
    return {index for first, end in ranges for index in range(first, end)}


class CursorMachine(RuleBasedStateMachine):
    """Five verbs, time, restarts and crashes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = Cursor()
        self.twin = CursorTwin(0, 0)
        self.progress = (0, -1)

    @initialize(first=st.integers(0, 12), count=st.integers(0, 30))
    def subscribe(self, first: int, count: int) -> None:
        self.cursor = Cursor(first, first + count)
        self.twin = CursorTwin(first, first + count)
        self.take_snapshot()

    def journal(self, fact: bytes) -> None:
        self.facts.append(fact)

    def place(self, number: int) -> int:
        """Any number as an index near those that exist, so that few steps hit nothing."""
        return max(0, self.twin.first - 2 + number % (self.twin.end - self.twin.first + 4))

    def clip(self, first: int, length: int) -> Range | None:
        """A range of indexes that exist, some of them trimmed perhaps."""
        first = self.place(first)
        end = min(first + length, self.twin.end)
        return (first, end) if first < end else None

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────

    @rule(count=st.integers(0, 12))
    def extend(self, count: int) -> None:
        end = min(self.twin.end + count, INDEX_COUNT)
        end = max(end, self.twin.end)
        assert self.cursor.extend(end) == end - self.twin.end
        self.twin.extend(end)
        self.saved.extend(end)

    @rule(first=index_numbers, length=lengths, holder=holders, eager=st.booleans())
    def deliver(self, first: int, length: int, holder: int, eager: bool) -> None:
        first = self.place(first)
        stale = self.twin.stale.copy()
        delivered = self.cursor.deliver(first, first + length, holder)
        expected = self.twin.deliver(first, first + length, holder)
        assert singles(IndexRanges(delivered.ranges)) == expected
        assert delivered.count == len(expected)
        assert singles(IndexRanges(delivered.stale)) == expected & stale
        if delivered.stale or eager:
            fact = facts.DeliveryFact(self.cursor.epoch, IndexRanges(delivered.ranges))
            self.journal(facts.encode(fact))
            self.saved.was_delivered(expected)

    @rule(first=index_numbers, length=lengths, holder=holders)
    def deliver_in_vain(self, first: int, length: int, holder: int) -> None:
        """What was stale is recalled before it is out, since the fact of it was refused."""
        first = self.place(first)
        stale = self.twin.stale.copy()
        delivered = self.cursor.deliver(first, first + length, holder)
        expected = self.twin.deliver(first, first + length, holder)
        recalled = self.cursor.withdraw(IndexRanges(delivered.stale), holder)
        assert recalled == len(expected & stale)
        self.twin.withdraw(expected & stale)

    @rule(holder=holders, limit=lengths)
    def dispatch(self, holder: int, limit: int) -> None:
        """What a dispatcher does: the next that is ready, from the front."""
        found = self.cursor.next_ready(limit=limit)
        ready = self.twin.next_ones()
        assert (found is None) == (not ready)
        if found is not None:
            assert found[0] == min(ready)
            assert 0 < found[1] - found[0] <= limit
            assert self.twin.deliver(*found, holder) == set(range(*found))
            assert self.cursor.deliver(*found, holder).ranges == (found,)

    @rule(pieces=st.lists(st.tuples(index_numbers, lengths), max_size=4), holder=holders)
    def ack(self, pieces: list[Range], holder: int) -> None:
        ranges = [piece for first, length in pieces if (piece := self.clip(first, length))]
        acked = self.cursor.ack(ranges, holder)
        disjoint = list(IndexRanges(ranges))
        count, ignored, taken = self.twin.ack(disjoint)
        assert (acked.count, acked.taken) == (count, taken)
        assert (acked.ignored > 0) == (ignored > 0)
        if disjoint == sorted(ranges):
            assert acked.ignored == ignored
        assert bool(acked.ranges) == (count > 0)
        if acked.ranges:
            self.journal(facts.encode_ack(self.cursor.epoch, acked.ranges))
            self.saved.settle(singles(IndexRanges(acked.ranges)))

    @rule(end=index_numbers, holder=holders)
    def ack_up_to(self, end: int, holder: int) -> None:
        end = min(self.place(end), self.twin.end)
        acked = self.cursor.ack_up_to(end, holder)
        assert acked[:3] == self.twin.ack_up_to(end)
        if acked.count:
            self.journal(facts.encode_ack(self.cursor.epoch, acked.ranges))
            self.saved.settle(singles(IndexRanges(acked.ranges)))

    @rule(
        pieces=st.lists(st.tuples(index_numbers, lengths), min_size=1, max_size=3),
        holder=st.none() | holders,
        count=st.booleans(),
    )
    def release(self, pieces: list[Range], holder: int | None, count: bool) -> None:
        ranges = [(self.place(first), self.place(first) + length) for first, length in pieces]
        released = self.cursor.release(ranges, holder, count=count)
        taken = self.twin.release(ranges, holder, count)
        assert (released.count, released.taken) == (sum(taken.values()), taken)

    @rule(holder=holders, count=st.booleans())
    def release_holder(self, holder: int, count: bool) -> None:
        released = self.cursor.release_holder(holder, count=count)
        taken = self.twin.release_holder(holder, count)
        assert (released.count, released.taken) == (sum(taken.values()), taken)

    @rule(first=index_numbers, length=lengths, due_ms=times_ms)
    def delay(self, first: int, length: int, due_ms: int) -> None:
        first = self.place(first)
        count = self.cursor.delay(first, first + length, due_ms)
        assert count == self.twin.delay(first, first + length, due_ms)

    @rule(now_ms=times_ms)
    def due(self, now_ms: int) -> None:
        assert self.cursor.due(now_ms) == self.twin.due(now_ms)

    @rule(first=index_numbers, length=lengths)
    def set_aside(self, first: int, length: int) -> None:
        first = self.place(first)
        assert self.cursor.set_aside(first, first + length) == self.twin.set_aside(
            first, first + length
        )

    @rule(first=index_numbers, length=lengths)
    def call_back(self, first: int, length: int) -> None:
        first = self.place(first)
        assert self.cursor.call_back(first, first + length) == self.twin.call_back(
            first, first + length
        )

    @rule()
    def call_all_back(self) -> None:
        assert self.cursor.call_all_back() == len(self.twin.aside)
        self.twin.aside.clear()

    @rule(first=index_numbers, length=lengths)
    def withhold(self, first: int, length: int) -> None:
        first = self.place(first)
        withheld = self.cursor.withhold(first, first + length)
        assert withheld == self.twin.withhold(first, first + length)

    @rule(first=index_numbers, length=lengths)
    def admit(self, first: int, length: int) -> None:
        first = self.place(first)
        admitted = self.cursor.admit(first, first + length)
        assert admitted == self.twin.admit(first, first + length)

    @rule(index=index_numbers)
    def seek(self, index: int) -> None:
        index = min(self.place(index), self.twin.end)
        fact = self.cursor.seek(index)
        self.twin.seek(index)
        assert fact.index == max(index, self.twin.first)
        assert fact.epoch == self.twin.epoch
        assert singles(fact.stale) == self.twin.stale
        self.journal(facts.encode(fact))
        self.saved.begin_epoch(fact.index, self.twin.stale)

    @rule(number=index_numbers)
    def skip(self, number: int) -> None:
        end = min(self.place(number), self.twin.end)
        acked = self.cursor.skip(end)
        assert (acked.count, acked.taken) == self.twin.settle(range(self.twin.first, end))
        if acked.ranges:
            self.journal(facts.encode(facts.AckFact(self.cursor.epoch, IndexRanges(acked.ranges))))
            self.saved.settle(range(self.saved.first, end))

    @rule(pieces=st.lists(st.tuples(index_numbers, lengths), max_size=4))
    def skip_set(self, pieces: list[Range]) -> None:
        indexes = IndexRanges(piece for one in pieces if (piece := self.clip(*one)))
        acked = self.cursor.skip_set(indexes)
        assert (acked.count, acked.taken) == self.twin.settle(sorted(singles(indexes)))
        if acked.count:
            self.journal(facts.encode(facts.AckFact(self.cursor.epoch, indexes)))
            self.saved.settle(singles(indexes))

    @rule(count=st.integers(-1, 5))
    def trim(self, count: int) -> None:
        index = min(max(0, self.twin.first + count), self.twin.end)
        acked = self.cursor.trim(index)
        assert (acked.count, acked.taken) == self.twin.trim(index)
        self.journal(facts.encode(facts.TrimFact(self.cursor.epoch, self.cursor.first)))
        self.saved.trim(index)

    # ── restarts ──────────────────────────────────────────────────────────────────────────────

    @rule()
    def take_snapshot(self) -> None:
        self.snapshot = snapshot.encode(self.cursor)
        self.facts: list[bytes] = []
        # What a crash from now on comes back as: the twin as of now, told of facts alone.
        self.saved = self.twin.reopened()

    @rule()
    def restart(self) -> None:
        self.take_snapshot()
        self.cursor = snapshot.decode(self.snapshot)
        self.twin = self.twin.reopened()
        self.saved = self.twin.reopened()

    @rule(replays=st.integers(1, 2))
    def crash(self, replays: int) -> None:
        """Reopen from the last snapshot and the facts since, some of them applied already."""
        self.cursor = snapshot.decode(self.snapshot)
        for _ in range(replays):
            for fact in self.facts:
                self.cursor.replay(facts.decode(fact))
        self.cursor.extend(self.twin.end)
        self.twin = self.saved
        self.saved = self.twin.reopened()

    @rule()
    def facts_say_nothing_new(self) -> None:
        """All facts since the snapshot are true already: replayed live they change nothing."""
        before = snapshot.encode(self.cursor)
        for fact in self.facts:
            self.cursor.replay(facts.decode(fact))
        assert snapshot.encode(self.cursor) == before

    # ── views ─────────────────────────────────────────────────────────────────────────────────

    @rule(low=index_numbers, count=st.integers(1, INDEX_COUNT))
    def look_at_the_strip(self, low: int, count: int) -> None:
        """Its columns count every index, at every zoom and whatever part is asked for."""
        strip, twin = self.cursor.strip(), self.twin
        end = twin.end + 2
        columns = strip.columns(min(low, end), end, count)
        for column in range(len(columns.acked)):
            part = range(columns.border(column), columns.border(column + 1))
            assert columns.column_of(part[0]) == columns.column_of(part[-1]) == column
            expected = Counter(
                "trimmed" if index < twin.first else twin.state.get(index, "") for index in part
            )
            found = {
                "trimmed": columns.trimmed[column],
                "acked": columns.acked[column],
                "inflight": columns.inflight[column],
                "ready": columns.ready[column],
                "delayed": columns.delayed[column],
            }
            assert found == {state: expected[state] for state in found}
            assert strip.state_of(part[0]) in expected

    @invariant()
    def same(self) -> None:
        cursor, twin = self.cursor, self.twin
        cursor.check()
        # The mark-delete index never falls but by a seek; the epoch never falls, crash or no crash.
        assert self.progress <= (cursor.epoch, cursor.mark_delete_index)
        self.progress = (cursor.epoch, cursor.mark_delete_index)
        assert (cursor.first, cursor.end, cursor.epoch) == (twin.first, twin.end, twin.epoch)
        expected = Counts(
            len(twin.indexes("ready")),
            len(twin.indexes("inflight")),
            len(twin.indexes("delayed")),
            len(twin.indexes("acked")),
        )
        assert cursor.counts() == expected
        assert sum(cursor.counts()) == cursor.end - cursor.first
        assert cursor.backlog == len(twin.backlog())
        assert cursor.first_ready == min(twin.indexes("ready"), default=None)
        assert cursor.aside_count == len(twin.aside)
        assert cursor.withheld_count == len(twin.withheld)
        waiting = {index for index in twin.state if cursor.is_waiting(index)}
        assert waiting == twin.indexes("ready")
        assert {index for index in twin.state if cursor.is_ready(index)} == twin.next_ones()
        assert cursor.aside_end == max(twin.aside, default=-1) + 1
        assert cursor.mark_delete_index == twin.mark_delete_index
        assert singles(cursor.backlog_ranges()) == twin.backlog()
        assert cursor.ack_holes(INDEX_COUNT) == twin.ack_holes()
        assert cursor.ack_holes(1) == twin.ack_holes()[:1]
        assert cursor.hole_count() == (len(twin.ack_holes()), next(iter(twin.ack_holes()), None))
        assert cursor.next_due_ms == min(twin.due_ms.values(), default=None)
        for holder in HOLDERS:
            held = {index for index, owner in twin.holder.items() if owner == holder}
            assert singles(cursor.inflight_of(holder)) == held
        for index in range(twin.first, twin.end):
            assert cursor.holder_of(index) == twin.holder.get(index)
            assert cursor.is_stale(index) == (index in twin.stale)
            assert cursor.redelivery_count(Span(index, 1)) == twin.redeliveries[index]

    @rule(first=index_numbers, count=lengths)
    def look_at_an_entry(self, first: int, count: int) -> None:
        cursor, twin, span = self.cursor, self.twin, Span(self.place(first), count)
        backlog, ready = twin.backlog(), twin.next_ones()
        members = range(span.first_index, span.end_index)
        assert cursor.is_acked(span) == (not backlog & set(members))
        highest = max(twin.redeliveries[index] for index in members)
        assert cursor.redelivery_count(span) == highest
        for found, expected in (
            (acks_left(cursor, span), backlog),
            (cursor.ready_set(span), ready),
        ):
            if found is None:
                assert set(members) <= expected
            else:
                assert not found.is_full
                shown = {index for index in members if is_pending(found, index - span.first_index)}
                assert shown == expected & set(members)

    @rule(first=index_numbers)
    def look_for_ready(self, first: int) -> None:
        first = self.place(first)
        ready = {index for index in self.twin.next_ones() if index >= first}
        found = self.cursor.next_ready(first)
        if found is None:
            assert not ready
        else:
            assert found[0] == min(ready)
            assert set(range(*found)) <= ready
            assert found[1] not in ready


TestCursor = CursorMachine.TestCase
TestCursor.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)


class TestCursorAtLength(CursorMachine.TestCase):
    """The full run: 600 lives of up to 60 steps."""

    pytestmark = pytest.mark.slow
    settings = settings(
        max_examples=examples(600),
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


range_lists = st.lists(
    st.tuples(st.integers(0, INDEX_COUNT - 1), lengths).map(
        lambda piece: (piece[0], min(piece[0] + piece[1], INDEX_COUNT))
    ),
    max_size=12,
)


@given(acks=range_lists, delivered=range_lists, order=st.randoms(use_true_random=False))
def test_any_order_of_the_same_acks_leaves_the_same_cursor(acks, delivered, order) -> None:
    def consumed(ranges: list[Range]) -> Cursor:
        cursor = Cursor(0, INDEX_COUNT)
        for holder, (first, end) in enumerate(delivered):
            cursor.deliver(first, end, holder)
        for first, end in ranges:
            cursor.ack([(first, end)])
        cursor.check()
        return cursor

    shuffled = acks.copy()
    order.shuffle(shuffled)
    one, other = consumed(acks), consumed(shuffled)
    assert snapshot.encode(one) == snapshot.encode(other)
    assert one.counts() == other.counts()
    for holder in range(len(delivered)):
        assert one.inflight_of(holder) == other.inflight_of(holder)


@given(acks=range_lists, delivered=range_lists, target=index_numbers, late=range_lists)
def test_no_late_ack_moves_a_cursor_after_a_seek(acks, delivered, target, late) -> None:
    """Trap 11: whatever was delivered or acked before is not acked by anything that arrives late."""
    cursor = Cursor(0, INDEX_COUNT)
    seen = IndexRanges()
    for first, end in delivered:
        cursor.deliver(first, end, 1)
        seen.add(first, end)
    for first, end in acks:
        cursor.ack([(first, end)])
        seen.add(first, end)
    cursor.release_holder(1, count=True)
    cursor.seek(target)
    before = snapshot.encode(cursor)
    for first, end in late:
        inside = list(seen.within(first, end))
        assert cursor.ack(inside).count == 0
        for _, seen_end in inside:
            assert cursor.ack_up_to(seen_end).count == 0
    assert snapshot.encode(cursor) == before


@settings(max_examples=examples(300))
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_fact_or_corrupt(data: bytes) -> None:
    for candidate in (data, bytes([facts.VERSION]) + data, bytes([facts.VERSION, 2]) + data):
        try:
            fact = facts.decode(candidate)
        except CorruptData:
            continue
        assert facts.decode(facts.encode(fact)) == fact


@settings(max_examples=examples(300))
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_snapshot_or_corrupt(data: bytes) -> None:
    versioned = bytes([snapshot.VERSION]) + data
    for candidate in (data, versioned, versioned + zlib.crc32(versioned).to_bytes(4, "little")):
        try:
            cursor = snapshot.decode(candidate)
        except CorruptData:
            continue
        cursor.check()
        assert sum(cursor.counts()) == cursor.end - cursor.first


@given(
    st.lists(
        st.tuples(st.sampled_from(["raise", "forget"]), st.integers(0, 40), st.integers(1, 20)),
        max_size=30,
    )
)
def test_redelivery_counts_against_a_counter(steps: list[tuple[str, int, int]]) -> None:
    counts, twin = RedeliveryCounts(), Counter[int]()
    for step, first, length in steps:
        if step == "raise":
            counts.raise_all(IndexRanges([(first, first + length)]))
            twin.update(range(first, first + length))
        else:
            counts.forget(first, first + length)
            for index in range(first, first + length):
                del twin[index]
        assert [counts.highest(index, index + 1) for index in range(60)] == [
            twin[index] for index in range(60)
        ]
        assert counts.highest(first, first + length) == max(
            twin[index] for index in range(first, first + length)
        )


def test_the_example_of_the_twin_is_true() -> None:
    assert doctest.testmod(cursor_twin) == (0, 2)
