"""Slots: hashes, the ring and the ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.dispatch import key_slots as module
from milepost.broker.dispatch.key_slots import FIRST_SLOT, Moved, RangeSlots, RingSlots, hash_of
from milepost.errors import ConsumerAssignError
from milepost.wire.murmur import SLOT_COUNT, key_slot, murmur3_32

ALL = range(FIRST_SLOT, SLOT_COUNT)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=300))
def test_slots_of_keys_are_upstreams(key: bytes) -> None:
    hashed = murmur3_32(key) & 0x7FFFFFFF
    assert RingSlots.slot_of(key) == hashed % 65535 + 1
    assert RangeSlots.slot_of(key) == key_slot(key)


def test_of_a_huge_key_little_is_hashed_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte in Python, five megabytes take most of a second."""
    sizes: list[int] = []

    def counting(data: bytes) -> int:
        sizes.append(len(data))
        return murmur3_32(data)

    monkeypatch.setattr(module, "murmur3_32", counting)
    key = bytes(5 << 20)
    assert hash_of(key) == hash_of(bytes(key))
    assert hash_of(key) != hash_of(key[:-1])
    assert 0 <= hash_of(key) < 1 << 31
    assert max(sizes) < 100
    assert hash_of(key[:4096]) == murmur3_32(key[:4096]) & 0x7FFFFFFF


def test_no_key_has_slot_0() -> None:
    assert hash_of(b"36046") % 65536 == 0
    assert RangeSlots.slot_of(b"36046") == 1
    assert hash_of(b"18120") % 65535 == 0
    assert RingSlots.slot_of(b"18120") == 1


# ── the ring ──────────────────────────────────────────────────────────────────────────────────────


def ring(names: str) -> RingSlots:
    slots = RingSlots()
    for holder, name in enumerate(names):
        slots.join(holder, name, ())
    slots.check()
    return slots


def owners(slots: RingSlots | RangeSlots) -> dict[int, int | None]:
    return {slot: slots.owner_of(slot) for slot in ALL}


def test_without_consumers_no_slot_has_an_owner() -> None:
    assert RingSlots().owner_of(1) is None
    slots = ring("a")
    assert slots.leave(0) == [Moved(1, 65536, 0, None)]
    assert slots.owner_of(1) is None


def test_every_slot_has_an_owner_and_shares_are_fair() -> None:
    shares = Counter(owners(ring("abcdefgh")).values())
    assert set(shares) == set(range(8))
    assert max(shares.values()) < 2 * min(shares.values())


def test_owners_depend_on_names_and_not_on_the_order_of_coming() -> None:
    forth, back = owners(ring("abcd")), owners(ring("dcba"))
    differing = sum(forth[slot] != 3 - back[slot] for slot in ALL)
    assert differing < 65536 / 50  # where two have the same point the first to come has it


def test_the_ring_is_upstreams() -> None:
    """The owner of a slot is whose point follows, points being hashes of name, number and count."""
    slots = ring("ab")
    points = {}
    for holder, name in enumerate("ab"):
        for point in range(100):
            key = f"{name}\0{0}\0{point}".encode()
            points.setdefault((murmur3_32(key) & 0x7FFFFFFF) % 65535 + 1, holder)
    for slot in range(1, 65536, 97):
        following = min((point for point in points if point >= slot), default=min(points))
        assert slots.owner_of(slot) == points[following]


def test_consumers_of_one_name_have_shares_of_their_own() -> None:
    slots = ring("aaaa")
    assert len(set(owners(slots).values())) == 4
    before = owners(slots)
    slots.leave(1)
    slots.join(9, "a", ())  # takes the number that is free
    slots.check()
    after = owners(slots)
    assert all(
        before[slot] == after[slot] for slot in ALL if after[slot] != 9 and before[slot] != 1
    )


