"""Columns of the topic's schema in lakes of both kinds: over versions, merged, beside values that are bad;
and in the frame of past and tail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, BytesSchema, JsonSchema
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import milepost.spark
from milepost.client.connection.endpoint import Endpoint
from milepost.errors import MilepostError
from milepost.spark.options import ReadOptions
from milepost.spark.pipelines.archive import Archived, archive
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.verify import verify, verify_copy
from spark.test_values_by_schema import NEWER, Older, send

NEWEST: dict[str, Any] = {
    "type": "record",
    "name": "Newest",
    "fields": [
        {"name": "number", "type": ["null", "int"]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "sizes", "type": {"type": "array", "items": "int"}, "default": []},
    ],
}


class Archivist:
    def __init__(self, spark: SparkSession, broker: Any, topic: str, lake: Path) -> None:
        self.spark, self.topic, self.lake = spark, topic, lake
        self.connection = Endpoint(url=broker.url)

    def go_on(self, **how: Any) -> Archived:
        options = ReadOptions(self.connection, topics=(self.topic,))
        return archive(self.spark, options, self.lake, **how)

    def table(self, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
        given = {"serviceUrl": self.connection.url, **options}
        frame = milepost.spark.table(self.spark, self.topic, self.lake, **given)
        return [tuple(row) for row in frame.orderBy("index").select(*columns).collect()]

    def proof(self) -> tuple[int, list[str]]:
        found = verify(self.spark, self.connection, self.lake)
        return found.messages, found.problems


@pytest.fixture
def archivist(spark: SparkSession, broker: Any, topic: str, tmp_path: Path) -> Archivist:
    return Archivist(spark, broker, topic, tmp_path / "lake")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_the_columns_follow_the_schema(
    archivist: Archivist, client: pulsar.Client, topic: str, kind: str
) -> None:
    # Before there was a schema, then three versions of one.
    send(client, topic, BytesSchema(), b"plain")
    assert archivist.go_on(kind=kind).corrupt == 0
    assert open_lake(archivist.lake).decoded is None
    send(client, topic, AvroSchema(Older), Older(name="a", number=1), Older(number=2))
    first = archivist.go_on(files_min=0)
    assert (first.messages, first.corrupt, first.bytes_only) == (2, 0, None)
    newer = {"name": "c", "number": 3, "colour": "blue"}
    send(client, topic, AvroSchema(None, schema_definition=NEWER), newer)
    archivist.go_on(files_min=0)
    newest = {"number": 4, "name": "d", "sizes": [1, 2]}
    send(client, topic, AvroSchema(None, schema_definition=NEWEST), newest)
    archivist.go_on(files_min=0)
    kept = open_lake(archivist.lake).decoded
    assert kept is not None
    assert kept.simpleString() == ("struct<name:string,number:int,colour:string,sizes:array<int>>")
    assert archivist.proof() == (5, [])

    # The tail and the past in one frame, by the newest schema, before merging and behind it.
    send(client, topic, AvroSchema(None, schema_definition=NEWEST), {**newest, "number": 5})
    typed = {"decode": "schema", "mode": "permissive"}
    expected = [
        (None, None, None), ("a", 1, None), (None, 2, None), ("c", 3, None),
        ("d", 4, [1, 2]), ("d", 5, [1, 2]),
    ]  # fmt: skip
    wanted = ("value.name", "value.number", "value.sizes")
    assert archivist.table(*wanted, **typed) == expected
    ((bytes_, why), *others) = archivist.table("_corrupt", "_corrupt_reason", **typed)
    assert (bytes(bytes_), why) == (b"plain", "it was archived without its schema's columns")
    assert others == [(None, None)] * 5
    with pytest.raises(PySparkException, match=f"{topic}: message 0 is not what its schema says"):
        archivist.table(*wanted, decode="schema")
    assert archivist.table("value.number", columns="value,index", **typed)[1:3] == [(1,), (2,)]
    raw = [bytes(value) for (value,) in archivist.table("value")]
    assert len(raw) == 6

    assert archivist.go_on(files_min=2).merged >= 4
    assert len(open_lake(archivist.lake).files) == 1
    assert archivist.table(*wanted, **typed) == expected
    assert [bytes(value) for (value,) in archivist.table("value")] == raw
    assert archivist.proof() == (6, [])
    copy = f"{topic}-copy"
    spark, connection = archivist.spark, archivist.connection
    assert replay(spark, connection, archivist.lake, copy, name="r") == (6, 6)
    assert verify_copy(spark, connection, archivist.lake, copy).problems == []


def test_bad_values_are_kept_and_counted(
    archivist: Archivist, client: pulsar.Client, topic: str
) -> None:
    send(client, topic, JsonSchema(Older), Older(name="a", number=1))
    send(client, topic, BytesSchema(), b"no json")
    done = archivist.go_on()
    assert (done.messages, done.corrupt, done.bytes_only) == (2, 1, None)
    found = archivist.table(
        "value.number", "_corrupt", "_corrupt_reason", decode="json", mode="permissive"
    )
    assert found[0] == (1, None, None)
    assert (found[1][0], bytes(found[1][1])) == (None, b"no json")
    assert "JSON" in found[1][2]
    with pytest.raises(PySparkException, match=f"{topic}: message 1 is not what its schema says"):
        archivist.table("value", decode="json")
    assert archivist.proof() == (2, [])


def test_what_cannot_be_a_column_is_told(
    archivist: Archivist, client: pulsar.Client, topic: str, broker: Any
) -> None:
    path = f"/admin/v2/{topic.replace('://', '/')}/schemaCompatibilityStrategy"
    send(client, topic, AvroSchema(Older), Older(name="a", number=1))
    archivist.go_on()
    status, said = broker.rest("PUT", path, "ALWAYS_COMPATIBLE")
    assert status < 300, said
    other = {"type": "record", "name": "R", "fields": [{"name": "number", "type": "string"}]}
    send(client, topic, AvroSchema(None, schema_definition=other), {"number": "two"})
    with pytest.raises(MilepostError, match="number is int in the lake, and string by"):
        archivist.go_on(decode="schema")
    done = archivist.go_on()
    assert (done.messages, done.corrupt) == (1, 0)
    assert "decoded.number is int in the lake, and string by the topic's schema" in str(
        done.bytes_only
    )
    assert archivist.proof() == (2, [])
    with pytest.raises(MilepostError, match=r"decoded.number is int .*schemaVersion"):
        archivist.table("value", decode="schema")
    by_older = {"decode": "schema", "schemaVersion": 0, "mode": "permissive"}
    assert archivist.table("value.number", **by_older) == [(1,), (None,)]
    with pytest.raises(MilepostError, match=r"allowed is auto \| schema \| raw"):
        archivist.go_on(decode="avro")


def test_bytes_alone_where_that_is_asked_for(
    archivist: Archivist, client: pulsar.Client, topic: str
) -> None:
    send(client, topic, AvroSchema(Older), Older(name="a", number=1))
    archivist.go_on(decode="raw")
    assert open_lake(archivist.lake).decoded is None
    with pytest.raises(MilepostError, match="archived without the schema's columns"):
        archivist.table("value", decode="schema")
