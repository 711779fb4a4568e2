"""The strip: columns at the edges of a range, and what a million holes cost."""

from __future__ import annotations

import pytest

from milepost.cursor.cursor import Cursor
from milepost.cursor.strip import STEP
from milepost.errors import InvalidRange
from milepost.positions.ranges import IndexRanges


def test_columns_add_up_to_the_counts_of_the_cursor_at_every_zoom() -> None:
    cursor = Cursor(first=0, end=100_000)
    cursor.deliver(0, 50_000, holder=1)
    cursor.ack([(index, index + 1) for index in range(0, 50_000, 3)], holder=1)
    cursor.delay(90_000, 90_500, due_ms=1)
    cursor.trim(1_000)
    counts = cursor.counts()
    strip = cursor.strip()
    for count in (1, 2, 999, 2_000, 100_000, 10**6):
        columns = strip.columns(0, cursor.end, count)
        assert len(columns.acked) == min(count, cursor.end)
        assert sum(columns.ready) == counts.ready
        assert sum(columns.inflight) == counts.inflight
        assert sum(columns.delayed) == counts.delayed == 500
        assert sum(columns.acked) == counts.acked
        assert sum(columns.trimmed) == 1_000


def test_a_column_is_an_index_where_there_are_no_fewer_columns_than_indexes() -> None:
    cursor = Cursor(first=0, end=6)
    cursor.deliver(1, 4, holder=7)
    cursor.ack([(2, 3)])
    columns = cursor.strip().columns(0, 6, 500)
    assert (columns.ready, columns.inflight) == ([1, 0, 0, 0, 1, 1], [0, 1, 0, 1, 0, 0])
    assert columns.acked == [0, 0, 1, 0, 0, 0]


def test_what_is_not_there_yet_is_in_no_state() -> None:
    columns = Cursor(first=0, end=5).strip().columns(3, 9, 3)
    assert (columns.ready, columns.acked, columns.trimmed) == ([2, 0, 0], [0, 0, 0], [0, 0, 0])
    assert Cursor(first=0, end=5).strip().state_of(5) == ""


def test_an_empty_range_has_no_columns() -> None:
    assert Cursor().strip().columns(0, 0, 10).acked == []


@pytest.mark.parametrize(("first", "end", "count"), [(3, 2, 5), (-1, 2, 5), (0, 2, 0)])
def test_what_is_no_range_is_refused(first: int, end: int, count: int) -> None:
    with pytest.raises(InvalidRange):
        Cursor(end=9).strip().columns(first, end, count)


def test_a_strip_stays_as_it_was_while_the_cursor_goes_on() -> None:
    cursor = Cursor(first=0, end=10)
    strip = cursor.strip()
    cursor.deliver(0, 10, holder=1)
    cursor.ack([(0, 10)])
    assert strip.columns(0, 10, 1).ready == [10]


def test_a_million_holes_cost_columns_and_pages_not_indexes() -> None:
    """Counted in steps: what is done between two of them is a few columns, and there are few."""
    cursor = Cursor(first=0, end=2_000_000)
    cursor._ready = IndexRanges.from_bytes(b"\x00\x81\x80\x01" + b"\x55" * 8192)
    cursor._ready.add(70_000, 2_000_000)
    strip = cursor.strip()
    columns = strip.empty(0, cursor.end, 2_000)
    steps = sum(1 for _ in strip.fill(columns))
    assert steps <= 2 * (2_000 // STEP + 1)
    assert sum(columns.ready) == cursor.counts().ready
