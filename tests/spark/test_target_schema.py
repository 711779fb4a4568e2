"""Rows that are written by the schema of their topic, or by one that they bring; official clients read
them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, JsonSchema, StringSchema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

import milepost
import milepost.spark
from milepost.schemas import KeyValueSchema
from milepost.schemas import StringSchema as Text
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.wire import pulsar_pb2 as pb
from spark.conftest import MESSAGE_SIZE_MAX
from spark.test_values_by_schema import NEWER, Older, rows, send

Reading = Callable[..., DataFrameReader]
Writing = Callable[..., None]


@pytest.fixture
def writing(broker: Any, topic: str) -> Writing:
    """Rows into the test's topic, by its schema if nothing else is said."""

    def write(frame: DataFrame, **options: Any) -> None:
        given = {"serviceUrl": broker.url, "topic": topic, "encode": "schema", **options}
        frame.write.format("milepost").options(**given).mode("append").save()

    return write


def received(client: pulsar.Client, topic: str, schema: Any, count: int) -> list[Any]:
    """With the official client, in the order of their numbers."""
    consumer = client.subscribe(
        topic, "check", schema=schema, initial_position=pulsar.InitialPosition.Earliest
    )
    try:
        return [consumer.receive(30_000) for _ in range(count)]
    finally:
        consumer.close()


def test_columns_are_fields_of_the_topics_record(
    spark: SparkSession, client: pulsar.Client, reading: Reading, writing: Writing, topic: str
) -> None:
    send(client, topic, AvroSchema(Older), Older(name="first", number=0))
    newer = {"name": "n", "number": 1, "colour": "c"}
    send(client, topic, AvroSchema(None, schema_definition=NEWER), newer)
    long = "x" * (2 * MESSAGE_SIZE_MAX)
    made = spark.createDataFrame(
        [("a", 2, b"k"), (None, 3, b"k"), (long, 4, None)], "name STRING, number INT, key BINARY"
    ).coalesce(1)
    # The colour is missing, and has a default; the long one is chunked.
    writing(made, compression="none")
    schema = AvroSchema(None, schema_definition=NEWER)
    found = received(client, topic, schema, 5)[2:]
    values = sorted((one.value() for one in found), key=lambda one: str(one["number"]))
    assert [(one["name"], one["number"], one["colour"]) for one in values] == [
        ("a", 2, "red"), (None, 3, "red"), (long, 4, "red"),
    ]  # fmt: skip
    assert [one.partition_key() for one in found].count("k") == 2
    # Each says which version wrote it: the newest, and the chunked one too.
    versions = rows(reading(columns="all"), "schema_version")
    assert [int.from_bytes(version, "big") for (version,) in versions] == [0, 1, 1, 1, 1]
    assert rows(reading(decode="schema"), "value.colour")[2:] == [("red",)] * 3


def test_a_schema_that_is_given_is_registered(
    spark: SparkSession, client: pulsar.Client, reading: Reading, writing: Writing, topic: str
) -> None:
    given = {"type": "JSON", "schema": json.dumps(Older.schema())}
    frame = spark.sql("SELECT named_struct('name', 'a', 'number', 7) AS value, 1 AS other")
    writing(frame, targetSchema=json.dumps(given))
    writing(frame, targetSchema=json.dumps(given))  # again is no other version
    (first, second) = received(client, topic, JsonSchema(Older), 2)
    assert (first.value().name, second.value().number) == ("a", 7)
    assert {version for (version,) in rows(reading(columns="all"), "schema_version")} == {bytes(8)}
    # Another one, which the topic does not take: both are named.
    other = {"type": "record", "name": "O", "fields": [{"name": "z", "type": "int"}]}
    with pytest.raises(PySparkException) as refused:
        writing(
            spark.sql("SELECT 1 AS z"), targetSchema=json.dumps({"type": "JSON", "schema": other})
        )
    said = str(refused.value)
    assert f"{topic} does not take the schema JSON" in said
    assert '"name": "O"' in said
    assert "its own is JSON" in said
    assert '"number"' in said


def test_what_does_not_fit_is_refused_before_anything_is_written(
    spark: SparkSession, client: pulsar.Client, reading: Reading, writing: Writing, topic: str
) -> None:
    rows_of = spark.sql
    plain = f"{topic}-plain"
    send(client, plain, pulsar.schema.BytesSchema(), b"x")
    with pytest.raises(PySparkException, match=rf"{plain} has none: give one by option targetS"):
        writing(rows_of("SELECT 1 AS number"), topic=plain)
    send(client, topic, AvroSchema(Older), Older(number=1))
    for query, why in (
        ("SELECT 'x' AS number", "value.number is STRING, the schema has INT"),
        ("SELECT 1 AS number, 2 AS numbr", "column numbr is no field of the schema, which has"),
        ("SELECT named_struct('numbr', 1) AS value", "value.numbr is no field of the record Older"),
        ("SELECT 1 AS value", "the schema has the record Older"),
        ("SELECT 1L AS index", "none of the schema's fields: "),
    ):
        with pytest.raises(PySparkException, match=why):
            writing(rows_of(query))
    with pytest.raises(
        PySparkException, match="targetSchema says how values are encoded; encode is raw"
    ):
        writing(rows_of("SELECT 1 AS number"), encode="raw", targetSchema="{}")
    assert len(rows(reading(), "index")) == 1


