"""What a job may do wrong with rows is found in the history that is made of them."""

from __future__ import annotations

import pytest

from spark.judged import anomalies_of

ROWS = [b"a", b"b", b"c"]


def names(*found: list[bytes], in_order: bool = True, is_done: bool = True) -> set[str]:
    topics = {f"t{number}": rows for number, rows in enumerate(found)}
    return {one.name for one in anomalies_of(ROWS, topics, in_order=in_order, is_done=is_done)}


@pytest.mark.parametrize(
    ("rows", "anomaly"),
    [
        (ROWS[:2], "lost"),
        ([*ROWS, b"a"], "duplicate"),
        ([b"b", b"a", b"c"], "reordered"),
        ([*ROWS, b"d"], "phantom"),
    ],
)
def test_rows_of_one_topic(rows: list[bytes], anomaly: str) -> None:
    assert not names(ROWS)
    assert not names(ROWS[::-1], in_order=False)
    assert names(rows) == {anomaly}


def test_a_batch_is_in_both_topics_or_in_none() -> None:
    assert not names(ROWS, ROWS[::-1], in_order=False)
    assert not names(ROWS[:1], ROWS[:1], in_order=False, is_done=False)
    assert names(ROWS[:1], ROWS[:2], in_order=False, is_done=False) == {"torn-transaction"}
    assert names(ROWS[:2], ROWS[:2], in_order=False) == {"lost"}
