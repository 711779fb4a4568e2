"""Which consumer has which indexes.

A holder is a small number the broker gives to one consumer session. What a holder has is a set of
its own, so that a consumer's leaving, and an ack by the one that holds the message, cost the same
however many others there are. `taken` collects, by holder, how many indexes it lost.

    >>> inflight = Inflight(); inflight.add(0, 4, holder=1); inflight.add(4, 6, holder=2)
    >>> taken = {}; inflight.take(3, 5, taken), taken, inflight.holder_of(5)
    (2, {1: 1, 2: 1}, 2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from milepost.positions.ranges import IndexRanges, Range


class Inflight:
    """Disjoint sets of indexes, one a holder."""

    __slots__ = ("_held",)

    # Holder → what is inflight with it.  Invariant: the sets are disjoint, holders not negative.
    # A set may be empty: a consumer that keeps up would otherwise need a new one every time.
    _held: dict[int, IndexRanges]

    def __init__(self) -> None:
        self._held = {}

    def add(self, first: int, end: int, holder: int) -> None:
        """Give indexes that no consumer holds to a holder."""
        held = self._held.get(holder)
        if held is None:
            assert holder >= 0, f"holder {holder}"
            held = self._held[holder] = IndexRanges()
        added = held.add(first, end)
        assert added == end - first, f"holder {holder} has a part of [{first}, {end}) already"

    def take_from(self, holder: int, first: int, end: int, taken: dict[int, int]) -> int:
        """Take from one holder what it has of `[first, end)`; how many."""
        held = self._held.get(holder)
        if held is None or not (removed := held.discard(first, end)):
            return 0
        taken[holder] = taken.get(holder, 0) + removed
        return removed

    def take(self, first: int, end: int, taken: dict[int, int]) -> int:
        """Take `[first, end)` from its holders; return how many indexes that were."""
        removed = 0
        for holder in self._held:
            removed += self.take_from(holder, first, end, taken)
            if removed == end - first:
                break
        return removed

    def take_ranges(
        self, ranges: Iterable[Range], holder: int | None, taken: dict[int, int]
    ) -> IndexRanges:
        """Take ranges from one holder, or from all; return the indexes that were taken."""
        return self.take_set(IndexRanges(ranges), holder, taken)

    def take_set(
        self, wanted: IndexRanges, holder: int | None, taken: dict[int, int]
    ) -> IndexRanges:
        """The same of a set."""
        released = IndexRanges()
        for owner, held in self._held.items():
            if holder is None or owner == holder:
                found = held & wanted
                if found:
                    held.discard_all(found)
                    released.add_all(found)
                    taken[owner] = found.count
        return released

    def take_all(self, holder: int) -> IndexRanges:
        """Take everything from a holder that is gone."""
        return self._held.pop(holder, None) or IndexRanges()

    def clear(self) -> None:
        """Take everything from every holder."""
        self._held.clear()

    @property
    def count(self) -> int:
        """How many indexes are held."""
        return sum(held.count for held in self._held.values())

    def sets(self) -> Collection[IndexRanges]:
        """What each holder has."""
        return self._held.values()

    def of(self, holder: int) -> IndexRanges:
        """What one holder has (a copy)."""
        held = self._held.get(holder)
        return IndexRanges() if held is None else held.copy()

    def count_of(self, holder: int) -> int:
        """How many indexes one holder has."""
        held = self._held.get(holder)
        return 0 if held is None else held.count

    def within(self, holder: int, wanted: IndexRanges) -> IndexRanges:
        """What of a set one holder has; costs as much as the smaller of the two."""
        held = self._held.get(holder)
        return IndexRanges() if held is None else held & wanted

    def holds(self, holder: int, first: int, end: int) -> bool:
        """Whether one holder has all of `[first, end)`."""
        held = self._held.get(holder)
        return held is not None and held.covers(first, end)

    def holder_of(self, index: int) -> int | None:
        """The holder of an index; None if it has none."""
        return next((holder for holder, held in self._held.items() if index in held), None)

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        union = IndexRanges()
        for holder, held in self._held.items():
            held.check()
            assert holder >= 0, f"holder {holder}"
            assert union.add_all(held) == held.count, f"two holders have a part of {held}"
