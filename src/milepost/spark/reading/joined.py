"""Joins a topic's archive and its live tail into one table.

The past is read by Spark itself, as Parquet; the tail by the source, from the index at which the past
ends. Each message is in one of them. Columns are those of a read with the same options: with `decode` the
value is what the topic's schema says, in the past as it was archived (lake/schema_columns.py).

    frame = table(spark, "events", Path("lake"), serviceUrl="pulsar://localhost:6650")
    table(spark, "orders", Path("lake"), decode="schema").select("index", "value.*")
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milepost.errors import IncompatibleSchema, InvalidOption
from milepost.spark.options import read_options, topic_name
from milepost.spark.pipelines.archive import check_topic
from milepost.spark.pipelines.lake.lakes import AnyLake, open_lake
from milepost.spark.pipelines.lake.schema_columns import DECODED, check_readable
from milepost.spark.values.columns import COLUMNS, CORRUPT, CORRUPT_REASON, ddl
from milepost.spark.values.query_columns import declared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType


def table(spark: SparkSession, topic: str, directory: Path, **options: Any) -> DataFrame:
    """`options` are those of a read."""
    lake = open_lake(directory)
    full = topic_name("topic", topic)
    wanted = [one for one in lake.end if one == full or one.startswith(f"{full}-partition-")]
    if not wanted:
        check_topic(lake, full)
    tail = (
        spark.read.format("milepost")
        .options(
            topic=full,
            startingIndex=json.dumps({one: lake.end[one] for one in wanted}),
            **options,
        )
        .load()
    )
    paths = lake.paths(wanted)
    if not paths:
        return tail
    given = read_options({"topic": full, **{name: str(one) for name, one in options.items()}})
    schema = ddl(COLUMNS)
    if given.decode != "raw":
        kind = _kind(lake, tail)
        schema += f", {DECODED} {declared(kind)}, {CORRUPT_REASON} STRING"
    past = spark.read.schema(schema).parquet(*paths)
    if any(one not in wanted for one in lake.end):
        past = past.where(past["topic"].isin(wanted))
    if given.decode != "raw":
        past = _decoded(past, kind, given.permissive)
    return past.select(*tail.columns).unionByName(tail)


def _kind(lake: AnyLake, tail: DataFrame) -> DataType:
    """The type of the past's values: that of the tail's, if the lake can be read by it."""
    if lake.decoded is None:
        raise InvalidOption(
            f"{lake.directory} was archived without the schema's columns: use decode=raw, or archive it anew"
        )
    kind = tail.schema["value"].dataType if "value" in tail.columns else lake.decoded
    try:
        check_readable(lake.decoded, kind)
    except IncompatibleSchema as error:
        raise InvalidOption(
            f"{lake.directory}: {error}; option schemaVersion reads by an older one"
        ) from None
    return kind


def _decoded(past: DataFrame, kind: DataType, permissive: bool) -> DataFrame:
    """Values of the past as a read with `decode` gives them."""
    from pyspark.sql import functions

    raw, value = past["value"], past[DECODED]
    # Only JSON's null is something and decoded to nothing.
    is_bare = raw.isNotNull() & value.isNull() & (raw != functions.lit(b"null"))
    why = functions.coalesce(
        past[CORRUPT_REASON],
        functions.when(is_bare, functions.lit("it was archived without its schema's columns")),
    )
    if permissive:
        corrupt = functions.when(why.isNotNull(), raw)
        return past.withColumns({"value": value, CORRUPT: corrupt, CORRUPT_REASON: why})
    parts = (past["topic"], ": message ", past["index"], " is not what its schema says: ", why)
    told = [functions.lit(one) if isinstance(one, str) else one for one in parts]
    told.append(functions.lit("; mode=permissive keeps such rows apart"))
    failure = functions.raise_error(functions.concat(*(one.cast("string") for one in told)))
    return past.withColumn(
        "value", functions.when(why.isNotNull(), failure.cast(kind)).otherwise(value)
    )
