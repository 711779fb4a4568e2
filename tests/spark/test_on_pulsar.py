"""The same code against a real Apache Pulsar: batches, chunks, slices and pins; source, sink and pipelines.

`MILEPOST_PEER` names a program that runs one: `$MILEPOST_PEER run pulsar --data DIR --port N --http-port M`
prints a line with `ready` when it serves.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pulsar
import pytest
from pulsar.schema import AvroSchema
from pyspark.sql import SparkSession
from stage.ports import free_port

import milepost.spark
from milepost.client.connection.endpoint import Endpoint
from milepost.spark.offsets import Slice
from milepost.spark.options import ReadOptions, read_options
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake.lakes import KINDS
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.verify import verify, verify_copy
from milepost.spark.progress_subscription import Pin
from milepost.spark.reading.fetch import fetch
from milepost.spark.reading.survey import Survey
from spark.conftest import Publisher
from spark.test_values_by_schema import Older

TOPIC = "persistent://public/default/spark"


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadOptions]:
    peer = os.environ.get("MILEPOST_PEER")
    if not peer:
        pytest.skip("no Apache Pulsar: MILEPOST_PEER does not name a program that runs one")
    port, http_port = free_port(), free_port()
    data = tmp_path_factory.mktemp("pulsar")
    command = [peer, "run", "pulsar", "--data", str(data)]
    command += ["--port", str(port), "--http-port", str(http_port)]
    with Path(data, "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        if not any("ready" in line for line in process.stdout):
            pytest.skip(f"no Apache Pulsar: {Path(data, 'log').read_text()[-200:]}")
        yield read_options(
            {
                "topic": TOPIC,
                "serviceUrl": f"pulsar://127.0.0.1:{port}",
                "adminUrl": f"http://127.0.0.1:{http_port}",
            }
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def rows(connection: Endpoint, first: int, end: int) -> list[tuple[int, int]]:
    return [
        (index, len(value))
        for batch in fetch(connection, Slice(TOPIC, first, end), ("index", "value"))
        for index, value in zip(batch["index"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


def test_a_topic_of_pulsar_is_read_by_index(options: ReadOptions) -> None:
    connection = options.connection
    client = pulsar.Client(connection.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    batched = client.create_producer(
        TOPIC, batching_enabled=True, batching_max_messages=100, block_if_queue_full=True
    )
    for number in range(1000):
        batched.send_async(b"%d" % number, None)
    batched.flush()
    chunked = client.create_producer(TOPIC, batching_enabled=False, chunking_enabled=True)
    chunked.send(bytes(11_000_000))
    chunked.send(b"last")
    client.close()

    survey = Survey(options)
    assert survey.topics() == [TOPIC]
    assert survey.firsts() == {TOPIC: 0}
    assert survey.ends() == {TOPIC: 1004}  # the chunked message took three
    whole = rows(connection, 0, 1004)
    assert [index for index, _ in whole] == [*range(1000), 1002, 1003]
    assert whole[1000] == (1002, 11_000_000)
    cuts = [0, 7, 99, 100, 555, 1001, 1002, 1003, 1004]
    assert [row for first, end in pairwise(cuts) for row in rows(connection, first, end)] == whole

    pin = Pin(connection, "etl")
    assert pin.hold(TOPIC) == 0
    pin.advance({TOPIC: 500})
    pin.close()
    for name, at_end, expected in (("etl", False, 500), ("late", True, 1004)):
        pin = Pin(connection, name)
        assert pin.hold(TOPIC, at_end=at_end) == expected
        pin.close()
    survey.close()


def test_source_sink_and_pipelines_run_on_pulsar(
    spark: SparkSession, options: ReadOptions, tmp_path: Path
) -> None:
    connection = options.connection
    topic = "persistent://public/default/spark-from"
    copy, replayed = f"{topic}-copy", f"{topic}-replayed"
    path = "/admin/v2/namespaces/public/default/deduplication"
    request = urllib.request.Request(
        f"{connection.admin_url}{path}",
        data=b"true",
        method="POST",
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()
    client = pulsar.Client(connection.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    publisher = Publisher(client, topic)
    publisher.batches(250, of=100)
    publisher.chunked(6_000_000)
    publisher.singles(5)
    client.close()

    where = {"serviceUrl": connection.url, "adminUrl": connection.admin_url}

    def values(name: str) -> list[bytes]:
        frame = spark.read.format("milepost").options(**where, topic=name, minPartitions=3).load()
        return [bytes(row.value) for row in frame.orderBy("index").collect()]

    assert values(topic) == publisher.values
    stream = spark.readStream.format("milepost").options(
        **where, topic=topic, maxMessagesPerTrigger=90, subscription="copying"
    )
    for _ in range(2):  # the second finds nothing to do
        query = (
            stream.load()
            .writeStream.format("milepost")
            .options(**where, topic=copy, delivery="exactlyOnce")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(200)
    assert values(copy) == publisher.values

    count = len(publisher.values)
    in_steps = ReadOptions(connection, topics=(topic,), messages_max=150)
    for kind in KINDS:
        lake, target = tmp_path / kind, f"{replayed}-{kind}"
        done = archive(spark, in_steps, lake, kind=kind, files_min=2)
        assert (done.messages, done.merged > 0) == (count, True)
        assert verify(spark, connection, lake).problems == []
        assert replay(spark, connection, lake, target, name="r") == (count, count)
        assert verify_copy(spark, connection, lake, target).problems == []
        assert values(target) == publisher.values


def test_schemas_work_on_pulsar(spark: SparkSession, options: ReadOptions, tmp_path: Path) -> None:
    connection = options.connection
    topic = "persistent://public/default/spark-typed"
    where = {"serviceUrl": connection.url, "adminUrl": connection.admin_url}
    given = {"type": "AVRO", "schema": json.dumps(Older.schema())}
    frame = spark.createDataFrame([("a", 1), (None, 2)], "name STRING, number INT").coalesce(1)
    write = frame.write.format("milepost").options(**where, topic=topic).mode("append")
    write.option("targetSchema", json.dumps(given)).save()
    client = pulsar.Client(connection.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    schema = AvroSchema(Older)
    consumer = client.subscribe(
        topic, "s", schema=schema, initial_position=pulsar.InitialPosition.Earliest
    )
    found = [consumer.receive(30_000).value() for _ in range(2)]
    client.close()
    assert [(one.name, one.number) for one in found] == [("a", 1), (None, 2)]
    archive(spark, ReadOptions(connection, topics=(topic,)), tmp_path)
    write.option("encode", "schema").save()
    table = milepost.spark.table(spark, topic, tmp_path, decode="schema", **where)
    assert [tuple(row) for row in table.orderBy("index").select("value.*").collect()] == [
        ("a", 1), (None, 2), ("a", 1), (None, 2),
    ]  # fmt: skip
