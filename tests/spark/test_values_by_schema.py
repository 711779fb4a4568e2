"""Values as typed columns, by the schema of the topic or a given one; versions side by side; bad values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

import milepost
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.wire import pulsar_pb2 as pb

Reading = Callable[..., DataFrameReader]


class Older(Record):  # type: ignore[misc]
    name = String()
    number = Integer()


NEWER = {
    "type": "record",
    "name": "Newer",
    "fields": [
        {"name": "name", "type": ["null", "string"]},
        {"name": "number", "type": ["null", "int"]},
        {"name": "colour", "type": "string", "default": "red"},
    ],
}


def send(client: pulsar.Client, topic: str, schema: Any, *values: Any) -> None:
    producer = client.create_producer(topic, schema=schema)
    for value in values:
        producer.send(value)
    producer.close()


def rows(reader: DataFrameReader, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in reader.load().orderBy("index").select(*columns).collect()]


def test_avro_of_two_versions_is_one_table(reading: Reading, client: Any, topic: str) -> None:
    send(client, topic, AvroSchema(Older), Older(name="a", number=1), Older(number=2))
    newer = {"name": "c", "number": 3, "colour": "blue"}
    send(client, topic, AvroSchema(None, schema_definition=NEWER), newer)
    frame = reading(decode="schema").load()
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<name:string,number:int,colour:string>"
    )
    expected = [("a", 1, "red"), (None, 2, "red"), ("c", 3, "blue")]
    assert rows(reading(decode="avro"), "value.*") == expected
    # By the older one: the field that it does not know is left out.
    assert rows(reading(decode="schema", schemaVersion=0), "value.*") == [
        ("a", 1), (None, 2), ("c", 3),
    ]  # fmt: skip
    split = reading(decode="schema", minPartitions=3, columns="index,value")
    assert rows(split, "value.number") == [(1,), (2,), (3,)]


def test_what_a_topic_has_not_is_refused(reading: Reading, client: Any, topic: str) -> None:
    send(client, topic, JsonSchema(Older), Older(name="a", number=1))
    with pytest.raises(PySparkException, match=r"decode is avro; .* has a schema of type JSON"):
        reading(decode="avro").load()
    with pytest.raises(PySparkException, match=r"schemaVersion is 7; .* has no such version"):
        reading(decode="schema", schemaVersion=7).load()
    with pytest.raises(PySparkException, match="valueSchema needs decode=json"):
        reading(decode="schema", valueSchema="a INT").load()
    send(client, f"{topic}-avro", AvroSchema(Older), Older(number=1))
    with pytest.raises(PySparkException, match=r"column value is .*cast it behind the source"):
        reading(topic=f"{topic}-avro", decode="schema").schema(
            "value STRUCT<x: INT>"
        ).load().collect()


def test_json_by_schema_and_by_what_is_given(reading: Reading, client: Any, topic: str) -> None:
    send(client, topic, JsonSchema(Older), Older(name="a", number=1), Older(number=2))
    assert rows(reading(decode="schema"), "value.*") == [("a", 1), (None, 2)]
    plain = f"{topic}-plain"
    send(client, plain, pulsar.schema.BytesSchema(), b'{"n": 1, "at": "2026-01-02T03:04:05Z"}')
    given = reading(topic=plain, decode="json", valueSchema="n INT, at TIMESTAMP")
    ((number, moment),) = rows(given, "value.*")
    assert (number, moment.isoformat()) == (1, "2026-01-02T03:04:05")
    with pytest.raises(PySparkException, match=r"has no schema.*valueSchema"):
        reading(topic=plain, decode="json").load()


def test_bad_values_are_named_or_kept_apart(reading: Reading, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    values = [b'{"n": %d}' % number for number in range(20)]
    values[13] = b"no json"
    for value in values:
        producer.send_async(value, None)
    producer.flush()
    options = {"decode": "json", "valueSchema": "n INT", "columns": "index,value"}
    with pytest.raises(PySparkException, match=f"{topic}: message 13 is not what its JSON schema"):
        reading(**options).load().collect()
    kept = {**options, "mode": "permissive", "columns": "index,value,_corrupt,_corrupt_reason"}
    found = rows(reading(**kept), "value.n", "_corrupt", "_corrupt_reason")
    assert [number for number, _, _ in found] == [*range(13), None, *range(14, 20)]
    ((_, corrupt, reason),) = [row for row in found if row[1] is not None]
    assert bytes(corrupt) == b"no json"
    assert "JSON" in reason


def test_protobuf_by_the_topics_descriptors(reading: Reading, broker: Any, topic: str) -> None:
    with milepost.Client(broker.url) as client:
        producer = client.create_producer(topic, schema=ProtobufNativeSchema(pb.KeyLongValue))
        producer.send(pb.KeyLongValue(key="a", value=2**64 - 1))
        producer.send(pb.KeyLongValue(key="b", value=0))
    found = rows(reading(decode="protobuf"), "value.*")
    assert [(key, int(value)) for key, value in found] == [("a", 2**64 - 1), ("b", 0)]


def test_a_stream_of_typed_values(
    spark: SparkSession,
    streaming: Callable[..., DataStreamReader],
    client: Any,
    topic: str,
    tmp_path: Path,
) -> None:
    send(client, topic, AvroSchema(Older), *(Older(name="x", number=n) for n in range(5)))
    frame = streaming(decode="schema", maxMessagesPerTrigger=2).load().select("value.number")
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("number").collect()
    assert [row.number for row in found] == list(range(5))
