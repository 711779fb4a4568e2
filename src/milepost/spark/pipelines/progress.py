"""`progress`: a position history to tables. What `report` makes pages and pictures of.

A group is a subscription on a topic, all partitions together, or one member of a broadcast group. Counts of
its partitions are added up, ages are those of the worst. How ages and latencies follow from samples is told
in `series.py`; each is known to the distance of two samples.

    tables = reduce(spark, Path("history"))
    tables.groups[0]["backlog_max"], tables.latency[0]["p95_ms"], tables.holes[0]["age_ms"]
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from milepost.positions.severity import worst
from milepost.spark.pipelines.report.history import files
from milepost.spark.pipelines.report.series import eras, held_ages, inflight_ages, latencies

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Of a line in a picture: more cannot be seen.
POINTS_MAX: Final = 400
# Held messages in a report; the page lists them all.
HOLES_MAX: Final = 20_000
RESETS_MAX: Final = 200
GROUP: Final = ("topic", "subscription", "member")
PERCENTILES: Final = (50, 95, 99)

Rows = list[dict[str, Any]]


class Tables(NamedTuple):
    """Each a list of rows by column, worst first; the timeline by group and time."""

    groups: Rows
    timeline: Rows
    latency: Rows
    holes: Rows
    resets: Rows
    first_ms: int
    last_ms: int
    samples: int
    """Moments."""


def reduce(spark: SparkSession, directory: Path, *, points_max: int = POINTS_MAX) -> Tables:
    from pyspark.sql import functions as F

    samples = spark.read.parquet(*files(directory, "samples"))
    series = ["topic", "subscription", "member"]
    samples = samples.dropDuplicates(["at_ms", *series]).withColumnRenamed("topic", "part_topic")
    samples = samples.withColumn("topic", _base()).cache()
    try:
        extent = samples.agg(F.min("at_ms"), F.max("at_ms"), F.count_distinct("at_ms")).collect()[0]
        first_ms, last_ms, moments = (int(one) for one in extent)
        ages = _ages(samples)
        at_once = ages.groupBy(*GROUP, "at_ms").agg(
            *(
                F.sum(name).alias(name)
                for name in ("backlog", "ready", "inflight", "delayed", "holes", "first", "end")
            ),
            F.sum(F.col("mark_delete_index") + 1).alias("mark_delete"),
            F.max("behind_ms").alias("behind_ms"),
            F.max("inflight_ms").alias("inflight_ms"),
        )
        at_once = at_once.cache()
        tables = Tables(
            groups=[_judged(row) for row in _rows(_groups(samples, at_once))],
            timeline=_rows(_timeline(at_once, first_ms, last_ms, points_max)),
            latency=_rows(_latency(samples)),
            holes=_rows(_holes(samples)),
            resets=_rows(_resets(spark, directory)),
            first_ms=first_ms,
            last_ms=last_ms,
            samples=moments,
        )
        at_once.unpersist()
        return tables
    finally:
        samples.unpersist()


def _judged(row: dict[str, Any]) -> dict[str, Any]:
    """A group is as well as its worst partition, as REST and the command line have it."""
    return {**row, "verdict": worst(row.pop("verdicts"))}


def _base() -> Column:
    """The topic that a partition belongs to."""
    from pyspark.sql import functions as F

    cut = F.regexp_replace("part_topic", r"-partition-\d+$", "")
    return F.when(F.col("partition") >= 0, cut).otherwise(F.col("part_topic"))


def _groups(samples: DataFrame, at_once: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    numbers = at_once.groupBy(*GROUP).agg(
        F.count("*").alias("samples"),
        F.max("backlog").alias("backlog_max"),
        F.max_by("backlog", "at_ms").alias("backlog_last"),
        F.max("behind_ms").alias("behind_max_ms"),
        F.max_by("behind_ms", "at_ms").alias("behind_last_ms"),
        F.max("inflight").alias("inflight_max"),
        F.max("inflight_ms").alias("inflight_max_ms"),
        F.max("holes").alias("holes_max"),
        (F.max("end") - F.min("end")).alias("published"),
    )
    states = samples.groupBy(*GROUP).agg(
        F.count_distinct("part_topic").alias("partitions"),
        (F.max("epoch") - F.min("epoch")).alias("resets"),
    )
    # All verdicts of the last moment: which of them counts is `worst`'s to say.
    verdicts = (
        samples.groupBy(*GROUP, "at_ms")
        .agg(F.collect_set("verdict").alias("verdicts"))
        .groupBy(*GROUP)
        .agg(F.max_by("verdicts", "at_ms").alias("verdicts"))
    )
    joined = numbers.join(states, list(GROUP)).join(verdicts, list(GROUP))
    return joined.orderBy(F.desc("behind_max_ms"), F.desc("backlog_max"), *GROUP)


def _timeline(at_once: DataFrame, first_ms: int, last_ms: int, points_max: int) -> DataFrame:
    """At most so many points a group: of several moments the highest values, and the strip of the last."""
    from pyspark.sql import functions as F

    width = max(-(-(last_ms - first_ms + 1) // points_max), 1)
    bucket = F.floor((F.col("at_ms") - first_ms) / width)
    return (
        at_once.groupBy(*GROUP, bucket.alias("bucket"))
        .agg(
            F.max("at_ms").alias("at_ms"),
            *(
                F.max(name).alias(name)
                for name in ("backlog", "ready", "inflight", "behind_ms", "inflight_ms", "holes")
            ),
            *(F.max_by(name, "at_ms").alias(name) for name in ("first", "mark_delete", "end")),
            *(
                F.max_by(name, "at_ms").alias(f"strip_{name}")
                for name in ("inflight", "ready", "delayed")
            ),
        )
        .orderBy(*GROUP, "bucket")
        .drop("bucket")
    )


def _latency(samples: DataFrame) -> DataFrame:
    """Exact percentiles over messages, by nearest rank; equal latencies come as one row with a count."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    pieces = _apply(
        samples, _latency_table, "topic STRING, subscription STRING, member STRING, "
        "latency_ms BIGINT, messages BIGINT, is_timed BOOLEAN"
    )  # fmt: skip
    alike = pieces.groupBy(*GROUP, "latency_ms", "is_timed").agg(
        F.sum("messages").alias("messages")
    )
    timed = alike.where("is_timed")
    by_latency = Window.partitionBy(*GROUP).orderBy("latency_ms")
    whole = Window.partitionBy(*GROUP)
    ranked = timed.withColumn("rank", F.sum("messages").over(by_latency)).withColumn(
        "total", F.sum("messages").over(whole)
    )
    numbers = ranked.groupBy(*GROUP).agg(
        F.sum("messages").alias("acked"),
        (F.sum(F.col("latency_ms") * F.col("messages")) / F.sum("messages")).alias("mean_ms"),
        *(
            F.min(
                F.when(F.col("rank") * 100 >= F.col("total") * percent, F.col("latency_ms"))
            ).alias(f"p{percent}_ms")
            for percent in PERCENTILES
        ),
        F.max("latency_ms").alias("max_ms"),
    )
    unknown = alike.where("NOT is_timed").groupBy(*GROUP).agg(F.sum("messages").alias("untimed"))
    return numbers.join(unknown, list(GROUP), "left").fillna(0, ["untimed"]).orderBy(
        F.desc("p95_ms"), *GROUP
    )  # fmt: skip


