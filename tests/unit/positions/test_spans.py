"""Spans: the arithmetic between an index and a place in a batch."""

from __future__ import annotations

import pickle

import pytest

from milepost.errors import InvalidRange
from milepost.positions.spans import INDEX_MAX, Span


def test_a_span_is_half_open() -> None:
    span = Span(first_index=10, count=5)
    assert (span.first_index, span.count) == (10, 5)
    assert (span.last_index, span.end_index) == (14, 15)
    assert [index in span for index in (9, 10, 14, 15)] == [False, True, True, False]
    assert str(span) == "[10, 15)"


def test_a_place_in_the_batch_has_an_index() -> None:
    span = Span(10, 5)
    assert [span.index_of(place) for place in range(5)] == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("batch_index", [-1, 5, 2**31 - 1])
def test_a_place_outside_the_batch_has_no_index(batch_index: int) -> None:
    with pytest.raises(InvalidRange, match=f"batch index {batch_index} in a batch of 5"):
        Span(10, 5).index_of(batch_index)


@pytest.mark.parametrize(
    ("first_index", "count"),
    [(-1, 1), (0, 0), (0, -1), (5, -5), (INDEX_MAX, 1), (0, INDEX_MAX + 1), (2**64, 1), (-5, 10)],
)
def test_spans_of_no_entry_are_refused(first_index: int, count: int) -> None:
    with pytest.raises(InvalidRange, match=f"{count} messages from index {first_index}"):
        Span(first_index, count)


def test_the_last_span_of_all_ends_at_the_limit() -> None:
    assert Span(INDEX_MAX - 1, 1).end_index == INDEX_MAX


def test_replacing_a_number_does_not_go_round_the_check() -> None:
    assert Span(10, 5)._replace(count=6) == Span(10, 6)
    with pytest.raises(InvalidRange):
        Span(10, 5)._replace(count=0)


def test_only_numbers_are_in_a_span() -> None:
    assert "10" not in Span(10, 5)
    assert None not in Span(10, 5)


def test_a_span_unpacks_sorts_and_pickles() -> None:
    first_index, count = Span(10, 5)
    assert (first_index, count) == (10, 5)
    assert sorted([Span(15, 1), Span(10, 5)]) == [Span(10, 5), Span(15, 1)]
    assert pickle.loads(pickle.dumps(Span(10, 5))) == Span(10, 5)
