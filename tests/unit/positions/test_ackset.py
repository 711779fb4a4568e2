"""Ack sets: words on the wire, merging, runs, and what no words mean."""

from __future__ import annotations

import copy

import pytest

from milepost.errors import InvalidAckSet
from milepost.positions.ackset import BATCH_SIZE_MAX, AckSet


def acked(size: int, *batch_indexes: int) -> AckSet:
    pending = AckSet.full(size)
    for batch_index in batch_indexes:
        pending = pending.without(batch_index)
    return pending


@pytest.mark.parametrize(
    ("pending", "words"),
    [
        (acked(5, 0, 1), [28]),
        (AckSet.full(64), [-1]),
        (AckSet.empty(3), []),
        (acked(70, *range(64, 70)), [-1]),  # the second word is zero and left out
        (acked(65, *range(64)), [0, 1]),  # a zero word in front of another stays
        (AckSet.full(65), [-1, 1]),
        (acked(64, *range(63)), [-(2**63)]),
        (acked(10, *range(9)), [512]),
    ],
)
def test_words_are_laid_out_as_in_javas_bitset(pending: AckSet, words: list[int]) -> None:
    assert pending.to_ack_words() == words
    assert AckSet.from_ack_words(words, pending.size) == pending


def test_no_words_in_an_ack_ack_the_whole_entry() -> None:
    assert AckSet.from_ack_words([], 5) == AckSet.empty(5)
    assert AckSet.empty(5).to_ack_words() == []


def test_no_words_in_a_message_ack_nothing() -> None:
    assert AckSet.from_message_words([], 5) == AckSet.full(5)
    assert AckSet.full(5).to_message_words() == []


def test_with_words_both_commands_mean_the_same() -> None:
    assert AckSet.from_message_words([28], 5) == AckSet.from_ack_words([28], 5)
    assert acked(5, 0, 1).to_message_words() == acked(5, 0, 1).to_ack_words() == [28]


def test_words_of_zero_say_that_all_is_acked_in_any_command() -> None:
    assert AckSet.from_message_words([0], 5).is_empty
    assert AckSet.from_ack_words([0, 0], 5).is_empty


def test_a_message_with_nothing_left_has_no_words() -> None:
    # As no words at all it would mean the opposite.
    with pytest.raises(AssertionError, match="not delivered"):
        AckSet.empty(5).to_message_words()


def test_missing_words_mean_acked() -> None:
    assert AckSet.from_ack_words([-1], 200).acked_runs() == [(64, 200)]


@pytest.mark.parametrize("words", [[-1], [31, -1, -1], [-1] * 100_000])
def test_bits_past_the_batch_mean_nothing(words: list[int]) -> None:
    assert AckSet.from_ack_words(words, 5) == AckSet.full(5)


def test_merging_keeps_the_acks_of_both() -> None:
    # The official client starts full again after a partial redelivery and sends 511 for the
    # last of ten; only together with what is stored does the batch complete.
    stored = AckSet.from_ack_words([512], 10)
    assert (stored & AckSet.from_ack_words([511], 10)).is_empty
    assert acked(5, 0) & acked(5, 3) == acked(5, 0, 3)


def test_sets_of_two_batches_do_not_merge() -> None:
    with pytest.raises(InvalidAckSet, match="a batch of 5 and one of 6"):
        AckSet.full(5) & AckSet.full(6)


def test_acking_twice_is_acking_once() -> None:
    assert acked(5, 2, 2) == acked(5, 2)
    assert acked(5, 2).acked_runs() == [(2, 3)]


@pytest.mark.parametrize("batch_index", [-1, 5])
def test_a_place_outside_the_batch_is_refused(batch_index: int) -> None:
    with pytest.raises(InvalidAckSet, match=f"batch index {batch_index} in a batch of 5"):
        AckSet.full(5).without(batch_index)


def test_everything_below_a_place_is_acked_at_once() -> None:
    assert acked(5, 4).without_before(2) == acked(5, 0, 1, 4)
    assert AckSet.full(5).without_before(0) == AckSet.full(5)
    assert AckSet.full(5).without_before(5) == AckSet.empty(5)
    for batch_index in (-1, 6):
        with pytest.raises(InvalidAckSet):
            AckSet.full(5).without_before(batch_index)


def test_counts_and_runs_tell_the_same_story() -> None:
    pending = acked(10, 0, 1, 4, 9)
    assert (pending.pending_count, pending.acked_count) == (6, 4)
    assert pending.acked_runs() == [(0, 2), (4, 5), (9, 10)]


def test_runs_count_from_where_the_caller_says() -> None:
    assert acked(5, 0, 1).acked_runs(first_index=100) == [(100, 102)]


def test_full_and_empty_have_one_run_or_none() -> None:
    for size in (1, 63, 64, 65, 1_000):
        full, empty = AckSet.full(size), AckSet.empty(size)
        assert (full.is_full, full.is_empty, full.pending_count) == (True, False, size)
        assert (empty.is_full, empty.is_empty, empty.pending_count) == (False, True, 0)
        assert (full.acked_runs(), empty.acked_runs()) == ([], [(0, size)])


@pytest.mark.parametrize("size", [0, -1, BATCH_SIZE_MAX + 1, 2**62])
def test_sizes_of_no_batch_are_refused(size: int) -> None:
    for make in (
        AckSet.full,
        AckSet.empty,
        lambda size: AckSet.from_ack_words([1], size),
        lambda size: AckSet.from_message_words([], size),
    ):
        with pytest.raises(InvalidAckSet, match=f"a batch of {size} messages"):
            make(size)


def test_the_largest_batch_is_fine() -> None:
    assert AckSet.full(BATCH_SIZE_MAX).pending_count == BATCH_SIZE_MAX


@pytest.mark.parametrize("word", [2**63, -(2**63) - 1, 2**200])
def test_words_past_64_bits_are_refused(word: int) -> None:
    with pytest.raises(InvalidAckSet, match="not a signed 64-bit number"):
        AckSet.from_ack_words([word], 5)


def test_a_set_is_a_value() -> None:
    assert acked(5, 1) == acked(5, 1)
    assert acked(5, 1) != AckSet.full(5)
    assert AckSet(0b11, 2) != AckSet(0b11, 3)
    assert AckSet(1, 1) != 1
    assert len({acked(5, 1), acked(5, 1), AckSet.full(5)}) == 2
    assert copy.deepcopy(acked(5, 1)) == acked(5, 1)
    assert repr(acked(5, 1)) == "AckSet(0x1d, 5)"
