"""Series: how many are remembered, and for how long."""

from __future__ import annotations

import pytest

from milepost.broker.transactions.series import (
    KEPT_MS,
    RUNS_BEFORE_MAX,
    RUNS_OVER_MAX,
    SERIES_MAX,
    Series,
    SeriesTable,
    Step,
)
from milepost.errors import ProducerFenced, TooManyRequests, TransactionConflict


@pytest.fixture
def full() -> SeriesTable:
    table = SeriesTable()
    for number in range(SERIES_MAX):
        table.remember(("", f"q{number}"), Step(3, 1000 + number))
    return table


def test_a_full_table_takes_no_new_series_while_all_are_young(full: SeriesTable) -> None:
    with pytest.raises(TooManyRequests, match=f"the steps of {SERIES_MAX} series"):
        full.check("", Series("new", "r", 1), now_ms=2000)
    full.check("", Series("q7", "r", 4), now_ms=2000)
    full.check("", Series("new", "r", None), now_ms=2000)


def test_the_oldest_is_forgotten_for_a_new_one(full: SeriesTable) -> None:
    now_ms = 1000 + KEPT_MS
    full.ended("", Series("q0", "r", 4), 1, committed_ms=now_ms)  # it is used, so another is oldest
    with pytest.raises(TooManyRequests):
        full.check("", Series("new", "r", 1), now_ms)
    full.check("", Series("new", "r", 1), now_ms + 1)
    full.ended("", Series("new", "r", 1), 2, committed_ms=now_ms + 1)
    assert len(full.last) == SERIES_MAX
    assert ("", "q1") not in full.last
    assert full.last["", "q0"].number == 4


def test_a_series_is_its_owners() -> None:
    table = SeriesTable()
    table.remember(("one", "q"), Step(3, 1000))
    table.check("two", Series("q", "r", 3), now_ms=2000)
    with pytest.raises(TransactionConflict):
        table.check("one", Series("q", "r", 3), now_ms=2000)


def test_one_role_does_not_fill_the_table_for_another(full: SeriesTable) -> None:
    full.check("two", Series("new", "r", 1), now_ms=2000)
    full.ended("two", Series("new", "r", 1), 1, committed_ms=2000)
    assert full.last["", "q0"] == Step(3, 1000)


def test_no_young_one_is_forgotten_for_those_that_were_opened_while_there_was_room() -> None:
    table = SeriesTable()
    for number in range(SERIES_MAX - 1):
        table.remember(("", f"q{number}"), Step(3, 1000 + number))
    late = [Series(name, "r", 1) for name in ("a", "b")]
    for series in late:
        table.check("", series, now_ms=2000)
    for series in late:
        table.ended("", series, 1, committed_ms=2000)
    with pytest.raises(TransactionConflict):  # else its step would be written twice
        table.check("", Series("q0", "r", 3), now_ms=2000)


def test_runs_that_follow_each_other_take_no_more_and_more_room() -> None:
    """Each begins before the one before it has ended, so that the series always has something open."""
    table = SeriesTable()
    for number in range(3 * RUNS_BEFORE_MAX):
        series = Series("q", f"run {number}", None)
        table.check("", series, now_ms=0)
        table.opened("", series, number)
        for earlier in table.of_earlier_runs("", series):
            table.ended("", Series("q", f"run {earlier}", None), earlier)
    assert [len(runs) for runs in table._runs.values()] == [RUNS_BEFORE_MAX]
    late = 2 * RUNS_BEFORE_MAX + 1
    with pytest.raises(ProducerFenced, match="another has begun"):
        table.check("", Series("q", f"run {late}", None), now_ms=0)


def test_a_run_that_is_over_is_not_forgotten_for_those_of_another_role() -> None:
    table = SeriesTable()
    table.end_run("one", Series("q", "r", None))
    for number in range(RUNS_OVER_MAX):
        table.end_run("two", Series("q", f"run {number}", None))
    with pytest.raises(ProducerFenced, match="it has ended"):
        table.check("one", Series("q", "r", None), now_ms=0)
