"""Ack sets against a dumb twin: the set of batch indexes still to be acked."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from stage.acksets import is_pending, pending_runs

from milepost.positions.ackset import AckSet
from milepost.testing.strategies import ack_sets

Twin = frozenset[int]


def twin(pending: AckSet) -> Twin:
    return frozenset(i for i in range(pending.size) if is_pending(pending, i))


def twin_of_words(words: list[int], size: int) -> Twin:
    """Java's layout, one bit at a time."""
    return frozenset(
        i for i in range(size) if i // 64 < len(words) and words[i // 64] >> (i % 64) & 1
    )


def members(runs: list[tuple[int, int]]) -> list[int]:
    return [index for first, end in runs for index in range(first, end)]


words_of_the_wire = st.lists(
    st.sampled_from([0, 1, -1, -(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1), max_size=5
)


@given(words_of_the_wire, st.integers(1, 200))
def test_words_are_read_bit_by_bit(words: list[int], size: int) -> None:
    assert twin(AckSet.from_ack_words(words, size)) == twin_of_words(words, size)
    expected = twin_of_words(words, size) if words else frozenset(range(size))
    assert twin(AckSet.from_message_words(words, size)) == expected


@given(ack_sets())
def test_words_bring_the_set_back(pending: AckSet) -> None:
    words = pending.to_ack_words()
    assert not words or words[-1] != 0
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert AckSet.from_ack_words(words, pending.size) == pending
    if not pending.is_empty:
        words = pending.to_message_words()
        assert AckSet.from_message_words(words, pending.size) == pending


@given(ack_sets(), st.integers(0, 2**40))
def test_runs_are_the_set_and_as_few_as_can_be(pending: AckSet, first_index: int) -> None:
    still = sorted(i + first_index for i in twin(pending))
    done = sorted(set(range(first_index, first_index + pending.size)) - set(still))
    for runs, expected in (
        (pending_runs(pending, first_index), still),
        (pending.acked_runs(first_index), done),
    ):
        assert members(runs) == expected
        assert all(first < end for first, end in runs)
        assert all(one[1] < other[0] for one, other in pairwise(runs))


@given(ack_sets())
def test_counts_are_those_of_the_set(pending: AckSet) -> None:
    assert pending.pending_count == len(twin(pending))
    assert pending.pending_count + pending.acked_count == pending.size
    assert pending.is_empty == (not twin(pending))
    assert pending.is_full == (len(twin(pending)) == pending.size)


@given(st.data(), st.integers(1, 200))
def test_merging_is_intersection_in_any_order_and_number(data: st.DataObject, size: int) -> None:
    one, two, three = (data.draw(ack_sets(size=size)) for _ in range(3))
    assert twin(one & two) == twin(one) & twin(two)
    assert one & two == two & one
    assert (one & two) & three == one & (two & three)
    assert one & one == one
    assert one & AckSet.full(size) == one


@given(ack_sets(), st.data())
def test_one_ack_takes_one_message_and_a_cumulative_one_all_below(
    pending: AckSet, data: st.DataObject
) -> None:
    batch_index = data.draw(st.integers(0, pending.size - 1))
    assert twin(pending.without(batch_index)) == twin(pending) - {batch_index}
    left = frozenset(i for i in twin(pending) if i >= batch_index)
    assert twin(pending.without_before(batch_index)) == left
