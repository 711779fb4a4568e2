"""A topic as a stream: limits, restarts, pinned starts, and the traps of Spark's contract."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamReader, StreamingQuery

import milepost.spark

Streaming = Callable[..., DataStreamReader]
PATIENCE_S = 600


class Sink:
    """Keeps what each batch held; a batch that is replayed replaces its first attempt."""

    def __init__(self, path: Path) -> None:
        self.checkpoint = str(path / "checkpoint")
        self.batches: dict[int, list[tuple[str, int, bytes]]] = {}
        self.fails_at: int | None = None

    def run(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        def take(batch: DataFrame, batch_id: int) -> None:
            rows = [
                (row.topic, row["index"], bytes(row.value))
                for row in batch.select("topic", "index", "value").collect()
            ]
            self.batches[batch_id] = rows
            if self.fails_at == batch_id:
                raise RuntimeError("the sink failed as it was told to")

        query = (
            frame.writeStream.foreachBatch(take)
            .option("checkpointLocation", self.checkpoint)
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        return query

    @property
    def rows(self) -> list[tuple[str, int, bytes]]:
        return sorted(row for batch in self.batches.values() for row in batch)

    @property
    def values(self) -> list[bytes]:
        return [value for _, _, value in self.rows]


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path)


def offsets(sink: Sink) -> list[str]:
    folder = Path(sink.checkpoint, "offsets")
    logs = sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name))
    return [path.read_text().splitlines()[-1] for path in logs]


def test_micro_batches_have_exactly_the_size_of_the_limit(
    streaming: Streaming, publisher: Any, sink: Sink
) -> None:
    publisher.batches(25, of=10)
    publisher.chunked(150_000)
    publisher.batches(5, of=10)
    sink.run(streaming(maxMessagesPerTrigger=7).load())
    assert sink.values == publisher.values
    # Indexes, not rows: a chunked message takes three of them.
    assert [len(rows) for rows in sink.batches.values()] == [7, 7, 7, 5, 5]


def test_a_query_goes_on_where_its_checkpoint_is(
    streaming: Streaming, publisher: Any, sink: Sink
) -> None:
    publisher.batches(10, of=4)
    sink.run(streaming().load())
    publisher.batches(9, of=4)
    sink.run(streaming(minPartitions=3).load())
    assert sink.values == publisher.values
    assert [len(rows) for rows in sink.batches.values()] == [10, 9]


def test_offsets_are_sorted_and_nothing_runs_without_data(
    streaming: Streaming, broker: Any, client: Any, topic: str, sink: Sink
) -> None:
    broker.create_partitioned_topic(topic, 3)
    producer = client.create_producer(topic)
    for number in range(12):
        producer.send(b"%d" % number, partition_key=str(number))
    sink.run(streaming().load())
    sink.run(streaming().load())
    written = offsets(sink)
    assert len(written) == 1
    found = json.loads(written[0])
    assert list(found) == sorted(found) == [f"{topic}-partition-{n}" for n in range(3)]
    assert sum(found.values()) == 12
    assert len(sink.rows) == 12


def test_a_batch_that_failed_is_replayed_with_the_same_rows(
    streaming: Streaming, publisher: Any, sink: Sink
) -> None:
    publisher.batches(10, of=4)
    frame = streaming(maxMessagesPerTrigger=6).load()
    sink.fails_at = 0
    with pytest.raises(StreamingQueryException, match="as it was told to"):
        sink.run(frame)
    first = sink.batches[0]
    publisher.batches(10, of=4)
    sink.fails_at = None
    sink.run(frame)
    assert sink.batches[0] == first
    assert sink.values == publisher.values


def test_a_start_at_the_end_is_pinned(streaming: Streaming, publisher: Any, sink: Sink) -> None:
    """Spark asks for the start again when the first batch is replayed; it must not have moved."""
    publisher.batches(5, of=5)
    options = {"startingIndex": "latest", "subscription": "pinned"}
    sink.run(streaming(**options).load())
    assert sink.rows == []
    # The checkpoint is lost before the first batch was written: only the pin knows.
    shutil.rmtree(sink.checkpoint)
    publisher.batches(5, of=5)
    sink.run(streaming(**options).load())
    assert sink.values == publisher.values[5:]


def test_a_start_at_the_end_without_a_pin_is_refused(
    streaming: Streaming, publisher: Any, sink: Sink
) -> None:
    publisher.singles(1)
    with pytest.raises(PySparkException, match="startingIndex=latest needs option subscription"):
        sink.run(streaming(startingIndex="latest").load())


def backlog(broker: Any, topic: str, subscription: str) -> int:
    return int(progress(broker, topic, subscription)["backlog"])


def progress(broker: Any, topic: str, subscription: str) -> dict[str, Any]:
    path = topic.removeprefix("persistent://")
    status, said = broker.rest(
        "GET", f"/milepost/v1/topics/{path}/progress?subscription={subscription}"
    )
    assert status == 200, said
    line: dict[str, Any]
    (line,) = said["subscriptions"]
    return line


def test_a_query_that_ran_to_its_end_leaves_no_backlog(
    streaming: Streaming, publisher: Any, sink: Sink, broker: Any, topic: str
) -> None:
    publisher.batches(20, of=10)
    frame = streaming(subscription="etl", maxMessagesPerTrigger=7).load()
    sink.run(frame)
    assert backlog(broker, topic, "etl") == 0
    # A batch that failed is not done, whatever was read for it.
    publisher.batches(10, of=10)
    sink.fails_at = 4
    with pytest.raises(StreamingQueryException, match="as it was told"):
        sink.run(frame)
    assert backlog(broker, topic, "etl") == 3
    sink.fails_at = None
    sink.run(frame)
    assert backlog(broker, topic, "etl") == 0
    assert sink.values == publisher.values
    # What came since is said to remain for the next run.
    publisher.singles(2)
    # The process that reads for the query ends behind it.
    wait_until(lambda: progress(broker, topic, "etl")["verdict"] == "NO_CONSUMER")
    line = progress(broker, topic, "etl")
    assert line["backlog"] == 2
    assert "2 ready" in line["reason"]
    assert "its Spark query does not run" in line["reason"]


def test_the_one_batch_of_a_query_is_written_by_the_listener(
    streaming: Streaming, publisher: Any, sink: Sink, spark: SparkSession, broker: Any, topic: str
) -> None:
    publisher.batches(20, of=10)
    frame = streaming(subscription="etl").load()
    sink.run(frame, once=True)
    # Spark does not look for another batch, and tells nothing of this one.
    assert backlog(broker, topic, "etl") == 20
    milepost.spark.follow(spark, serviceUrl=broker.url, subscription="etl")
    publisher.batches(3, of=10)
    sink.run(frame, once=True)
    wait_until(lambda: backlog(broker, topic, "etl") == 0)
    assert sink.values == publisher.values


def wait_until(holds: Callable[[], bool]) -> None:
    import time

    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # sleep: the listener is told some time after the query ended


def test_a_subscription_is_one_querys(
    streaming: Streaming, publisher: Any, sink: Sink, client: Any, topic: str
) -> None:
    publisher.batches(2, of=2)
    consumer = client.subscribe(topic, "taken")
    with pytest.raises(
        StreamingQueryException, match=r"subscription taken of .* has another consumer"
    ):
        sink.run(streaming(subscription="taken").load())
    consumer.close()


def test_a_checkpoint_of_another_topic_is_refused(
    streaming: Streaming, publisher: Any, sink: Sink, client: Any
) -> None:
    publisher.batches(2, of=2)
    sink.run(streaming().load())
    client.create_producer("other-topic").send(b"x")
    with pytest.raises(StreamingQueryException, match="the checkpoint is of other topics"):
        sink.run(streaming(topic="other-topic").load())


def test_topics_that_come_later_are_read_from_their_beginning(
    streaming: Streaming, client: Any, topic: str, sink: Sink
) -> None:
    name = topic.removeprefix("persistent://public/default/")
    client.create_producer(f"{name}-a").send(b"a")
    sink.run(streaming(topicsPattern=f"{name}-.*").load())
    client.create_producer(f"{name}-b").send(b"b")
    sink.run(streaming(topicsPattern=f"{name}-.*").load())
    assert sink.values == [b"a", b"b"]


def test_lost_messages_are_named_or_passed_over(
    streaming: Streaming, publisher: Any, sink: Sink, broker: Any, topic: str
) -> None:
    publisher.batches(4, of=2)
    sink.run(streaming(endingIndex="latest", maxMessagesPerTrigger=2).load())
    # A topic that was deleted and made anew ends before the checkpoint.
    path = topic.replace("://", "/")
    status, said = broker.rest("DELETE", f"/admin/v2/{path}?force=true")
    assert status == 204, said
    publisher.singles(1)
    with pytest.raises(StreamingQueryException, match=r"checkpoint is at index 4 of .*ends at 1"):
        sink.run(streaming().load())
