"""Shares out the slots of Key_Shared in AUTO_SPLIT mode.

A new consumer takes the lower half of the widest range.

Upstream's other way to share out slots, for operators who switch consistent hashing off
(`subscriptionKeySharedUseConsistentHashing`). With few keys and two consumers both get some, whatever
they are called; in exchange shares differ by a factor of two, and owners depend on the order of coming.
What a slot is, and what joining and leaving tell, is key_slots.py's.

    >>> slots = SplitSlots()
    >>> _ = slots.join(1, "a", ())
    >>> slots.join(2, "b", ())
    [Moved(first=1, end=32769, old=1, new=2)]
    >>> slots.owner_of(32768), slots.owner_of(32769)
    (2, 1)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from milepost.broker.dispatch.key_slots import FIRST_SLOT, Moved, RangeSlots
from milepost.errors import ConsumerAssignError
from milepost.wire.murmur import SLOT_COUNT


class SplitSlots:
    """AUTO_SPLIT: every slot has an owner as soon as there is a consumer."""

    __slots__ = ("_lasts", "_owners")

    # Last slots of the ranges, in order; a range begins behind the one before it, the first with 0.
    # Invariant: the last is SLOT_COUNT, if there are any.
    _lasts: list[int]

    # The owner of each range.  Invariant: a consumer has exactly one.
    _owners: list[int]

    def __init__(self) -> None:
        self._lasts = []
        self._owners = []

    slot_of = staticmethod(RangeSlots.slot_of)

    def owner_of(self, slot: int) -> int | None:
        return self._owners[bisect_left(self._lasts, slot)] if self._owners else None

    def join(self, holder: int, name: str, ranges: Sequence[tuple[int, int]]) -> list[Moved]:
        """A consumer comes, or `ConsumerAssignError` if no range can be halved."""
        assert holder not in self._owners, f"consumer {holder} is here already"
        if not self._owners:
            self._lasts, self._owners = [SLOT_COUNT], [holder]
            return [Moved(FIRST_SLOT, SLOT_COUNT, None, holder)]
        # Of several ranges of the same width, the lowest.
        at = max(range(len(self._lasts)), key=lambda at: (self._width(at), -at))
        width = self._width(at)
        if width < 2:
            raise ConsumerAssignError(f"no range of keys is left for consumer {name}")
        old = self._owners[at]
        self._lasts.insert(at, self._lasts[at] - width // 2)
        self._owners.insert(at, holder)
        return [self._moved(at, old, holder)]

    def leave(self, holder: int) -> list[Moved]:
        """A consumer is gone; its range goes to the one behind it, or the last to the one before."""
        at = self._owners.index(holder)
        if len(self._owners) == 1:
            self._lasts, self._owners = [], []
            return [Moved(FIRST_SLOT, SLOT_COUNT, holder, None)]
        heir = self._owners[at + 1] if at + 1 < len(self._owners) else self._owners[at - 1]
        moved = self._moved(at, holder, heir)
        del self._lasts[min(at, len(self._lasts) - 2)], self._owners[at]
        return [moved]

    def _width(self, at: int) -> int:
        return self._lasts[at] - (self._lasts[at - 1] if at else 0)

    def _moved(self, at: int, old: int, new: int) -> Moved:
        first = self._lasts[at - 1] + 1 if at else FIRST_SLOT
        return Moved(first, min(self._lasts[at] + 1, SLOT_COUNT), old, new)

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        assert self._lasts == sorted(set(self._lasts)), self._lasts
        assert not self._lasts or self._lasts[-1] == SLOT_COUNT, self._lasts
        assert len(self._owners) == len(set(self._owners)) == len(self._lasts), self._owners
