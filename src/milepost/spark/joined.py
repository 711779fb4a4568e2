"""One table of a topic's archived past and its live tail, joined at an exact index.

The past is read by Spark itself, as Parquet; the tail by the source, from the index at which the past
ends. Each message is in one of them.

    frame = table(spark, "events", Path("lake"), serviceUrl="pulsar://localhost:6650")
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milepost.spark.columns import COLUMNS, ddl
from milepost.spark.options import topic_name
from milepost.spark.pipelines.archive import check_topic
from milepost.spark.pipelines.lakes import open_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    past = spark.read.schema(ddl(COLUMNS)).parquet(*paths)
    if any(one not in wanted for one in lake.end):
        past = past.where(past["topic"].isin(wanted))
    return past.select(*COLUMNS).unionByName(tail.select(*COLUMNS))
