"""Tasks: Python functions over a list of things, run by Spark's executors; the results come back.

Every thing is one Spark task, so that each has a core of its own and Spark tries it again where it may.

    run(spark, [1, 2, 3], double)      # [2, 4, 6], in any order
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def run(spark: SparkSession, things: Sequence[T], work: Callable[[T], R]) -> list[R]:
    if not things:
        return []
    rows = [(number, bytearray(pickle.dumps(thing))) for number, thing in enumerate(things)]
    frame = spark.createDataFrame(rows, "number INT, thing BINARY")
    frame = frame.repartitionByRange(len(things), "number") if len(things) > 1 else frame

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for thing in batch["thing"].to_pylist():
                # Ours, on its way to our own process.
                result = pickle.dumps(work(pickle.loads(thing)))  # noqa: S301
                yield pa.RecordBatch.from_pydict({"result": [result]})

    with warnings.catch_warnings():
        # Spark checks for pandas here, though none is used, and warns of its newer versions.
        warnings.simplefilter("ignore", FutureWarning)
        found = frame.mapInArrow(task, "result BINARY").collect()
    return [pickle.loads(bytes(row.result)) for row in found]  # noqa: S301


def session(master: str) -> SparkSession:
    """A session for a pipeline."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(master)
        .appName("milepost")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1")
    return builder.getOrCreate()
