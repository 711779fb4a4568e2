"""Traps of Spark's Python sources that no other file has a test for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

import pyspark_milepost
from milepost.spark import sink
from milepost.spark.source import MilepostSource


def test_spark_finds_the_source_by_the_name_of_a_package() -> None:
    assert pyspark_milepost.DefaultSource is MilepostSource
    assert MilepostSource.name() == "milepost"


def test_a_table_whose_options_would_be_lost_is_not_made(
    spark: SparkSession, broker: Any, topic: str
) -> None:
    """Spark shows the options of CREATE TABLE to a source when the table is made, and not when it is
    read."""
    with pytest.raises(PySparkException, match="use CREATE TEMP VIEW"):
        spark.sql(
            f"CREATE TABLE lost USING milepost OPTIONS(topic '{topic}', serviceUrl '{broker.url}')"
        )


def test_tasks_without_rows_write_nothing(
    spark: SparkSession, broker: Any, reading: Callable[..., DataFrameReader], topic: str
) -> None:
    frame = spark.range(3).repartition(8).selectExpr("CAST(id AS STRING) AS value")
    target = {"serviceUrl": broker.url, "topic": topic}
    frame.write.format("milepost").options(**target).mode("append").save()
    frame.where("value = 'none'").write.format("milepost").options(**target).mode("append").save()
    assert reading().load().count() == 3


def test_a_topic_is_not_overwritten(spark: SparkSession, broker: Any, topic: str) -> None:
    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    target = {"serviceUrl": broker.url, "topic": topic}
    with pytest.raises(PySparkException, match="a topic keeps what it has"):
        frame.write.format("milepost").options(**target).mode("overwrite").save()


def test_an_empty_topic_has_no_rows(
    broker: Any, client: Any, reading: Callable[..., DataFrameReader], topic: str
) -> None:
    client.create_producer(topic).close()
    assert reading().load().collect() == []


def test_continuous_processing_is_refused(
    streaming: Callable[..., DataStreamReader], publisher: Any, tmp_path: Path
) -> None:
    publisher.batches(2, of=2)
    writing = streaming().load().writeStream.format("noop")
    writing = writing.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second")
    with pytest.raises(PySparkException, match="does not support continuous processing"):
        writing.start().awaitTermination(30)


def test_an_abort_takes_nothing_back() -> None:
    """Spark calls it behind a commit that failed, also when everything was published."""
    writer = object.__new__(sink.TopicStreamWriter)
    # It has no connection, no options and no name of a topic: there is nothing that it could undo.
    assert vars(writer) == {}
    writer.abort([sink.Written(3, {("t", 0)}), None], 7)
    object.__new__(sink.TopicWriter).abort([None])


def test_a_block_of_two_tasks_fails_the_query() -> None:
    writer = object.__new__(sink.TopicStreamWriter)
    one = sink.Written(3, {("t", 0), ("t", 1)})
    writer.commit([one, sink.Written(2, {("t", 2)})], 7)
    with pytest.raises(
        sink.NotAllowed, match=r"messages \[32768, 65536\) of t came from two tasks"
    ):
        writer.commit([one, sink.Written(2, {("t", 1)})], 7)