def test_a_row_that_does_not_fit_is_shown(
    spark: SparkSession, client: pulsar.Client, writing: Writing, topic: str
) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    given = json.dumps({"type": "AVRO", "schema": record})
    frame = spark.createDataFrame([(None,)], "n INT")
    with pytest.raises(PySparkException, match=rf"AVRO schema of {topic} does not fit.*'n': None"):
        writing(frame, targetSchema=given)


def test_single_values_and_pairs(
    spark: SparkSession,
    broker: Any,
    client: pulsar.Client,
    reading: Reading,
    writing: Writing,
    topic: str,
) -> None:
    names = (f"{topic}-{kind}" for kind in ("text", "number", "inline", "separated"))
    text, number, inline, separated = names
    writing(spark.sql("SELECT 'é' AS value"), topic=text, targetSchema='{"type": "STRING"}')
    (one,) = received(client, text, StringSchema(), 1)
    assert one.value() == "é"
    writing(spark.sql("SELECT 5 AS value"), topic=number, targetSchema='{"type": "INT64"}')
    assert rows(reading(topic=number, decode="schema"), "value") == [(5,)]
    pair = spark.sql("SELECT named_struct('key', 'k', 'value', 'v') AS value")
    for name, encoding in ((inline, "INLINE"), (separated, "SEPARATED")):
        properties = {"key.schema.type": "STRING", "value.schema.type": "STRING"}
        properties["kv.encoding.type"] = encoding
        definition = {"key": "", "value": ""}
        given = {"type": "KEY_VALUE", "schema": definition, "properties": properties}
        writing(pair, topic=name, targetSchema=json.dumps(given))
        assert rows(reading(topic=name, decode="schema"), "value.*") == [("k", "v")]
    ((key, value),) = rows(reading(topic=separated), "key", "value")
    assert (bytes(key), bytes(value)) == (b"k", b"v")
    with milepost.Client(broker.url) as ours:
        schema = KeyValueSchema(Text(), Text())
        reader = ours.create_reader(inline, milepost.MessageId.earliest, schema=schema)
        assert reader.read_next(30_000).value() == ("k", "v")


def test_messages_of_protobuf(
    spark: SparkSession, broker: Any, reading: Reading, writing: Writing, topic: str
) -> None:
    with milepost.Client(broker.url) as ours:
        ours.create_producer(topic, schema=ProtobufNativeSchema(pb.KeyLongValue)).close()
    writing(spark.sql("SELECT named_struct('key', 'a', 'value', 7L) AS value"))
    assert [(key, int(value)) for key, value in rows(reading(decode="schema"), "value.*")] == [
        ("a", 7)
    ]


@pytest.mark.parametrize("unique_key", [None, "index"])
def test_typed_copies_are_exactly_once(
    spark: SparkSession,
    broker: Any,
    client: pulsar.Client,
    topic: str,
    tmp_path: Path,
    unique_key: str | None,
) -> None:
    send(client, topic, AvroSchema(Older), *(Older(name="x", number=n) for n in range(6)))
    copy, where = f"{topic}-copy", {"serviceUrl": broker.url}
    given = {"type": "AVRO", "schema": json.dumps(Older.schema())}
    stream = spark.readStream.format("milepost").options(
        **where, topic=topic, decode="schema", maxMessagesPerTrigger=2
    )
    frame = stream.load().selectExpr("topic", "index", "value.name", "value.number * 2 AS number")
    more = {"targetSchema": json.dumps(given), "delivery": "exactlyOnce"}
    if unique_key is not None:
        frame, more["uniqueKey"] = milepost.spark.arrange(frame, unique_key, tasks=1), unique_key
    for _ in range(2):
        query = (
            frame.writeStream.format("milepost")
            .options(**where, topic=copy, **more)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        # The last batch is written again, and is there once.
        for path in (tmp_path / "checkpoint" / "commits").glob("*2*"):
            path.unlink()
    found = received(client, copy, AvroSchema(Older), 6)
    assert sorted(one.value().number for one in found) == [0, 2, 4, 6, 8, 10]
    assert len(spark.read.format("milepost").options(**where, topic=copy).load().collect()) == 6
