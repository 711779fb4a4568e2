"""How often each index was redelivered.

A client's dead-letter policy compares this number, so it must be exact, and each message of a batch
has its own: an ack of one must not reset its siblings'. Nearly every index has the count zero and
costs nothing. A consumer that leaves with 50,000 messages raises 50,000 counts at once.

So the counts are kept as binary numbers written downwards: plane 0 is the set of indexes whose count
is odd, plane 1 the set of those whose count has the bit of value 2, and so on. Raising the counts of
a whole set by one is then addition with carry, a few operations on sets whatever their size, and a
count of ten thousand takes fourteen planes.

    >>> counts = RedeliveryCounts()
    >>> counts.raise_all(IndexRanges([(0, 8)])); counts.raise_all(IndexRanges([(4, 5)]))
    >>> counts.highest(0, 4), counts.highest(0, 8), counts.highest(8, 9)
    (1, 2, 0)
"""

from __future__ import annotations

from collections.abc import Iterable

from milepost.errors import CorruptData
from milepost.positions.ranges import IndexRanges

# Redelivery counts are unsigned 32-bit numbers on the wire.
PLANES_MAX = 32


class RedeliveryCounts:
    """A count for every index, zero unless raised."""

    __slots__ = ("planes",)

    # Plane b holds the indexes whose count has the bit of value 2**b.
    # Invariant: at most PLANES_MAX of them, and the last is not empty.
    planes: list[IndexRanges]

    def __init__(self, planes: Iterable[IndexRanges] = ()) -> None:
        self.planes = list(planes)
        if len(self.planes) > PLANES_MAX:
            raise CorruptData(f"redelivery counts of {len(self.planes)} bits")
        self._drop_empty()

    def raise_all(self, indexes: IndexRanges) -> None:
        """Add one to the count of each."""
        carry = indexes
        for plane in self.planes:
            if not carry:
                return
            both = plane & carry
            plane.add_all(carry)
            plane.discard_all(both)
            carry = both
        if carry:
            assert len(self.planes) < PLANES_MAX, f"a redelivery count past {PLANES_MAX} bits"
            self.planes.append(carry.copy())

    def highest(self, first: int, end: int) -> int:
        """The largest count in `[first, end)`: what an entry with these indexes is delivered with."""
        count = 0
        candidates = [(first, end)]
        for bit in reversed(range(len(self.planes))):
            plane = self.planes[bit]
            having = [found for piece in candidates for found in plane.within(*piece)]
            if having:
                count |= 1 << bit
                candidates = having
        return count

    def run(self, first: int, end: int) -> tuple[int, int]:
        """The count of `first`, and the end of the indexes of `[first, end)` that share it."""
        count = 0
        for bit, plane in enumerate(self.planes):
            if first in plane:
                count |= 1 << bit
                end = plane.next_absent(first, end)
            elif (other := plane.next_index(first)) is not None:
                end = min(end, other)
        return count, end

    def forget(self, first: int, end: int) -> None:
        """Set the counts of `[first, end)` to zero."""
        for plane in self.planes:
            plane.discard(first, end)
        self._drop_empty()

    def forget_all(self, indexes: IndexRanges) -> None:
        """Set the counts of a set to zero."""
        for plane in self.planes:
            plane.discard_all(indexes)
        self._drop_empty()

    def clear(self) -> None:
        """Set all counts to zero."""
        self.planes.clear()

    def counted(self) -> IndexRanges:
        """The indexes whose count is not zero."""
        indexes = IndexRanges()
        for plane in self.planes:
            indexes.add_all(plane)
        return indexes

    def _drop_empty(self) -> None:
        while self.planes and not self.planes[-1].count:
            self.planes.pop()
