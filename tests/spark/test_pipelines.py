"""Topic to lake, lake to topic, and the proof that they are equal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import milepost.spark
from milepost.errors import MilepostError
from milepost.spark.options import Connection, ReadOptions
from milepost.spark.pipelines import archive as archiving
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake import Lake
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.verify import verify, verify_copy

# A fetch that gets nothing now and then makes these wait for minutes. Until that is found they have a target
# of their own: `make pipelines`.
pytestmark = pytest.mark.skipif(
    os.environ.get("MILEPOST_PIPELINES") != "1", reason="run by `make pipelines`"
)


def options(broker: Any, topic: str, **more: Any) -> ReadOptions:
    return ReadOptions(Connection(broker.url), topics=(topic,), **more)


def test_a_topic_goes_to_a_lake_and_back(
    spark: SparkSession, broker: Any, publisher: Any, topic: str, tmp_path: Path
) -> None:
    connection = Connection(broker.url)
    publisher.batches(25, of=10)
    publisher.chunked(150_000)
    publisher.singles(4)
    done = archive(spark, options(broker, topic, messages_max=20, slice_max=7), tmp_path)
    assert (done.steps, done.messages, done.end) == (2, 30, {topic: 32})
    publisher.batches(5, of=5)
    assert archive(spark, options(broker, topic), tmp_path).messages == 5
    assert archive(spark, options(broker, topic), tmp_path).steps == 0
    assert verify(spark, connection, tmp_path) == (35, len(Lake.load(tmp_path).files), [])

    copy = f"{topic}-copy"
    assert replay(spark, connection, tmp_path, copy, name="r") == (35, 35)
    assert replay(spark, connection, tmp_path, copy, name="r") == (35, 0)
    assert verify_copy(spark, connection, tmp_path, copy).problems == []

    # One frame of past and tail.
    publisher.batches(3, of=3)
    frame = milepost.spark.table(spark, topic, tmp_path, serviceUrl=broker.url)
    values = [bytes(row.value) for row in frame.orderBy("index").collect()]
    assert values == publisher.values

    # One value is changed: it is found and named.
    lake = Lake.load(tmp_path)
    damaged = lake.files[1]
    path = lake.path_of(damaged)
    found = pq.read_table(path)
    column = found["value"].to_pylist()
    column[2] = b"changed"
    place = found.schema.get_field_index("value")
    pq.write_table(found.set_column(place, "value", pa.array(column, pa.binary())), path)
    (problem,) = verify(spark, connection, tmp_path).problems
    index = found["index"].to_pylist()[2]
    assert f"message {index} differs in value" in problem
    assert topic in problem
    (problem,) = verify_copy(spark, connection, tmp_path, copy).problems
    assert f"message {index} of {topic} differs in value" in problem
    path.write_bytes(b"no parquet")
    assert "cannot be read" in verify(spark, connection, tmp_path).problems[0]


def test_an_archive_that_is_killed_before_it_publishes_did_nothing(
    spark: SparkSession,
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher.batches(20, of=10)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            archive(spark, options(broker, topic), tmp_path)
    assert Lake.load(tmp_path).steps == ()
    assert list((tmp_path / "data").iterdir())
    assert archive(spark, options(broker, topic), tmp_path).messages == 20
    assert verify(spark, Connection(broker.url), tmp_path).problems == []


def test_a_lake_of_another_topic_is_refused(
    spark: SparkSession, broker: Any, publisher: Any, client: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(2, of=2)
    archive(spark, options(broker, topic), tmp_path)
    client.create_producer(f"{topic}-other").send(b"x")
    with pytest.raises(MilepostError, match="of other topics"):
        archive(spark, options(broker, f"{topic}-other"), tmp_path)
    with pytest.raises(MilepostError, match="has no "):
        archiving.check_topic(Lake.load(tmp_path), f"{topic}-other")
