"""SplitSlots: halving the widest range, and what is told of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.dispatch import split_slots as module
from milepost.broker.dispatch.key_slots import FIRST_SLOT, Moved, RangeSlots
from milepost.broker.dispatch.split_slots import SplitSlots
from milepost.errors import ConsumerAssignError


def test_slots_of_keys_are_those_of_ranges() -> None:
    assert SplitSlots.slot_of(b"36046") == RangeSlots.slot_of(b"36046") == 1


def test_who_comes_takes_the_lower_half_of_the_widest_range() -> None:
    slots = SplitSlots()
    assert slots.owner_of(1) is None
    slots.join(1, "a", ())
    assert slots.join(2, "b", ()) == [Moved(1, 32769, 1, 2)]
    # Two are as wide: the lower one is halved, then the other.
    assert slots.join(3, "c", ()) == [Moved(1, 16385, 2, 3)]
    assert slots.join(4, "d", ()) == [Moved(32769, 49153, 1, 4)]
    slots.check()
    assert [slots.owner_of(slot) for slot in (1, 16384, 16385, 32768, 32769, 49152, 49153, 65535)] == [
        3, 3, 2, 2, 4, 4, 1, 1,
    ]  # fmt: skip


def test_a_range_goes_to_the_one_behind_it_and_the_last_to_the_one_before() -> None:
    slots = SplitSlots()
    for holder in (1, 2, 3):
        slots.join(holder, "a", ())
    assert slots.leave(3) == [Moved(1, 16385, 3, 2)]
    assert slots.leave(1) == [Moved(32769, 65536, 1, 2)]
    assert slots.leave(2) == [Moved(1, 65536, 2, None)]
    assert slots.owner_of(1) is None
    slots.check()


def test_when_no_range_can_be_halved_nobody_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOT_COUNT", 4)
    slots = SplitSlots()
    for holder in range(4):
        slots.join(holder, "a", ())
    with pytest.raises(ConsumerAssignError, match="consumer late"):
        slots.join(9, "late", ())
    slots.check()


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=30))
def test_what_moved_is_told_exactly(script: list[int | None]) -> None:
    """None joins, a number leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLOT_COUNT", 200)
        everything = range(FIRST_SLOT, 200)
        slots, present = SplitSlots(), []
        before = dict.fromkeys(everything)
        for holder, step in enumerate(script):
            if step is None:
                moved = slots.join(holder, "a", ())
                present.append(holder)
            elif present:
                moved = slots.leave(present.pop(step % len(present)))
            else:
                continue
            slots.check()
            after = {slot: slots.owner_of(slot) for slot in everything}
            told = {slot: (m.old, m.new) for m in moved for slot in range(m.first, m.end)}
            assert told == {s: (before[s], after[s]) for s in everything if before[s] != after[s]}
            assert set(after.values()) <= ({*present} or {None})
            before = after
