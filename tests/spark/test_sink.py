"""Rows to topics: at least once, exactly once, and where that cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

Reading = Callable[..., DataFrameReader]
Streaming = Callable[..., DataStreamReader]
PATIENCE_S = 600


def values(frame: DataFrame) -> list[bytes]:
    return [bytes(row.value) for row in frame.orderBy("index").collect()]


def test_rows_become_messages(
    spark: SparkSession, broker: Any, reading: Reading, topic: str
) -> None:
    rows = [(f"k{n}", f"v{n}", {"n": str(n)}, n) for n in range(25)]
    frame = spark.createDataFrame(
        rows, "key STRING, value STRING, properties MAP<STRING,STRING>, other INT"
    )
    frame = frame.selectExpr("*", "timestamp_millis(1000 + other) AS event_time")
    for _ in range(2):  # at least once: writing again writes again
        (
            frame.write.format("milepost")
            .options(serviceUrl=broker.url, topic=topic, batchMessages=10)
            .mode("append")
            .save()
        )
    found = reading().load().collect()
    assert sorted(bytes(row.value) for row in found) == sorted(2 * [b"v%d" % n for n in range(25)])
    row = next(row for row in found if row.value == b"v7")
    assert (bytes(row.key), row.properties) == (b"k7", {"n": "7"})
    assert row.event_time.timestamp() == 1.007


def copy(frame: DataFrame, broker: Any, target: str, checkpoint: Path) -> None:
    query = (
        frame.writeStream.format("milepost")
        .options(
            serviceUrl=broker.url,
            topic=target,
            delivery="exactlyOnce",
            checkpointLocation=str(checkpoint),
        )
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)


def test_a_batch_that_is_replayed_writes_nothing_twice(
    streaming: Streaming, reading: Reading, publisher: Any, broker: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(25, of=10)
    publisher.chunked(150_000)
    publisher.singles(5)
    target, checkpoint = f"{topic}-copy", tmp_path / "checkpoint"
    frame = streaming(maxMessagesPerTrigger=8).load()
    copy(frame, broker, target, checkpoint)
    assert values(reading(topic=target).load()) == publisher.values
    # As after a crash between the sink's commit and Spark's: the last batches run again.
    for name in ("2", "3", "4"):
        for path in (checkpoint / "commits").glob(f"*{name}*"):
            path.unlink()
    publisher.batches(3, of=10)
    copy(frame, broker, target, checkpoint)
    assert values(reading(topic=target).load()) == publisher.values


def test_partitions_are_chosen_by_key(
    streaming: Streaming, reading: Reading, publisher: Any, broker: Any, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-copy"
    broker.create_partitioned_topic(target, 2)
    publisher.batches(20, of=10)
    copy(streaming().load(), broker, target, tmp_path)
    found = reading(topic=target).load().collect()
    assert sorted(bytes(row.value) for row in found) == sorted(publisher.values)
    by_key: dict[bytes, set[int]] = {}
    for row in found:
        by_key.setdefault(bytes(row.key), set()).add(row.partition)
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert {row.partition for row in found} == {0, 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop("index"), "the rows have no index"),
        (lambda frame: frame.orderBy("index", ascending=False), "came behind row"),
        (lambda frame: frame.drop("value"), "there is no column value"),
        (lambda frame: frame.selectExpr("1 AS value", "topic", "index"), "column value is int"),
    ],
)
def test_what_cannot_be_once_is_refused(
    reading: Reading, publisher: Any, broker: Any, topic: str, change: Any, said: str
) -> None:
    publisher.batches(5, of=5)
    with pytest.raises(PySparkException) as caught:
        (
            change(reading().load())
            .write.format("milepost")
            .options(
                serviceUrl=broker.url,
                topic=f"{topic}-copy",
                delivery="exactlyOnce",
                producerPrefix="p",
            )
            .mode("append")
            .save()
        )
    assert said in str(caught.value)


def test_a_batch_write_under_one_name_writes_once(
    reading: Reading, publisher: Any, broker: Any, topic: str
) -> None:
    publisher.batches(12, of=5)
    for _ in range(2):
        (
            reading()
            .load()
            .write.format("milepost")
            .options(
                serviceUrl=broker.url,
                topic=f"{topic}-copy",
                delivery="exactlyOnce",
                producerPrefix="once",
            )
            .mode("append")
            .save()
        )
    assert values(reading(topic=f"{topic}-copy").load()) == publisher.values


def test_a_topic_that_does_not_deduplicate_is_refused(
    streaming: Streaming, publisher: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(5, of=5)
    with (
        BrokerProcess(tmp_path / "other") as other,
        pytest.raises(StreamingQueryException, match="does not deduplicate"),
    ):
        copy(streaming().load(), other, topic, tmp_path / "checkpoint")
