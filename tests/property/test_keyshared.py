"""Key_Shared with a real cursor: consumers come and go, and every key stays in order.

A small dispatcher offers ready entries in order of their indexes, as the broker does. Consumers join,
leave, take, ack wholly or in part, give back some or all, and the cursor is moved. The twin is the
cursor itself: it knows what is inflight with whom.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from stage.counts import examples

from milepost.broker.dispatch.key_shared import KeySharedAssignment
from milepost.cursor.cursor import Cursor
from milepost.positions.spans import Span

KEYS = [b"k%d" % number for number in range(4)]
STICKY_SHARES = [(0, 20_000), (20_001, 40_000), (40_001, 60_000)]  # the rest is nobody's


class Entry(NamedTuple):
    first: int
    end: int
    slot: int


class KeyShared(RuleBasedStateMachine):
    @initialize(sticky=st.booleans())
    def begin(self, sticky: bool) -> None:
        self.sticky = sticky
        self.assignment = KeySharedAssignment(sticky=sticky)
        self.cursor = Cursor()
        self.entries: list[Entry] = []
        self.consumers: list[int] = []
        self.shares: dict[int, tuple[int, int]] = {}
        self.next_holder = 0
        self.refused: set[int] = set()
        """Slots that were refused to their owner in the last scan: to be looked at again."""
        # Begin in the middle: a consumer that holds something of every key, and more of each to come.
        self.join("a", 1)
        self.publish([(key, count) for count in (2, 1) for key in KEYS])
        self.dispatch(4)
        self.publish([(key, 1) for key in KEYS])

    # The broker's part.

    @rule(
        keys=st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 3)), min_size=1, max_size=6)
    )
    def publish(self, keys: list[tuple[bytes, int]]) -> None:
        for key, count in keys:
            first = self.cursor.end
            self.entries.append(Entry(first, first + count, self.assignment.slot_of(key)))
            self.cursor.extend(first + count)

    @rule(permits=st.integers(1, 8))
    def dispatch(self, permits: int) -> None:
        """Offer what is ready, in order; whoever is chosen has a few permits."""
        left = dict.fromkeys(self.consumers, permits)
        passed_over: set[int] = set()
        self.refused.clear()
        for entry in self.entries:
            if not self.ready(entry) or entry.slot in passed_over:
                continue
            holder = self.assignment.choose(entry.slot)
            if holder is None or left[holder] == 0:
                passed_over.add(entry.slot)
                if holder is None and self.assignment.owner_of(entry.slot) is not None:
                    self.refused.add(entry.slot)
                continue
            left[holder] -= 1
            self.deliver(entry, holder)

    def deliver(self, entry: Entry, holder: int) -> None:
        for earlier in self.entries:
            if earlier.slot == entry.slot and earlier.first < entry.first:
                for index in range(earlier.first, earlier.end):
                    assert self.cursor.holder_of(index) == holder or self.is_acked(index), (
                        f"{entry} goes to {holder} before index {index}, which comes earlier"
                    )
        delivered = self.cursor.deliver(entry.first, entry.end, holder)
        self.assignment.delivered(holder, entry.slot, entry.first, entry.end, delivered.ranges)

    def settle(self, is_free: bool) -> None:
        """Whoever was refused and would not be now must have been told."""
        for slot in self.refused:
            assert is_free or self.assignment.choose(slot) is None, f"slot {slot} stalls"
        if is_free:
            self.dispatch(8)

    # The consumers' part.

    @precondition(lambda self: len(self.consumers) < 5)
    @rule(name=st.sampled_from("abc"), share=st.integers(0, 2))
    def join(self, name: str, share: int) -> None:
        holder = self.next_holder
        ranges = STICKY_SHARES[share]
        if self.sticky and ranges in self.shares.values():
            return
        self.next_holder += 1
        self.assignment.join(holder, name, [ranges] if self.sticky else None)
        self.consumers.append(holder)
        self.shares[holder] = ranges
        self.dispatch(4)

    @precondition(lambda self: self.consumers)
    @rule(which=st.integers(0, 4))
    def leave(self, which: int) -> None:
        holder = self.consumers.pop(which % len(self.consumers))
        del self.shares[holder]
        self.cursor.release_holder(holder, count=False)
        self.assignment.leave(holder)
        self.dispatch(4)

    @precondition(lambda self: self.cursor.end)
    @rule(which=st.integers(0, 25), count=st.integers(1, 6))
    def ack(self, which: int, count: int) -> None:
        """Any indexes: inflight or not, a part of a batch or several entries, again and again."""
        first = which % self.cursor.end
        acked = self.cursor.ack([(first, min(first + count, self.cursor.end))])
        self.settle(self.assignment.settled(acked.ranges))

    @precondition(lambda self: self.entries)
    @rule(which=st.lists(st.integers(0, 1000), min_size=1, max_size=6))
    def ack_entries(self, which: list[int]) -> None:
        """As clients do."""
        chosen = [self.entries[at % len(self.entries)] for at in which]
        acked = self.cursor.ack([(entry.first, entry.end) for entry in chosen])
        self.settle(self.assignment.settled(acked.ranges))

    @precondition(lambda self: self.entries and self.consumers)
    @rule(which=st.integers(0, 1000), by=st.integers(0, 4))
    def release(self, which: int, by: int) -> None:
        """A negative ack of one entry by one consumer."""
        entry = self.entries[which % len(self.entries)]
        holder = self.consumers[by % len(self.consumers)]
        is_its = any(self.cursor.holder_of(i) == holder for i in range(entry.first, entry.end))
        self.cursor.release([(entry.first, entry.end)], holder, count=True)
        ranges = [(entry.first, entry.end)] if is_its else []
        self.settle(self.assignment.settled(ranges))

    @precondition(lambda self: self.consumers)
    @rule(which=st.integers(0, 4), keep=st.integers(0, 40))
    def release_all(self, which: int, keep: int) -> None:
        """Everything from some index on, told by what is left."""
        holder = self.consumers[which % len(self.consumers)]
        if keep < self.cursor.end:
            self.cursor.release([(keep, self.cursor.end)], holder, count=True)
        self.settle(self.assignment.released(holder, self.cursor.inflight_of(holder)))

    @rule(index=st.integers(0, 60))
    def seek(self, index: int) -> None:
        self.cursor.seek(min(index, self.cursor.end))
        self.assignment.clear()
        self.dispatch(4)

    # What must hold.

    @invariant()
    def no_slot_is_with_two_consumers(self) -> None:
        holders: dict[int, set[int]] = {}
        inflight: dict[int, int] = {}
        for entry in self.entries:
            for bit, index in enumerate(range(entry.first, entry.end)):
                holder = self.cursor.holder_of(index)
                if holder is not None:
                    holders.setdefault(entry.slot, set()).add(holder)
                    inflight[entry.first] = inflight.get(entry.first, 0) | 1 << bit
        assert all(len(whose) == 1 for whose in holders.values()), holders
        # And the assignment thinks as the cursor does.
        assert {slot: {hold.holder} for slot, hold in self.assignment._holds.items()} == holders
        assert {first: entry.bits for first, entry in self.assignment._entries.items()} == inflight

    @invariant()
    def the_state_is_sound(self) -> None:
        self.assignment.check()

    def teardown(self) -> None:
        """Consumers that take and ack come to the end of every slot that has an owner."""
        if not hasattr(self, "cursor"):
            return
        if not self.consumers:
            self.join("a", 0)
        for _ in range(len(self.entries) + 2):
            self.dispatch(100)
            for holder in self.consumers:
                acked = self.cursor.ack(list(self.cursor.inflight_of(holder)), holder)
                self.assignment.settled(acked.ranges)
        for entry in self.entries:
            is_owned = self.assignment.owner_of(entry.slot) is not None
            assert is_owned or self.sticky
            assert not self.ready(entry) or not is_owned, f"{entry} is never served"
            assert not is_owned or self.assignment.choose(entry.slot) is not None, f"{entry} waits"
        assert self.cursor.counts().inflight == 0

    # Views of the cursor.

    def ready(self, entry: Entry) -> bool:
        shown = self.cursor.ready_set(Span(entry.first, entry.end - entry.first))
        return shown is None or not shown.is_empty

    def is_acked(self, index: int) -> bool:
        return self.cursor.is_acked(Span(index, 1))


KeyShared.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestKeyShared = KeyShared.TestCase
