"""KeySharedAssignment: holding, draining and letting go, by example."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.dispatch.key_shared import KeySharedAssignment
from milepost.errors import ConsumerAssignError
from milepost.positions.ranges import IndexRanges


@pytest.fixture
def assignment() -> KeySharedAssignment:
    """Consumer 1 has every slot."""
    assignment = KeySharedAssignment()
    assignment.join(1, "a")
    return assignment


def moving_slot(assignment: KeySharedAssignment, name: str = "b") -> int:
    """A slot that a consumer of that name would take."""
    (first, *_) = assignment.join(99, name)
    assignment.leave(99)
    return first.first


def test_a_slot_goes_to_its_owner(assignment: KeySharedAssignment) -> None:
    assert assignment.choose(5) == 1
    assignment.delivered(1, 5, 0, 1)
    assert assignment.choose(5) == 1
    assignment.check()


def test_without_consumers_nobody_is_chosen(assignment: KeySharedAssignment) -> None:
    assignment.leave(1)
    assert assignment.choose(5) is None


def test_a_moved_slot_waits_until_all_of_it_is_settled(assignment: KeySharedAssignment) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 0, 1)
    assignment.delivered(1, slot, 7, 8)
    assignment.join(2, "b")
    assert assignment.choose(slot) is None
    assert assignment.settled([(7, 8)]) == []
    assert assignment.choose(slot) is None
    assert assignment.settled([(0, 1)]) == [slot]
    assert assignment.choose(slot) == 2
    assignment.check()


def test_a_moved_slot_that_nobody_holds_goes_to_its_new_owner(
    assignment: KeySharedAssignment,
) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 0, 1)
    assignment.settled([(0, 1)])
    assignment.join(2, "b")
    assert assignment.choose(slot) == 2


def test_a_slot_that_comes_back_to_its_holder_waits_no_more(
    assignment: KeySharedAssignment,
) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 0, 1)
    assignment.join(2, "b")
    assert assignment.choose(slot) is None
    assignment.leave(2)
    assert assignment.choose(slot) == 1


def test_a_holder_that_leaves_lets_go(assignment: KeySharedAssignment) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 0, 1)
    assignment.join(2, "b")
    assert assignment.choose(slot) is None
    moved = assignment.leave(1)
    assert {m.new for m in moved} == {2}
    assert assignment.choose(slot) == 2
    assignment.check()


def test_it_is_only_worth_another_look_when_a_slot_was_refused(
    assignment: KeySharedAssignment,
) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 0, 1)
    assert assignment.settled([(0, 1)]) == []
    assignment.delivered(1, slot, 1, 2)
    assignment.join(2, "b")
    assert assignment.settled([(1, 2)]) == []  # nobody had asked
    assert assignment.choose(slot) == 2


def test_an_index_settles_once(assignment: KeySharedAssignment) -> None:
    assignment.delivered(1, 5, 0, 1)
    assignment.delivered(1, 5, 1, 2)
    for _ in range(3):
        assignment.settled([(0, 1), (77, 78)])
    assignment.check()
    assert assignment._holds[5].entry_count == 1


def test_two_consumers_never_hold_one_slot(assignment: KeySharedAssignment) -> None:
    assignment.delivered(1, 5, 0, 1)
    with pytest.raises(AssertionError, match="slot 5 is with 1, delivered to 2"):
        assignment.delivered(2, 5, 1, 2)


# ── batches ───────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_holds_until_each_of_its_messages_is_settled(
    assignment: KeySharedAssignment,
) -> None:
    assignment.delivered(1, 5, 10, 14)
    for index in (12, 10, 13):
        assignment.settled([(index, index + 1)])
        assignment.check()
        assert 5 in assignment._holds
    assignment.settled([(11, 12)])
    assert 5 not in assignment._holds
    assignment.check()


def test_of_a_batch_partly_acked_only_the_rest_is_waited_for(
    assignment: KeySharedAssignment,
) -> None:
    assignment.delivered(1, 5, 10, 14, [(10, 11), (12, 14)])
    assignment.settled([(10, 11), (12, 14)])
    assert 5 not in assignment._holds
    assignment.delivered(1, 5, 10, 14, [(11, 12)])
    assignment.delivered(1, 5, 10, 14, [(13, 14)])
    assignment.settled([(10, 12)])
    assert 5 in assignment._holds
    assignment.settled([(10, 14)])
    assert 5 not in assignment._holds
    assignment.check()


@pytest.mark.parametrize("settled", [(0, 100), (0, 9), (1, 8), (2, 7), (3, 5)])
def test_a_range_over_many_entries_settles_each(
    assignment: KeySharedAssignment, settled: tuple[int, int]
) -> None:
    spans = [(0, 1), (1, 2), (2, 6), (6, 7), (7, 9)]
    for slot, (first, end) in enumerate(spans, 1):
        assignment.delivered(1, slot, first, end)
    assignment.settled([settled])
    assignment.check()
    outside = [set(range(first, end)) - set(range(*settled)) for first, end in spans]
    assert set(assignment._holds) == {slot for slot, rest in enumerate(outside, 1) if rest}


def test_a_release_keeps_what_is_still_inflight(assignment: KeySharedAssignment) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 10, 14)
    assignment.delivered(1, slot, 14, 15)
    assignment.join(2, "b")
    assert assignment.choose(slot) is None
    assert assignment.released(1, IndexRanges([(11, 12)])) == []
    assignment.check()
    assert assignment.choose(slot) is None
    assert assignment.released(2, IndexRanges()) == []
    assert assignment.released(1, IndexRanges()) == [slot]
    assert assignment.choose(slot) == 2


# ── the rest ──────────────────────────────────────────────────────────────────────────────────────


def test_a_release_looks_at_what_was_with_its_consumer_only(
    assignment: KeySharedAssignment,
) -> None:
    """A client that holds nothing may say that it gives everything back as often as it likes."""

    class Looked(dict[int, Any]):
        def values(self) -> Any:
            raise AssertionError("what others hold was looked at")

    slot = moving_slot(assignment)
    assignment.join(2, "b")
    assignment.delivered(2, slot, 7, 8)
    for first in range(100, 200):
        assignment.delivered(1, (slot + 1 + first) % 1000, first, first + 1)
    assignment._entries = Looked(assignment._entries)
    assert assignment.released(2, IndexRanges()) == []
    assert assignment.released(2, IndexRanges()) == []
    assert 7 not in assignment._entries
    assert len(assignment._entries) == 100
    assignment.check()


def test_a_seek_lets_everything_go(assignment: KeySharedAssignment) -> None:
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 10, 14)
    assignment.join(2, "b")
    assert assignment.choose(slot) is None
    assignment.clear()
    assert assignment.choose(slot) == 2
    assignment.check()


def test_without_order_nothing_drains() -> None:
    assignment = KeySharedAssignment(is_ordered=False)
    assignment.join(1, "a")
    slot = moving_slot(assignment)
    assignment.delivered(1, slot, 0, 1)
    assignment.join(2, "b")
    assert assignment.choose(slot) == 2
    assert assignment.settled([(0, 1)]) == []
    assert assignment.choose(slot) == 2


def test_sticky_consumers_get_the_ranges_they_name() -> None:
    assignment = KeySharedAssignment(sticky=True)
    assignment.join(1, "a", [(0, 100)])
    with pytest.raises(ConsumerAssignError):
        assignment.join(2, "b", [(100, 200)])
    with pytest.raises(ConsumerAssignError):
        assignment.join(2, "b", None)
    assignment.join(2, "b", [(101, 200)])
    assert [assignment.choose(slot) for slot in (100, 101, 201)] == [1, 2, None]
    assignment.leave(2)
    assert assignment.choose(101) is None
    assignment.check()


def test_the_two_modes_number_keys_differently() -> None:
    """As upstream does: the ring has no slot 0, a range may name it."""
    key = b"some key"
    assert KeySharedAssignment().slot_of(key) != KeySharedAssignment(sticky=True).slot_of(key)
