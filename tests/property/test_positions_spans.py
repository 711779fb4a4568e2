"""Spans against the list of their indexes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import InvalidRange
from milepost.positions.spans import INDEX_MAX, Span
from milepost.testing.strategies import spans


@given(spans())
def test_a_span_is_the_list_of_its_indexes(span: Span) -> None:
    indexes = list(range(span.first_index, span.first_index + span.count))
    assert (span.first_index, span.last_index, span.end_index - 1) == (
        indexes[0],
        indexes[-1],
        indexes[-1],
    )
    assert [span.index_of(place) for place in range(span.count)] == indexes
    assert all(index in span for index in indexes)
    assert indexes[0] - 1 not in span
    assert span.end_index not in span


@given(st.integers(-(2**65), 2**65), st.integers(-(2**65), 2**65))
def test_a_span_is_made_exactly_when_its_bounds_are(first_index: int, count: int) -> None:
    possible = first_index >= 0 and count >= 1 and first_index + count <= INDEX_MAX
    try:
        span = Span(first_index, count)
    except InvalidRange:
        assert not possible
    else:
        assert possible
        assert span.end_index == first_index + count