def _holes(samples: DataFrame) -> DataFrame:
    """Every hole that was the oldest of its partition in a sample."""
    from pyspark.sql import functions as F

    last = samples.groupBy("part_topic", "subscription", "member").agg(
        F.max("at_ms").alias("series_last_ms")
    )
    found = samples.where("hole_index IS NOT NULL").groupBy(
        *GROUP, "part_topic", "partition", "epoch", F.col("hole_index").alias("index")
    ).agg(
        F.max("hole_age_ms").alias("age_ms"),
        F.min("at_ms").alias("first_seen_ms"),
        F.max("at_ms").alias("last_seen_ms"),
        F.max_by("hole_holder", "at_ms").alias("holder"),
        F.max("hole_deliveries").alias("deliveries"),
    )  # fmt: skip
    return (
        found.join(last, ["part_topic", "subscription", "member"])
        .withColumn("is_open", F.col("last_seen_ms") == F.col("series_last_ms"))
        .drop("series_last_ms", "part_topic")
        .orderBy(F.desc("age_ms"), *GROUP, "partition", "index")
        .limit(HOLES_MAX)
    )


def _resets(spark: SparkSession, directory: Path) -> DataFrame | None:
    from pyspark.sql import functions as F

    paths = files(directory, "resets")
    if not paths:
        return None
    found = spark.read.parquet(*paths)
    return (
        found.dropDuplicates(["topic", "subscription", "epoch", "at_ms"])
        .orderBy(F.desc("at_ms"), "topic", "subscription")
        .limit(RESETS_MAX)
    )