@contextmanager
def crowded_ring() -> Iterator[range]:
    """A ring so small that many points fall on each other; its slots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLOT_COUNT", 200)
        patch.setattr(module, "POINTS_PER_CONSUMER", 20)
        module._points_of.cache_clear()
        yield range(FIRST_SLOT, 200)
        module._points_of.cache_clear()


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.one_of(names, st.integers(0, 5)), max_size=20))
def test_what_moved_is_told_exactly(script: list[str | int]) -> None:
    """A name joins, a number leaves."""
    with crowded_ring() as everything:
        slots, present = RingSlots(), []
        before = {slot: slots.owner_of(slot) for slot in everything}
        for holder, step in enumerate(script):
            if isinstance(step, str):
                moved = slots.join(holder, step, ())
                present.append(holder)
                assert {m.new for m in moved} <= {holder}, "others gained by it"
            elif present:
                moved = slots.leave(present.pop(step % len(present)))
            else:
                continue
            slots.check()
            after = {slot: slots.owner_of(slot) for slot in everything}
            told = {slot: (m.old, m.new) for m in moved for slot in range(m.first, m.end)}
            assert sum(m.end - m.first for m in moved) == len(told), "a slot was told twice"
            assert told == {s: (before[s], after[s]) for s in everything if before[s] != after[s]}
            assert set(after.values()) <= ({*present} or {None})
            before = after


def test_after_a_join_and_a_leave_all_is_as_before() -> None:
    slots = ring("abc")
    before = owners(slots)
    slots.join(7, "x", ())
    slots.leave(7)
    slots.check()
    assert owners(slots) == before


# ── ranges ────────────────────────────────────────────────────────────────────────────────────────


def test_ranges_are_inclusive_and_the_rest_is_nobodys() -> None:
    slots = RangeSlots()
    assert slots.join(1, "a", [(0, 9), (20, 29)]) == [Moved(0, 10, None, 1), Moved(20, 30, None, 1)]
    assert slots.join(2, "b", [(10, 10)]) == [Moved(10, 11, None, 2)]
    slots.check()
    probes = [0, 1, 9, 10, 11, 19, 20, 29, 30, 65535]
    assert [slots.owner_of(slot) for slot in probes] == [1, 1, 1, 2, None, None, 1, 1, None, None]
    assert slots.leave(1) == [Moved(0, 10, 1, None), Moved(20, 30, 1, None)]
    slots.check()
    assert [slots.owner_of(slot) for slot in (0, 10, 25)] == [None, 2, None]


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ([], "asks for 0 key ranges"),
        ([(-1, 5)], "-1 to 5 of consumer new: not inside 0 to 65535"),
        ([(5, 65536)], "5 to 65536 of consumer new: not inside"),
        ([(6, 5)], "6 to 5 of consumer new: not inside"),
        ([(0, 5), (5, 9)], "5 to 9 of consumer new overlaps another of its own"),
        ([(0, 50), (10, 20)], "10 to 20 of consumer new overlaps another"),
        ([(150, 250)], "150 to 250 of consumer new overlaps 100 to 200 of consumer 1"),
        ([(50, 100)], "overlaps 100 to 200"),
        ([(200, 200)], "overlaps 100 to 200"),
        ([(120, 130)], "overlaps 100 to 200"),
        ([(0, 65535)], "overlaps 300 to 300"),
        ([(0, 9), (201, 299), (300, 301)], "overlaps 300 to 300"),
        ([(0, 0)] * 65537, "asks for 65537 key ranges"),
    ],
)
def test_ranges_that_cannot_be_had(ranges: list[tuple[int, int]], says: str) -> None:
    slots = RangeSlots()
    slots.join(1, "old", [(100, 200), (300, 300)])
    with pytest.raises(ConsumerAssignError, match=says) as caught:
        slots.join(2, "new", ranges)
    assert caught.value.wire_code == 19
    assert {slots.owner_of(slot) for slot in (0, 100, 200, 201, 300, 301)} == {1, None}
    slots.check()


bounds = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted).map(tuple)


@given(st.lists(st.one_of(st.lists(bounds, max_size=4), st.integers(0, 5)), max_size=12))
def test_ranges_against_a_dict_of_slots(script: list) -> None:
    slots, twin, present = RangeSlots(), {}, []
    for holder, step in enumerate(script):
        if isinstance(step, list):
            asked = [slot for first, last in step for slot in range(first, last + 1)]
            is_possible = (
                bool(asked) and len(set(asked)) == len(asked) and not twin.keys() & {*asked}
            )
            try:
                slots.join(holder, "c", step)
            except ConsumerAssignError:
                assert not is_possible
            else:
                assert is_possible
                twin |= dict.fromkeys(asked, holder)
                present.append(holder)
        elif present:
            gone = present.pop(step % len(present))
            slots.leave(gone)
            twin = {slot: owner for slot, owner in twin.items() if owner != gone}
        slots.check()
        assert [slots.owner_of(slot) for slot in range(45)] == [
            twin.get(slot) for slot in range(45)
        ]
