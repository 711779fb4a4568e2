"""Topics as Spark tables: the only package that imports pyspark. It never imports the broker.

    import milepost.spark

    milepost.spark.register(spark)
    spark.read.format("milepost").option("topic", "events").load()

Importing it needs neither Spark nor Java; what does is imported when it is used.

border                 turns our errors into one sentence for Spark's users
launcher               makes Python workers import the installed PySpark, which starts them faster
listener               stores the last progress of a query in its subscription when the query ends
offsets                the offsets of a query, and how a range is cut into slices
options                the options of `format("milepost")`: parsed and checked
pipelines/             archive, replay, verify and progress: the commands of `milepost pipeline`
progress_subscription  the durable subscription that shows the broker how far a streaming query is
reading/               from index ranges to Arrow batches: connection, decoding, push-down
retries                tries again while a broker is away, for a limited time
source                 the data source `milepost`: the classes that Spark calls
values/                the schema of a topic as Spark types: decoding and encoding values
writing/               rows to topics, exactly once or at least once
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["register", "arrange", "follow", "table"]

PUSH_DOWN_CONF: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Make `format("milepost")` known to a session, which finds it by itself where the wheel is installed.

    Registered so on a `local` master, its queries start in less than half the time (launcher.py).
    `push_filters` lets Spark offer filters to Python sources, which it does not by default; the
    source takes them with its option `pushFilters`.
    """
    from milepost.spark.launcher import installed_pyspark
    from milepost.spark.source import MilepostSource

    with installed_pyspark(spark):
        spark.dataSource.register(MilepostSource)
    if push_filters:
        spark.conf.set(PUSH_DOWN_CONF, "true")


def arrange(frame: DataFrame, unique_key: str, *, tasks: int | None = None) -> DataFrame:
    """The rows of a frame as `delivery=exactlyOnce` with `uniqueKey` needs them: all that share a bucket of
    the key in one task.

    `tasks` is how many there are, at most 16; the machine's cores if it is not said.
    """
    import os

    from pyspark.sql import functions

    from milepost.spark.writing.keyed import BUCKETS

    key = functions.col(unique_key)
    if frame.schema[unique_key].dataType.simpleString() != "binary":
        key = key.cast("string").cast("binary")
    bucket = functions.pmod(functions.crc32(key), functions.lit(BUCKETS))
    return frame.repartition(min(tasks or os.cpu_count() or 1, BUCKETS), bucket)


def follow(spark: SparkSession, **options: Any) -> None:
    """Write the last progress of streaming queries to their subscription when they end.

    `options` are those of the queries: `serviceUrl`, `adminUrl`, `token` and `subscription`. What is
    committed while a query runs, the query writes itself; Spark does not tell it of its last batch.
    """
    from milepost.errors import InvalidOption, NotAllowed

    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise NotAllowed(
            "follow needs a session of the usual kind: over Spark Connect the last batch of a query is "
            "written to its subscription when the query runs again"
        )
    from milepost.spark.listener import ProgressListener
    from milepost.spark.options import read_options

    found = read_options(
        {"topicsPattern": ".*", **{name: str(one) for name, one in options.items()}}
    )
    if found.subscription is None:
        raise InvalidOption("option subscription says whose progress is written, and is missing")
    spark.streams.addListener(ProgressListener(found.connection, found.subscription))


def table(spark: SparkSession, topic: str, lake: str | Path, **options: Any) -> DataFrame:
    """One frame of a topic's archived past, read as Parquet, and its live tail, joined at an exact index.

    `options` are those of a read: `serviceUrl`, `adminUrl`, `token`, `decode` with `mode`, `columns`.
    """
    from pathlib import Path

    from milepost.spark.reading.joined import table as joined

    return joined(spark, topic, Path(lake), **options)
