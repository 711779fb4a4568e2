"""Topic to lake, lake to topic, and the proof that they are equal: for lakes of both kinds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compat.raw_client import RawClient, message_metadata
from pyspark.sql import SparkSession

import milepost.spark
from milepost.admin import Admin
from milepost.client.connection.endpoint import Endpoint
from milepost.errors import MilepostError
from milepost.spark.options import ReadOptions
from milepost.spark.pipelines import archive as archiving
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake.lake import Lake
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.verify import verify, verify_copy
from milepost.wire import pulsar_pb2 as pb

MARKER_TYPE = 10
PATIENCE_S = 600


class Event(pulsar.schema.Record):  # type: ignore[misc]
    name = pulsar.schema.String()
    number = pulsar.schema.Integer()


def options(broker: Any, topic: str, **more: Any) -> ReadOptions:
    return ReadOptions(Endpoint(url=broker.url), topics=(topic,), **more)


def markers(broker: Any, topic: str, count: int) -> None:
    """System messages: they take indexes, and nobody gets them."""
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))
        for number in range(count):
            raw.send(1, message_metadata(number, marker_type=MARKER_TYPE), b"marker")


def events(publisher: Any, client: pulsar.Client, topic: str, count: int) -> None:
    schema = pulsar.schema.AvroSchema(Event)
    producer = client.create_producer(topic, schema=schema)
    for number in range(count):
        event = Event(name=f"event {number}", number=number)
        producer.send(event)
        publisher.values.append(schema.encode(event))
    producer.close()


def change_a_value(path: Path) -> int:
    """Another value for one message of a file; its index."""
    found = pq.read_table(path, partitioning=None)
    column = found["value"].to_pylist()
    column[-1] = b"changed"
    place = found.schema.get_field_index("value")
    pq.write_table(found.set_column(place, "value", pa.array(column, pa.binary())), path)
    index: int = found["index"].to_pylist()[-1]
    return index


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_topic_goes_to_a_lake_and_back(
    spark: SparkSession,
    broker: Any,
    client: pulsar.Client,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    kind: str,
) -> None:
    connection = Endpoint(url=broker.url)
    publisher.batches(25, of=10)
    publisher.chunked(150_000)
    events(publisher, client, topic, 3)
    markers(broker, topic, 2)
    publisher.singles(4)
    # 25 in batches, three chunks, three events, two markers, four alone.
    first = options(broker, topic, messages_max=20, slice_max=7)
    done = archive(spark, first, tmp_path, kind=kind, files_min=0)
    assert (done.steps, done.messages, done.end) == (2, 33, {topic: 37})
    publisher.batches(5, of=5)
    assert archive(spark, options(broker, topic), tmp_path, files_min=0).messages == 5
    assert archive(spark, options(broker, topic), tmp_path, files_min=0).steps == 0
    checked = verify(spark, connection, tmp_path)
    assert (checked.messages, checked.problems) == (38, [])

    copy = f"{topic}-copy"
    assert replay(spark, connection, tmp_path, copy, name="r") == (38, 38)
    assert replay(spark, connection, tmp_path, copy, name="r") == (38, 0)
    assert verify_copy(spark, connection, tmp_path, copy).problems == []

    # Small files become few, and nothing else changes.
    before = len(open_lake(tmp_path).files)
    assert archive(spark, options(broker, topic), tmp_path, files_min=2).merged == before
    assert len(open_lake(tmp_path).files) == 1
    assert verify(spark, connection, tmp_path) == (38, 1, [])

    # One frame of past and tail.
    publisher.batches(3, of=3)
    milepost.spark.table(spark, topic, tmp_path, serviceUrl=broker.url)
    frame = milepost.spark.table(spark, topic, tmp_path, serviceUrl=broker.url)  # again is no worse
    values = [bytes(row.value) for row in frame.orderBy("index").collect()]
    assert values == publisher.values

    # One value is changed: it is found and named.
    path = tmp_path / open_lake(tmp_path).parts[0].paths[0]
    index = change_a_value(path)
    (problem,) = verify(spark, connection, tmp_path).problems
    assert f"message {index} differs in value" in problem
    assert topic in problem
    (problem,) = verify_copy(spark, connection, tmp_path, copy).problems
    assert f"message {index} of {topic} differs in value" in problem
    path.write_bytes(b"no parquet")
    assert "cannot be read" in verify(spark, connection, tmp_path).problems[0]


def test_an_archive_that_is_killed_at_any_step_did_that_step_or_nothing(
    spark: SparkSession,
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = Endpoint(url=broker.url)
    reading = options(broker, topic, slice_max=5, partitions_min=2)
    publisher.batches(20, of=10)

    def killed_at(name: str, *, after: bool = False, **more: Any) -> None:
        real: Callable[..., Any] = getattr(Lake, name)

        def killed(*args: Any) -> None:
            if after:
                real(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Lake, name, killed)
            with pytest.raises(KeyboardInterrupt):
                archive(spark, reading, tmp_path, **more)

    killed_at("publish")
    assert Lake.load(tmp_path).steps == ()
    assert list((tmp_path / "data").iterdir())
    killed_at("publish", after=True)
    assert Lake.load(tmp_path).end == {topic: 20}
    for name, after in (("rebase", False), ("rebase", True)):
        killed_at(name, after=after, files_min=2)
        assert verify(spark, connection, tmp_path)[::2] == (20, [])
    publisher.batches(3, of=3)
    killed_at("sweep", files_min=1)
    done = archive(spark, options(broker, topic), tmp_path)
    assert (done.messages, done.end) == (0, {topic: 23})
    assert verify(spark, connection, tmp_path)[::2] == (23, [])


def test_an_archive_goes_on_until_it_is_stopped(
    spark: SparkSession, broker: Any, publisher: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(7, of=7)
    stop = threading.Event()
    summaries: list[Any] = []

    def work() -> None:
        reading = options(broker, topic, subscription="archive")
        summaries.append(archive(spark, reading, tmp_path, until=stop, every_s=0.05, files_min=3))

    archivist = threading.Thread(target=work)
    archivist.start()
    try:
        for end in (7, 10, 12):
            publisher.batches(end - len(publisher.values), of=5) if end > 7 else None
            deadline = time.monotonic() + PATIENCE_S
            while Lake.load(tmp_path).end.get(topic) != end:
                assert archivist.is_alive()
                assert time.monotonic() < deadline
                stop.wait(0.02)
    finally:
        stop.set()
        archivist.join(PATIENCE_S)
    (done,) = summaries
    assert (done.messages, done.end) == (12, {topic: 12})
    assert done.steps >= 3
    assert done.merged >= 3
    assert verify(spark, Endpoint(url=broker.url), tmp_path)[::2] == (12, [])
    with Admin(f"http://127.0.0.1:{broker.http_port}") as admin:
        (line,) = admin.get_progress(topic, subscription="archive")
    assert (line["backlog"], line["mark_delete_index"]) == (0, 11)


def test_an_archive_whose_spark_is_stopped_with_it_ends_well(
    spark: SparkSession,
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publisher.batches(4, of=4)
    stop = threading.Event()

    def step(work: Any) -> int:
        stop.set()
        raise ConnectionError("the JVM is gone")

    monkeypatch.setattr(archiving.Archiving, "step", step)
    done = archive(spark, options(broker, topic), tmp_path, until=stop)
    assert (done.steps, done.end) == (0, {})
    with pytest.raises(ConnectionError):
        archive(spark, options(broker, topic), tmp_path)


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
    with pytest.raises(MilepostError, match="format parquet, not delta"):
        archive(spark, options(broker, topic), tmp_path, kind="delta")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_empty_topic_becomes_an_empty_lake(
    spark: SparkSession,
    broker: Any,
    client: pulsar.Client,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    kind: str,
) -> None:
    connection, lake = Endpoint(url=broker.url), tmp_path / "lake"
    client.create_producer(topic).close()
    done = archive(spark, options(broker, topic), lake, kind=kind)
    assert (done.steps, done.messages, done.end) == (0, 0, {topic: 0})
    assert open_lake(lake).end == {topic: 0}
    assert verify(spark, connection, lake) == (0, 0, [])
    assert archive(spark, options(broker, topic), lake).end == {topic: 0}
    publisher.singles(3)
    frame = milepost.spark.table(spark, topic, lake, serviceUrl=broker.url)
    assert frame.count() == 3
    assert archive(spark, options(broker, topic), lake).messages == 3
    assert verify(spark, connection, lake)[::2] == (3, [])
