"""Push-down: what is taken, what a range becomes, what is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    StringContains,
)

from milepost.spark.reading.pushdown import Predicate, Predicates, taken
from milepost.spark.values.columns import arrow_schema

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def test_comparisons_of_known_columns_are_taken() -> None:
    filters = [
        GreaterThanOrEqual(("index",), 3),
        LessThan(("index",), 9),
        EqualTo(("partition",), 1),
        GreaterThan(("publish_time",), MOMENT),
        In(("index",), (4, 5)),
    ]
    predicates, left = taken(filters)
    assert left == []
    assert predicates.taken == (
        Predicate("index", ">=", 3),
        Predicate("index", "<", 9),
        Predicate("partition", "=", 1),
        Predicate("publish_time", ">", MOMENT),
        Predicate("index", "in", (4, 5)),
    )


@pytest.mark.parametrize(
    "one",
    [
        IsNotNull(("index",)),
        EqualTo(("key",), b"k"),
        EqualTo(("index",), None),
        EqualTo(("index",), "3"),
        EqualTo(("properties", "index"), 3),
        StringContains(("topic",), "x"),
        In(("index",), (1, None)),
    ],
)
def test_everything_else_is_left_to_spark(one: object) -> None:
    assert taken([one]) == (Predicates(), [one])


@pytest.mark.parametrize(
    ("operation", "value", "expected"),
    [
        (">", 12, (13, 20)),
        (">=", 12, (12, 20)),
        ("<", 12, (10, 12)),
        ("<=", 12, (10, 13)),
        ("=", 12, (12, 13)),
        ("=", 99, (99, 99)),
        ("=", 3, (10, 10)),
        ("in", (12, 15, 99), (12, 20)),
        ("in", (), (20, 20)),
        (">", 50, (51, 51)),
    ],
)
def test_an_index_narrows_the_range(
    operation: str, value: object, expected: tuple[int, int]
) -> None:
    assert Predicates((Predicate("index", operation, value),)).narrow(10, 20) == expected


def test_partitions_are_left_out_whole() -> None:
    assert Predicates().admits(3)
    assert Predicates((Predicate("partition", "in", (1, 3)),)).admits(3)
    assert not Predicates((Predicate("partition", "<", 3),)).admits(3)


def test_rows_that_do_not_hold_are_dropped() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"index": [1, 2, 3], "publish_time": [MOMENT, None, MOMENT]},
        arrow_schema(("index", "publish_time")),
    )
    for predicate, expected in (
        (Predicate("index", ">", 1), [2, 3]),
        (Predicate("index", "in", (1, 3, 9)), [1, 3]),
        (Predicate("publish_time", "=", MOMENT), [1, 3]),
        (Predicate("publish_time", "<", MOMENT), []),
        (Predicate("partition", "=", 7), [1, 2, 3]),
    ):
        assert Predicates((predicate,)).apply(batch)["index"].to_pylist() == expected
