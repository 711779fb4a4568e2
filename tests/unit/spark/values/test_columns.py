"""Columns: names, types, and rows as Arrow has them."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidOption
from milepost.spark.values.columns import COLUMNS, arrow_schema, check_columns, ddl, simple_type


def test_the_columns_are_those_that_are_promised() -> None:
    assert COLUMNS == (
        "topic", "partition", "index", "message_id", "ledger_id", "entry_id", "batch_index",
        "first_chunk_id", "key", "value", "properties", "publish_time", "event_time", "producer",
        "sequence_id", "schema_version",
    )  # fmt: skip


def test_a_column_that_is_none_is_named() -> None:
    assert check_columns(["value", "index"]) == ("value", "index")
    with pytest.raises(InvalidOption, match="no column 'offset'; there are topic, partition"):
        check_columns(["index", "offset"])


def test_types_are_those_of_spark_and_arrow() -> None:
    assert ddl(("index", "properties")) == "index BIGINT, properties MAP<STRING, STRING>"
    assert simple_type("properties") == "map<string,string>"
    schema = arrow_schema(("publish_time", "value"))
    assert str(schema.field("publish_time").type) == "timestamp[us, tz=UTC]"
    assert all(field.nullable for field in arrow_schema())