def _ages(samples: DataFrame) -> DataFrame:
    """The samples with the age of the oldest message inflight."""
    columns = (
        "backlog ready inflight delayed holes first end mark_delete_index behind_ms inflight_ms"
    )
    ddl = "topic STRING, subscription STRING, member STRING, at_ms BIGINT, " + ", ".join(
        f"{name} BIGINT" for name in columns.split()
    )
    return _apply(samples, _age_table, ddl)


def _apply(samples: DataFrame, work: Any, ddl: str) -> DataFrame:
    with warnings.catch_warnings():
        # As in tasks.py: Spark looks for pandas and warns of its newer versions.
        warnings.simplefilter("ignore", FutureWarning)
        return samples.groupBy("part_topic", "subscription", "member").applyInArrow(work, ddl)


# -- in executors, one series at a time ------------------------------------------------------------


def _age_table(table: pa.Table) -> pa.Table:
    table = table.sort_by("at_ms")
    column = _columns(table)
    at, out, inflight = column["at_ms"], column["messages_out"], column["inflight"]
    ages = np.zeros(len(at), np.int64)
    for era, _ in eras(column["epoch"], column["end"], out):
        ages[era] = inflight_ages(at[era], out[era], inflight[era])
        holes = [
            table[name][era].to_pylist()
            for name in ("hole_index", "hole_holder", "hole_deliveries")
        ]
        ages[era] = np.maximum(ages[era], held_ages(at[era], *holes))
    kept = [*GROUP, "at_ms", "backlog", "ready", "inflight", "delayed", "holes", "first", "end"]
    kept += ["mark_delete_index", "behind_ms"]
    return table.select(kept).append_column("inflight_ms", pa.array(ages, pa.int64()))


def _latency_table(table: pa.Table) -> pa.Table:
    table = table.sort_by("at_ms")
    column = _columns(table)
    found = [
        one
        for era, is_fresh in eras(column["epoch"], column["end"], column["messages_out"])
        for one in latencies(
            column["at_ms"][era], column["end"][era], column["backlog"][era], is_fresh=is_fresh
        )
    ]
    names = {name: [table[name][0].as_py()] * len(found) for name in GROUP}
    return pa.table(
        {
            **{name: pa.array(values, pa.string()) for name, values in names.items()},
            "latency_ms": pa.array([one.latency_ms for one in found], pa.int64()),
            "messages": pa.array([one.messages for one in found], pa.int64()),
            "is_timed": pa.array([one.is_timed for one in found], pa.bool_()),
        }
    )


def _columns(table: pa.Table) -> dict[str, Any]:
    names = ("at_ms", "epoch", "end", "backlog", "inflight", "messages_out")
    return {name: table[name].to_numpy() for name in names}


def _rows(frame: DataFrame | None) -> Rows:
    return [] if frame is None else [row.asDict() for row in frame.collect()]
