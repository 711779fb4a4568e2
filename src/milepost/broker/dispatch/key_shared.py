"""Which consumer may have a message of a key now, so that each key stays in order.

Slots (see key_slots.py) change owners when consumers come and leave, but messages that the old owner got
are still with it. A slot is *held* by the consumer that has messages of it inflight, and a held slot is
served to its holder alone: when its owner is another, it *drains* until the last of them is acked or
released. So no key is ever with two consumers, and the consumer that gets it next gets it from where the one
before stopped.

    choose(slot)        its owner, unless another holds it: then none, and the slot is wanted
    delivered(…)        the consumer holds the slot
    settled(ranges)     acked or released: the slots that are wanted and became free by that
    leave(holder)       nothing is with it any more

Knows indexes as the cursor does, and counts each once: saying twice that an index is settled, or that
one is which never was delivered, changes nothing. Delivers nothing, reads no entry.

A caller offers entries in order of their indexes and passes over a slot that was refused for the rest
of its scan: what came later must not go first when the slot becomes free meanwhile.

    >>> assignment = KeySharedAssignment()
    >>> _ = assignment.join(1, "a")
    >>> slot = assignment.slot_of(b"k2")
    >>> assignment.delivered(assignment.choose(slot), slot, 10, 11)
    >>> _ = assignment.join(2, "b")
    >>> assignment.owner_of(slot), assignment.choose(slot)      # it waits for what the other holds
    (2, None)
    >>> assignment.settled([(10, 11)]), assignment.choose(slot)
    ([55295], 2)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from milepost.broker.dispatch.key_slots import Moved, RangeSlots, RingSlots
from milepost.broker.dispatch.split_slots import SplitSlots
from milepost.positions.ranges import IndexRanges, Range


class _Hold:
    """Who has messages of a slot."""

    __slots__ = ("entry_count", "holder", "slot")

    def __init__(self, slot: int, holder: int) -> None:
        self.slot = slot
        self.holder = holder
        # Entries of the slot that are with the holder.  Invariant: at least one.
        self.entry_count = 0


class _Entry:
    """One entry that is with a consumer."""

    __slots__ = ("bits", "end", "first", "hold")

    def __init__(self, first: int, end: int, hold: _Hold) -> None:
        self.first = first
        self.end = end
        self.hold = hold
        # Which of its indexes are inflight, the first one lowest.  Invariant: not zero.
        self.bits = 0


class KeySharedAssignment:
    """The slots of one Key_Shared subscription and what is with their holders."""

    __slots__ = ("_batches", "_by_holder", "_entries", "_holds", "_is_ordered", "_slots", "_wanted")

    # Held slots.
    _holds: dict[int, _Hold]

    # Entries that are with consumers, by first index.
    # Invariant: those of a slot are all with its holder, and are counted there.
    _entries: dict[int, _Entry]

    # First indexes of those entries, by holder.  Invariant: none is empty.
    _by_holder: dict[int, set[int]]

    # First indexes of those entries with more than one index, in order: where to look for an index
    # that no entry begins with.
    _batches: list[int]

    # Slots that were refused to their owner.  Invariant: all are held.
    _wanted: set[int]

    def __init__(self, *, sticky: bool = False, is_ordered: bool = True, ring: bool = True) -> None:
        """`sticky`: consumers name their ranges; else a `ring` shares them out, or halving. Without
        order (`allowOutOfOrderDelivery`) nothing drains, and nothing is remembered."""
        self._slots: RingSlots | RangeSlots | SplitSlots = RingSlots() if ring else SplitSlots()
        if sticky:
            self._slots = RangeSlots()
        self._is_ordered = is_ordered
        self._holds = {}
        self._entries = {}
        self._by_holder = {}
        self._batches = []
        self._wanted = set()

    # ── consumers ─────────────────────────────────────────────────────────────────────────────

    def join(
        self, holder: int, name: str, ranges: Sequence[tuple[int, int]] | None = None
    ) -> list[Moved]:
        """A consumer comes. `ranges`: first and last slot of each that it asks for; what cannot be
        had is a `ConsumerAssignError`, and changes nothing."""
        return self._slots.join(holder, name, ranges or ())

    def leave(self, holder: int) -> list[Moved]:
        """A consumer is gone, and nothing is with it any more."""
        self.released(holder, IndexRanges())
        return self._slots.leave(holder)

    # ── one entry's way ───────────────────────────────────────────────────────────────────────

    def slot_of(self, key: bytes) -> int:
        return self._slots.slot_of(key)

    def owner_of(self, slot: int) -> int | None:
        """Whose slot it is; None when no consumer asked for it."""
        return self._slots.owner_of(slot)

    def is_draining(self, slot: int) -> bool:
        """Is the slot with another than its owner?"""
        hold = self._holds.get(slot)
        return hold is not None and hold.holder != self._slots.owner_of(slot)

    def choose(self, slot: int) -> int | None:
        """Who may be given the next entry of a slot; None means no consumer, now."""
        owner = self._slots.owner_of(slot)
        hold = self._holds.get(slot)
        if hold is None or hold.holder == owner:
            return owner
        self._wanted.add(slot)
        return None

    def delivered(
        self, holder: int, slot: int, first: int, end: int, ranges: Sequence[Range] | None = None
    ) -> None:
        """Of the entry with the indexes `[first, end)`, `ranges` went to a consumer: what the cursor
        said. None means all of it, and is wrong for a batch of which some are acked."""
        if not self._is_ordered:
            return
        hold = self._holds.get(slot)
        if hold is None:
            hold = self._holds[slot] = _Hold(slot, holder)
        assert hold.holder == holder, f"slot {slot} is with {hold.holder}, delivered to {holder}"
        entry = self._entries.get(first)
        if entry is None:
            entry = self._entries[first] = _Entry(first, end, hold)
            hold.entry_count += 1
            self._by_holder.setdefault(holder, set()).add(first)
            if end - first > 1:
                insort(self._batches, first)
        assert entry.hold is hold, f"entry {first} is of slot {entry.hold.slot}, not {slot}"
        for range_first, range_end in ((first, end),) if ranges is None else ranges:
            entry.bits |= _bits(range_first - first, range_end - first)
        assert entry.bits, f"nothing of entry {first} was delivered"

    def settled(self, ranges: Iterable[Range]) -> list[int]:
        """Those indexes are no longer with a consumer: acked, or released. The slots that are free by that
        and were refused to their owner before."""
        freed: list[int] = []
        for first, end in ranges:
            entry = self._entries.get(first)
            if entry is not None and end <= entry.end:
                self._keep(entry, ~_bits(0, end - first), freed)
                continue
            for entry in self._overlapping(first, end):
                self._keep(entry, ~_bits(max(first - entry.first, 0), end - entry.first), freed)
        return freed

    def released(self, holder: int, inflight: IndexRanges) -> list[int]:
        """Nothing is with a consumer any more but `inflight`. As `settled`, for when it is not known
        what was given back; takes time for everything that was with it."""
        freed: list[int] = []
        for entry in [self._entries[first] for first in self._by_holder.get(holder, ())]:
            self._keep(entry, inflight.bits(entry.first, entry.end), freed)
        return freed

    def clear(self) -> None:
        """Forget all holders: the cursor was moved."""
        self._holds.clear()
        self._entries.clear()
        self._by_holder.clear()
        self._batches.clear()
        self._wanted.clear()

    # ── views ─────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        self._slots.check()
        counts: dict[int, int] = {}
        for first, entry in self._entries.items():
            assert entry.first == first, entry.first
            assert 0 < entry.bits < 1 << entry.end - first, f"entry {first}: {entry.bits:b}"
            assert self._holds[entry.hold.slot] is entry.hold, f"entry {first}: {entry.hold.slot}"
            counts[entry.hold.slot] = counts.get(entry.hold.slot, 0) + 1
        assert counts == {slot: hold.entry_count for slot, hold in self._holds.items()}, counts
        by_holder: dict[int, set[int]] = {}
        for first, entry in self._entries.items():
            by_holder.setdefault(entry.hold.holder, set()).add(first)
        assert self._by_holder == by_holder, self._by_holder
        batches = [first for first, entry in self._entries.items() if entry.end - first > 1]
        assert self._batches == sorted(batches), self._batches
        assert self._wanted <= self._holds.keys(), self._wanted

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _keep(self, entry: _Entry, mask: int, freed: list[int]) -> None:
        """Only those indexes of an entry are still inflight. Notes its slot if it is free and wanted
        now."""
        entry.bits &= mask
        if entry.bits:
            return
        first, hold = entry.first, entry.hold
        del self._entries[first]
        of_holder = self._by_holder[hold.holder]
        of_holder.discard(first)
        if not of_holder:
            del self._by_holder[hold.holder]
        if entry.end - first > 1:
            del self._batches[bisect_left(self._batches, first)]
        hold.entry_count -= 1
        if hold.entry_count:
            return
        del self._holds[hold.slot]
        if hold.slot in self._wanted:
            self._wanted.discard(hold.slot)
            freed.append(hold.slot)

    def _overlapping(self, first: int, end: int) -> list[_Entry]:
        """The entries that have an index in a range."""
        entries = self._entries
        if end - first > len(entries):
            return [entry for entry in entries.values() if entry.first < end and entry.end > first]
        found = [entries[index] for index in range(first, end) if index in entries]
        at = bisect_left(self._batches, first) - 1
        if at >= 0 and (entry := entries[self._batches[at]]).end > first:
            found.append(entry)
        return found


def _bits(first: int, end: int) -> int:
    return (1 << end) - (1 << first)
