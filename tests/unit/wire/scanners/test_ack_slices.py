"""Slices of an ACK: together they mean what it means, and none of them means much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.positions.ackset import BATCH_SIZE_MAX, AckSet
from milepost.wire.events import Ack, WireId
from milepost.wire.scanners.ack_slices import RANGES_MAX, distinct, ranges_in, sliced


def an_id(entry_id: int, *words: int) -> WireId:
    return WireId(3, entry_id, ack_set=words)


def test_the_same_id_again_and_again_is_one() -> None:
    assert distinct([an_id(5)] * 1000 + [an_id(6)] * 1000) == [an_id(5), an_id(6)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([an_id(5, 0b110), an_id(5, 0b011)], [an_id(5, 0b010)]),
        ([an_id(5, -1, 0b110), an_id(5, 7)], [an_id(5, 7)]),  # a missing word is acked
        ([an_id(5, 0b110), an_id(5)], [an_id(5)]),  # no words: the whole entry
        ([an_id(5), an_id(5, 0b110)], [an_id(5)]),
        ([an_id(5, 1), an_id(6, 2), an_id(5, 2)], [an_id(5, 0), an_id(6, 2)]),
        ([an_id(6), an_id(5, 1)], [an_id(6), an_id(5, 1)]),
    ],
)
def test_sets_of_one_entry_are_merged(ids: list[WireId], expected: list[WireId]) -> None:
    assert distinct(ids) == expected


def test_merging_is_acking_one_after_the_other() -> None:
    words = [(-1, 0b1011), (0b1101, -1), (-2, 0b11)]
    (merged,) = distinct([an_id(5, *one) for one in words])
    one_by_one = AckSet.full(70)
    for one in words:
        one_by_one &= AckSet.from_ack_words(one, 70)
    assert AckSet.from_ack_words(merged.ack_set, 70) == one_by_one


def meant(ack: Ack, sizes: dict[int, int]) -> dict[int, set[int]]:
    """The batch indexes that an ACK acks, by entry."""
    found: dict[int, set[int]] = {}
    for message_id in ack.ids:
        first, end = ack.window or (0, BATCH_SIZE_MAX)
        size = min(sizes[message_id.entry_id], end) - first
        if not message_id.ack_set:
            runs = [(0, sizes[message_id.entry_id])]
        elif size <= 0:
            runs = []
        else:
            runs = AckSet.from_ack_words(message_id.ack_set, size).acked_runs(first)
        found.setdefault(message_id.entry_id, set()).update(*(range(*run) for run in runs))
    return found


WORDS = st.integers(-(2**63), 2**63 - 1)
SETS = st.one_of(
    st.lists(WORDS, max_size=4),
    st.builds(lambda word, count: [word] * count, WORDS, st.integers(100, 400)),
)


@given(
    st.lists(st.tuples(st.integers(0, 3), SETS), max_size=8),
    st.tuples(*[st.integers(1, 30_000)] * 4),
)
def test_the_slices_mean_what_the_whole_means(
    named: list[tuple[int, list[int]]], sizes: tuple[int, ...]
) -> None:
    ack = Ack(7, False, [an_id(entry, *words) for entry, words in named], 5)
    of_entry = dict(enumerate(sizes))
    slices = list(sliced(ack))
    together: dict[int, set[int]] = {}
    for one in slices:
        assert sum(ranges_in(message_id.ack_set) for message_id in one.ids) <= RANGES_MAX
        assert one.window is None or len(one.ids) == 1
        for entry, indexes in meant(one, of_entry).items():
            together.setdefault(entry, set()).update(indexes)
    assert {e: i for e, i in together.items() if i} == {
        e: i for e, i in meant(ack, of_entry).items() if i
    }
    assert [one.goes_on for one in slices] == [True] * (len(slices) - 1) + [False]
    assert {one.request_id for one in slices} == {5}


EVERY_SECOND = 0x5555_5555_5555_5555


@pytest.mark.parametrize(
    "words", [[], [5], [EVERY_SECOND] * (RANGES_MAX // 32), [-1] * 4000, [0] * 4000]
)
def test_an_ack_that_means_little_is_left_alone(words: list[int]) -> None:
    ack = Ack(7, False, [an_id(1, *words)], 5)
    assert list(sliced(ack)) == [ack]


def test_a_large_set_is_cut_into_windows() -> None:
    whole = Ack(7, False, [an_id(1), an_id(2, *[EVERY_SECOND] * 10), an_id(3)], 5)
    slices = list(sliced(whole))
    assert [one.window for one in slices] == [
        None,
        (0, 256),
        (256, 512),
        (512, BATCH_SIZE_MAX),
        None,
    ]
    assert [[i.entry_id for i in one.ids] for one in slices] == [[1], [2], [2], [2], [3]]


def test_a_cumulative_ack_is_never_cut() -> None:
    """The broker obeys one of one id and no other; it looks for the first bit only."""
    ack = Ack(7, True, [an_id(1, *[EVERY_SECOND] * 100)], 5)
    assert list(sliced(ack)) == [ack]


@given(st.lists(WORDS, min_size=1, max_size=30))
def test_ranges_are_counted_nearly(words: list[int]) -> None:
    made = len(AckSet.from_ack_words(words, len(words) * 64).acked_runs())
    assert ranges_in(words) <= made + len(words)
    assert made <= ranges_in(words) + len(words)
