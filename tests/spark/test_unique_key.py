"""Exactly once by a unique key: behind a shuffle, where a row's place in its task says nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

import milepost.spark
from milepost.spark.writing.keyed import bucket_of
from spark.faults import Faults, FaultySource

Reading = Callable[..., DataFrameReader]
Streaming = Callable[..., DataStreamReader]
PATIENCE_S = 600


def write(frame: DataFrame, broker: Any, target: str, path: Path, **options: Any) -> None:
    query = (
        frame.writeStream.format("faulty")
        .options(
            serviceUrl=broker.url,
            topic=target,
            delivery="exactlyOnce",
            uniqueKey="value",
            faults=str(path),
            checkpointLocation=str(path / "checkpoint"),
            **options,
        )
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)


def found(reading: Reading, target: str) -> Counter[bytes]:
    return Counter(bytes(row.value) for row in reading(topic=target).load().collect())


@pytest.fixture(autouse=True)
def faulty(spark: SparkSession) -> None:
    spark.dataSource.register(FaultySource)


def test_buckets_are_in_one_task(spark: SparkSession) -> None:
    for column in ("id", "CAST(id AS STRING)", "CAST(CAST(id AS STRING) AS BINARY)"):
        frame = milepost.spark.arrange(spark.range(300).selectExpr(f"{column} AS k"), "k", tasks=4)
        tasks = frame.selectExpr("k", "spark_partition_id() AS task").collect()
        by_bucket: dict[int, set[int]] = {}
        for row in tasks:
            key = bytes(row.k) if isinstance(row.k, bytearray) else row.k
            by_bucket.setdefault(bucket_of(key), set()).add(row.task)
        assert len(by_bucket) == 16
        assert all(len(one) == 1 for one in by_bucket.values())
        assert len(set().union(*by_bucket.values())) > 1


def test_a_retry_after_a_shuffle_has_other_rows_in_other_places(
    streaming: Streaming, reading: Reading, publisher: Any, broker: Any, topic: str, tmp_path: Path
) -> None:
    """SPARK-28650: a number by the place in the task would drop rows, and write others twice."""
    publisher.batches(40, of=10)
    frame = milepost.spark.arrange(streaming().load().select("value"), "value", tasks=2)
    Faults(str(tmp_path)).tell("send", 1)
    write(frame, broker, f"{topic}-copy", tmp_path, mixed="true", timeout="5s")
    assert not (tmp_path / "send").exists()
    assert found(reading, f"{topic}-copy") == Counter(publisher.values)


@pytest.mark.parametrize("fault", ["commit-before", "commit-after"])
def test_a_batch_that_is_replayed_writes_nothing_twice(
    streaming: Streaming,
    reading: Reading,
    publisher: Any,
    broker: Any,
    topic: str,
    tmp_path: Path,
    fault: str,
) -> None:
    publisher.batches(30, of=10)
    frame = streaming(maxMessagesPerTrigger=20).load().select("value", "key").repartition(3)
    frame = milepost.spark.arrange(frame, "value", tasks=2)
    Faults(str(tmp_path)).tell(fault)
    with pytest.raises(StreamingQueryException, match="as it was told to"):
        write(frame, broker, f"{topic}-copy", tmp_path)
    publisher.batches(5, of=5)
    write(frame, broker, f"{topic}-copy", tmp_path)
    assert found(reading, f"{topic}-copy") == Counter(publisher.values)


def test_buckets_of_two_tasks_fail_the_query(
    streaming: Streaming, publisher: Any, broker: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(40, of=10)
    frame = streaming().load().select("value").repartition(2)
    with pytest.raises(
        StreamingQueryException, match=r"came from two tasks|milepost.spark.arrange"
    ):
        write(frame, broker, f"{topic}-copy", tmp_path, timeout="5s")


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        ("'same' AS value", {"uniqueKey": "value"}, "uniqueKey 'same' is there twice"),
        (
            "value, CAST(null AS STRING) AS id",
            {"uniqueKey": "id"},
            "a row has no uniqueKey",
        ),
        ("value", {"uniqueKey": "id"}, "option uniqueKey is 'id'; the rows have value"),
        ("value, 1.5D AS id", {"uniqueKey": "id"}, "column id is double"),
        (
            "value",
            {"uniqueKey": "value", "delivery": "atLeastOnce"},
            "option uniqueKey is what delivery=exactlyOnce goes by",
        ),
        ("value", {"uniqueKey": "value", "producerPrefix": ""}, "option producerPrefix is ''"),
    ],
)
def test_keys_that_cannot_make_it_once_are_refused(
    reading: Reading,
    publisher: Any,
    broker: Any,
    topic: str,
    select: str,
    options: dict[str, str],
    said: str,
) -> None:
    publisher.batches(4, of=4)
    given = {"delivery": "exactlyOnce", "producerPrefix": "p", **options}
    writing = reading().load().selectExpr(*select.split(", ")).write.format("milepost")
    with pytest.raises(PySparkException) as caught:
        writing.options(serviceUrl=broker.url, topic=f"{topic}-copy", **given).mode("append").save()
    assert said in str(caught.value)


def test_a_batch_write_under_one_name_writes_once(
    spark: SparkSession, broker: Any, reading: Reading, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 2)
    frame = spark.range(50).selectExpr("id", "CAST(id AS STRING) AS value")
    for tasks in (1, 3):  # the number of tasks names nothing
        (
            milepost.spark.arrange(frame, "id", tasks=tasks)
            .write.format("milepost")
            .options(serviceUrl=broker.url, topic=topic, delivery="exactlyOnce")
            .options(uniqueKey="id", producerPrefix="once")
            .mode("append")
            .save()
        )
    assert found(reading, topic) == Counter(b"%d" % number for number in range(50))
