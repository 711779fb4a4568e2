"""Lakes of made-up messages, without a broker and without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from milepost.spark.pipelines.lake.lake import LakeFile
from milepost.spark.pipelines.lake.parts import read_part
from milepost.spark.pipelines.lake.row_groups import RowGroups
from milepost.spark.pipelines.names import data_path
from milepost.spark.values.columns import COLUMNS, Row, to_batch

TOPIC = "persistent://public/default/t"


def row(index: int, topic: str = TOPIC, **more: Any) -> Row:
    made = Row(
        topic, -1, index, b"id", 3, index, -1, None, b"k", b"value %d" % index,
        [("n", str(index)), ("n", "again")], 1_000 + index, None if index % 2 else index, "p", index, None,
    )  # fmt: skip
    return made._replace(**more)


def batch(first: int, end: int, topic: str = TOPIC) -> pa.RecordBatch:
    """Every fifth index is a marker's: no message has it."""
    return to_batch([row(index, topic) for index in range(first, end) if index % 5 != 4])


def stored(directory: Path, first: int, end: int, topic: str = TOPIC) -> LakeFile:
    """A file of a range, as an archive writes it."""
    path = data_path(topic, first, end)
    (directory / "data").mkdir(parents=True, exist_ok=True)
    with RowGroups(directory / path) as file:
        file.write(batch(first, end, topic))
    return LakeFile(path, topic, first, end, file.rows, file.size_bytes)


def rows_of(lake: Any) -> list[dict[str, Any]]:
    """Everything in a lake, part by part."""
    parts = sorted(lake.parts, key=lambda one: (one.topic, one.first_index))
    return [
        found
        for part in parts
        for one in read_part(str(lake.directory), part, COLUMNS)
        for found in one.to_pylist()
    ]
