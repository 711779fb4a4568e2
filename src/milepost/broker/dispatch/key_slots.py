"""The hash slots of Key_Shared, and the consumer that owns each.

A key hashes to a slot, 1 to 65535; a slot has one owner at a time. Two ways to share them out, and a
third in split_slots.py:

- `RingSlots` (AUTO_SPLIT): a ring with 100 points a consumer; a slot belongs to the next point. Of
  upstream's two ways to split this is its default, and the better: a consumer that comes or leaves
  moves only what it gets or had, spread over all others, where halving the widest range takes it all
  from one and leaves shares that differ by a factor of two. Points depend on names alone, so that
  after a restart keys find their consumers again.
- `RangeSlots` (STICKY): each consumer names its ranges. Slots that no consumer named have no owner.

Hash, points and slots are upstream's, number by number: a key has its consumer wherever it is served,
and a client that names ranges names the right ones. Consumers are known by their holder numbers (see
cursor). Joining and leaving tell which slots moved; what may be delivered meanwhile is key_shared.py's.

    >>> slots = RingSlots()
    >>> slots.join(1, "a", ())
    [Moved(first=1, end=65536, old=None, new=1)]
    >>> share = sum(moved.end - moved.first for moved in slots.join(2, "b", ()))
    >>> 20000 < share < 45000, {slots.owner_of(slot) for slot in range(1, 65536)}
    (True, {1, 2})
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from milepost.errors import ConsumerAssignError
from milepost.wire.murmur import SLOT_COUNT, murmur3_32

POINTS_PER_CONSUMER: Final = 100

# Slot 0 means "no key" upstream.
FIRST_SLOT: Final = 1

# Hashes of keys that are kept, for the whole broker, and how long such a key may be: that bounds the
# memory. Pure Python hashes about eight bytes a microsecond.
_KEYS_CACHED_MAX: Final = 65_536
_KEY_CACHED_SIZE_BYTES_MAX: Final = 128

# A longer key is hashed by its digest, so that no producer can make a delivery take seconds. It may
# be served by another consumer than upstream would choose; it is the same one for all its messages.
_KEY_HASHED_SIZE_BYTES_MAX: Final = 4096


class Moved(NamedTuple):
    """Slots `[first, end)` changed their owner; None means no owner."""

    first: int
    end: int
    old: int | None
    new: int | None


def hash_of(key: bytes) -> int:
    """The hash of a key, 31 bits."""
    if len(key) <= _KEY_CACHED_SIZE_BYTES_MAX:
        return _cached_hash_of(key)
    if len(key) > _KEY_HASHED_SIZE_BYTES_MAX:
        key = blake2b(key).digest()
    return murmur3_32(key) & 0x7FFF_FFFF


@lru_cache(_KEYS_CACHED_MAX)
def _cached_hash_of(key: bytes) -> int:
    return murmur3_32(key) & 0x7FFF_FFFF


class RingSlots:
    """AUTO_SPLIT: every slot has an owner as soon as there is a consumer."""

    __slots__ = ("_claims", "_names", "_owners", "_points")

    # Slots that are points, in order.  Invariant: the keys of `_claims`.
    _points: list[int]

    # The owner of each point.  Invariant: the first claim to the point at the same place.
    _owners: list[int]

    # Who has a point at a slot, in order of coming: the others inherit it.
    _claims: dict[int, list[int]]

    # Name of each consumer, and its number among those of that name, the lowest that was free.
    _names: dict[int, tuple[str, int]]

    def __init__(self) -> None:
        self._points = []
        self._owners = []
        self._claims = {}
        self._names = {}

    @staticmethod
    def slot_of(key: bytes) -> int:
        return hash_of(key) % (SLOT_COUNT - 1) + 1

    def owner_of(self, slot: int) -> int | None:
        """Whose is the first point at or behind the slot, or else the first of all."""
        owners = self._owners
        if not owners:
            return None
        at = bisect_left(self._points, slot)
        return owners[at if at < len(owners) else 0]

    def join(self, holder: int, name: str, ranges: Sequence[tuple[int, int]]) -> list[Moved]:
        """A consumer comes. `ranges` are for those who choose them."""
        assert holder not in self._names, f"consumer {holder} is here already"
        taken = {number for other, number in self._names.values() if other == name}
        number = next(number for number in range(len(taken) + 1) if number not in taken)
        self._names[holder] = name, number
        moved: list[Moved] = []
        for point in _points_of(name, number):
            claims = self._claims.get(point)
            if claims is not None:
                claims.append(holder)
                continue
            self._claims[point] = [holder]
            at = bisect_left(self._points, point)
            following = self._owners[at % len(self._owners)] if self._owners else None
            self._points.insert(at, point)
            self._owners.insert(at, holder)
            self._tell(moved, at, following, holder)
        return moved

    def leave(self, holder: int) -> list[Moved]:
        """A consumer is gone."""
        moved: list[Moved] = []
        for point in _points_of(*self._names.pop(holder)):
            claims = self._claims[point]
            at = bisect_left(self._points, point)
            was_owner = claims[0] == holder
            claims.remove(holder)
            if claims:
                self._owners[at] = claims[0]
                if was_owner:
                    self._tell(moved, at, holder, claims[0])
                continue
            del self._claims[point]
            following = self._owners[(at + 1) % len(self._owners)]
            is_last = len(self._owners) == 1
            self._tell(moved, at, holder, None if is_last else following)
            del self._points[at], self._owners[at]
        return moved

    def _tell(self, moved: list[Moved], at: int, old: int | None, new: int | None) -> None:
        """The slots of the point at a place changed hands."""
        if old == new:
            return
        point = self._points[at]
        if at:
            moved.append(Moved(self._points[at - 1] + 1, point + 1, old, new))
            return
        last = self._points[-1]
        if last == point:
            moved.append(Moved(FIRST_SLOT, SLOT_COUNT, old, new))
            return
        moved.append(Moved(FIRST_SLOT, point + 1, old, new))
        if last + 1 < SLOT_COUNT:
            moved.append(Moved(last + 1, SLOT_COUNT, old, new))

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        assert self._points == sorted(self._claims), "points and claims"
        assert self._owners == [self._claims[point][0] for point in self._points], "owners"
        assert len(set(self._names.values())) == len(self._names), self._names


class RangeSlots:
    """STICKY: a slot has an owner if a consumer asked for it."""

    __slots__ = ("_firsts", "_ranges")

    # First slots of all ranges, in order.  Invariant: the keys of `_ranges`.
    _firsts: list[int]

    # First slot → last slot and owner.  Invariant: no two overlap.
    _ranges: dict[int, tuple[int, int]]

    def __init__(self) -> None:
        self._firsts = []
        self._ranges = {}

    @staticmethod
    def slot_of(key: bytes) -> int:
        return hash_of(key) % SLOT_COUNT or FIRST_SLOT

    def owner_of(self, slot: int) -> int | None:
        at = bisect_right(self._firsts, slot) - 1
        if at < 0:
            return None
        last, owner = self._ranges[self._firsts[at]]
        return owner if slot <= last else None

    def join(self, holder: int, name: str, ranges: Sequence[tuple[int, int]]) -> list[Moved]:
        """A consumer comes with its ranges, first and last slot each, or `ConsumerAssignError`."""
        if not 0 < len(ranges) <= SLOT_COUNT:
            raise ConsumerAssignError(f"consumer {name} asks for {len(ranges)} key ranges")
        ranges = sorted(ranges)
        before = -1
        for first, last in ranges:
            if not 0 <= first <= last < SLOT_COUNT:
                raise ConsumerAssignError(
                    f"key range {first} to {last} of consumer {name}: not inside 0 to {SLOT_COUNT - 1}"
                )
            if first <= before:
                raise ConsumerAssignError(
                    f"key range {first} to {last} of consumer {name} overlaps another of its own"
                )
            self._refuse_overlap(first, last, name)
            before = last
        for first, last in ranges:
            insort(self._firsts, first)
            self._ranges[first] = last, holder
        return [Moved(first, last + 1, None, holder) for first, last in ranges]

    def leave(self, holder: int) -> list[Moved]:
        """A consumer is gone, and its ranges with it."""
        gone = [first for first in self._firsts if self._ranges[first][1] == holder]
        moved = [Moved(first, self._ranges.pop(first)[0] + 1, holder, None) for first in gone]
        self._firsts = [first for first in self._firsts if first in self._ranges]
        return moved

    def _refuse_overlap(self, first: int, last: int, name: str) -> None:
        at = bisect_right(self._firsts, last) - 1
        if at >= 0:
            other_first = self._firsts[at]
            other_last, owner = self._ranges[other_first]
            if other_last >= first:
                raise ConsumerAssignError(
                    f"key range {first} to {last} of consumer {name} overlaps "
                    f"{other_first} to {other_last} of consumer {owner}"
                )

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        assert self._firsts == sorted(self._ranges), "firsts and ranges"
        before = -1
        for first in self._firsts:
            assert first > before, f"slot {first} has two owners"
            before = self._ranges[first][0]


@lru_cache(1024)
def _points_of(name: str, number: int) -> tuple[int, ...]:
    """The points of the consumer that is the `number`-th of its name."""
    return tuple(
        (murmur3_32(f"{name}\0{number}\0{point}".encode()) & 0x7FFF_FFFF) % (SLOT_COUNT - 1) + 1
        for point in range(POINTS_PER_CONSUMER)
    )
