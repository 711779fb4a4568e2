"""Traps of Spark's Python sources, each with its test, here or where this says.

| trap | test |
| --- | --- |
| offsets are compared as text | test_stream: offsets_are_sorted_and_nothing_runs_without_data |
| the start is asked for again when batch 0 is replayed | here; test_stream: a_start_at_the_end_is_pinned |
| partitions and topics come between runs | here; test_stream: topics_that_come_later |
| no commit behind the last batch | test_stream: progress_is_written_back_and_the_last_batch_by_the_listener |
| stop is never called | here |
| one limit, exact | test_stream: micro_batches_have_exactly_the_size_of_the_limit |
| no least size with a delay | here |
| lag is what reportLatestOffset says | here |
| push-down is off, and fails who insists | here; test_batch: filters_are_taken_when_they_may_be |
| no column is pruned | test_batch: columns_are_chosen_by_option_or_by_schema |
| a limit stops readers early | here |
| the Arrow schema is exact, and only the first batch is looked at | here; test_batch: the_arrow_schema_is |
| writers are given several batches | here |
| tasks are not told the batch, but by properties | here |
| abort follows a commit that did its work | here; test_unique_key: a_batch_that_is_replayed; test_campaign |
| tasks are tried again | test_unique_key: a_retry_after_a_shuffle; test_campaign |
| tasks without rows | here |
| modes | here |
| a package is found by its name | here; test_connect |
| executors without the module | test_cluster |
| CREATE TABLE loses options, CREATE VIEW does not | here; test_batch: options_reach_a_view |
| other rows in other places after a shuffle | test_unique_key; test_sink: what_cannot_be_once_is_refused |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming import DataStreamReader

import pyspark_milepost
from milepost.client.connection.endpoint import Endpoint
from milepost.spark.offsets import Slice
from milepost.spark.options import WriteOptions
from milepost.spark.reading.fetch import fetch
from milepost.spark.source import MilepostSource, TopicStreamReader
from milepost.spark.values.columns import COLUMNS, arrow_schema
from milepost.spark.writing import sink
from spark.test_stream import PATIENCE_S, Sink, wait_until


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
    writer, of_frames = object.__new__(sink.TopicStreamWriter), object.__new__(sink.TopicWriter)
    # It has no connection and no name of a topic: without transactions there is nothing to undo.
    writer._options = of_frames._options = WriteOptions(Endpoint(url="pulsar://127.0.0.1:1"))
    writer.abort([sink.Written(3, {("t", 0)}), None], 7)
    of_frames.abort([None])


def test_a_block_of_two_tasks_fails_the_query() -> None:
    writer = object.__new__(sink.TopicStreamWriter)
    writer._options = WriteOptions(Endpoint(url="pulsar://127.0.0.1:1"))
    one = sink.Written(3, {("t", 0), ("t", 1)})
    writer.commit([one, sink.Written(2, {("t", 2)})], 7)
    with pytest.raises(
        sink.NotAllowed, match=r"messages \[32768, 65536\) of t came from two tasks"
    ):
        writer.commit([one, sink.Written(2, {("t", 1)})], 7)


# -- offsets and limits ----------------------------------------------------------------------------


def test_batch_0_that_is_replayed_begins_where_it_began_at_the_end(
    streaming: Callable[..., DataStreamReader], publisher: Any, tmp_path: Path
) -> None:
    publisher.batches(5, of=5)
    keeper = Sink(tmp_path)
    frame = streaming(startingIndex="latest", subscription="pinned").load()
    keeper.fails_at = 0
    with pytest.raises(StreamingQueryException, match="as it was told to"):
        keeper.run(frame)
    assert keeper.batches == {0: []}
    publisher.batches(5, of=5)
    keeper.fails_at = None
    keeper.run(frame)
    assert keeper.batches[0] == []
    assert keeper.values == publisher.values[5:]


def test_partitions_that_come_between_runs_are_read_from_their_beginning(
    streaming: Callable[..., DataStreamReader],
    broker: Any,
    client: Any,
    topic: str,
    tmp_path: Path,
) -> None:
    broker.create_partitioned_topic(topic, 1)
    keeper = Sink(tmp_path)
    client.create_producer(f"{topic}-partition-0").send(b"old")
    keeper.run(streaming().load())
    path = topic.replace("://", "/")
    status, said = broker.rest("POST", f"/admin/v2/{path}/partitions", 2)
    assert status in (200, 204), said
    client.create_producer(f"{topic}-partition-1").send(b"new")
    keeper.run(streaming().load())
    assert sorted(keeper.values) == [b"new", b"old"]


def test_stop_is_never_called_so_nothing_is_left_to_it() -> None:
    assert "stop" not in vars(TopicStreamReader)


def test_a_least_size_is_waited_for_and_no_longer_than_the_delay(
    streaming: Callable[..., DataStreamReader], publisher: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(5, of=5)
    sizes: list[int] = []

    def take(batch: Any, _: int) -> None:
        sizes.extend(filter(None, [batch.count()]))  # Spark's first batch may be empty

    def run(path: Path, **options: Any) -> Any:
        writing = streaming(**options).load().writeStream.foreachBatch(take)
        return writing.option("checkpointLocation", str(path)).start()

    query = run(tmp_path / "long", minMessagesPerTrigger=10, maxTriggerDelay="1h")
    try:
        wait_until(lambda: query.status["message"].startswith("Waiting for data"))
        publisher.batches(6, of=6)
        wait_until(lambda: sizes != [])
        # What there is to read, and how far it was read: the lag.
        end = f'{{"{topic}": 11}}'
        wait_until(lambda: query.lastProgress["sources"][0]["endOffset"] == end)
        assert query.lastProgress["sources"][0]["latestOffset"] == end
    finally:
        query.stop()
    assert sizes == [11]
    query = run(tmp_path / "short", minMessagesPerTrigger=1000, maxTriggerDelay="1ms")
    try:
        wait_until(lambda: sizes == [11, 11])
    finally:
        query.stop()


# -- reading ---------------------------------------------------------------------------------------


def test_a_reader_that_takes_filters_while_spark_offers_none_says_what_to_set(
    reading: Callable[..., DataFrameReader],
    streaming: Callable[..., DataStreamReader],
    publisher: Any,
    tmp_path: Path,
) -> None:
    publisher.batches(3, of=3)
    with pytest.raises(PySparkException, match=r"spark.sql.python.filterPushdown.enabled"):
        reading(pushFilters="true").load().where("index > 1").collect()
    # Streams are never offered any.
    keeper = Sink(tmp_path)
    keeper.run(streaming(pushFilters="true").load().where("index > 1"))
    assert keeper.values == publisher.values[2:]


def test_a_limit_ends_reading_early(
    reading: Callable[..., DataFrameReader], publisher: Any, broker: Any
) -> None:
    publisher.batches(5_000, of=100)
    assert len(reading(maxMessagesPerPartition=1_000).load().limit(3).collect()) == 3
    assert not broker.complaints()


def test_the_arrow_schema_of_any_columns_is_exactly_what_spark_derives(
    reading: Callable[..., DataFrameReader], publisher: Any
) -> None:
    publisher.singles(1)
    for columns in (*((name,) for name in COLUMNS), tuple(reversed(COLUMNS))):
        schema = reading(columns=",".join(columns)).load().schema
        assert to_arrow_schema(schema, timezone="UTC") == arrow_schema(columns)


def test_every_batch_has_the_schema_of_the_first(publisher: Any, broker: Any, topic: str) -> None:
    """Spark looks at the first only, and would take what it finds in another for what it is not."""
    publisher.batches(30, of=10)
    publisher.chunked(150_000)
    publisher.singles(3)
    publisher.chunked(150_000)
    columns = ("value", "index", "properties", "first_chunk_id")
    found = list(fetch(Endpoint(url=broker.url), Slice(topic, 0, 30 + 3 + 3 + 3), columns))
    assert sum(len(batch) for batch in found) == len(publisher.values)
    assert all(batch.schema == arrow_schema(columns) for batch in found)


# -- writing ---------------------------------------------------------------------------------------


def test_a_writer_is_given_its_rows_in_several_batches(
    spark: SparkSession,
    streaming: Callable[..., DataStreamReader],
    reading: Callable[..., DataFrameReader],
    publisher: Any,
    broker: Any,
    topic: str,
    tmp_path: Path,
) -> None:
    publisher.batches(50, of=20)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        writing = streaming().load().writeStream.format("milepost")
        query = (
            writing.options(serviceUrl=broker.url, topic=f"{topic}-copy", delivery="exactlyOnce")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    found = reading(topic=f"{topic}-copy").load().orderBy("index").collect()
    assert [bytes(row.value) for row in found] == publisher.values


def test_a_task_that_is_not_told_its_query_and_batch_says_so() -> None:
    writer = object.__new__(sink.TopicStreamWriter)
    with pytest.raises(sink.NotAllowed, match=r"does not tell a task its sql.streaming.queryId"):
        writer._query()
    with pytest.raises(sink.NotAllowed, match=r"does not tell a task its streaming.sql.batchId"):
        writer._batch_id()


def test_the_default_mode_is_refused(spark: SparkSession, broker: Any, topic: str) -> None:
    frame = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("milepost").options(serviceUrl=broker.url, topic=topic).save()


def test_buckets_of_two_tasks_fail_the_commit() -> None:
    writer = object.__new__(sink.TopicStreamWriter)
    writer._options = WriteOptions(Endpoint(url="pulsar://127.0.0.1:1"))
    writer.commit([sink.Written(3, buckets={1, 2}), sink.Written(2, buckets={3})], 7)
    with pytest.raises(sink.NotAllowed, match="bucket 2 of the keys came from two tasks"):
        writer.commit([sink.Written(3, buckets={1, 2}), sink.Written(2, buckets={2, 3})], 7)
