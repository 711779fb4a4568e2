"""Which columns a schema can write, and what is in the way of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import StructType

from milepost.schemas import KeyValueSchema, PrimitiveSchema, StringSchema
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.schema_check import misfit, record_fields
from milepost.wire import pulsar_pb2 as pb

RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
        {"name": "data", "type": "bytes", "default": ""},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "L", "fields": [{"name": "n", "type": "int"}]},
            },
            "default": [],
        },
        {"name": "more", "type": {"type": "map", "values": "double"}, "default": {}},
    ],
}
AVRO = SchemaInfo("o", SchemaType.AVRO, json.dumps(RECORD).encode())
JSON = SchemaInfo("o", SchemaType.JSON, json.dumps(RECORD).encode())
PAIR = KeyValueSchema(StringSchema(), PrimitiveSchema(SchemaType.INT64)).schema_info()
PROTOBUF = ProtobufNativeSchema(pb.KeyLongValue).schema_info()


def kind(**fields: Any) -> StructType:
    made = StructType()
    for name, one in fields.items():
        made = made.add(name, one)
    return made


LINES = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}],
    },
}
TEXTS = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
NUMBERS = {**TEXTS, "valueType": "float"}


def from_json(said: dict[str, Any]) -> Any:
    field = {"name": "x", "type": said, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]})["x"].dataType


@pytest.mark.parametrize(
    ("columns", "info"),
    [
        (kind(id="long"), AVRO),
        (kind(id="integer", name="string", at="timestamp", data="binary"), AVRO),
        (kind(id="short", data="string", at="long"), JSON),
        (kind(id="long", more=from_json(NUMBERS)), AVRO),
        (kind(key="string", value="integer"), PAIR),
        (kind(key="string", value="long"), PROTOBUF),
        (kind(value="decimal(20,0)"), PROTOBUF),
    ],
)
def test_what_fits(columns: StructType, info: SchemaInfo) -> None:
    assert misfit(columns, info) is None


@pytest.mark.parametrize(
    ("columns", "info", "why"),
    [
        (kind(name="string"), AVRO, "value.id is missing, and has no default in the record Order"),
        (kind(id="long", nam="string"), AVRO, "value.nam is no field of the record Order, which has id"),
        (kind(id="string"), AVRO, "value.id is STRING, the schema has BIGINT"),
        (kind(id="long", at="long"), AVRO, "value.at is BIGINT, the schema has TIMESTAMP"),
        (kind(id="long", data="binary"), JSON, "value.data is BINARY, the schema has STRING"),
        (kind(id="long", lines=from_json(LINES)), AVRO, "value.lines[].n is BIGINT, the schema has INT"),
        (kind(id="long", more=from_json(TEXTS)), AVRO, "value.more[] is STRING, the schema has DOUBLE"),
        (kind(key="string"), PAIR, "value is STRUCT<`key`: STRING>, the schema has a key and a value"),
        (kind(key="integer", value="integer"), PAIR, "value.key is INT, the schema has STRING"),
        (kind(kee="string"), PROTOBUF, "value.kee is no field of the message KeyLongValue, which has key"),
        (kind(value="string"), PROTOBUF, "value.value is STRING, the schema has DECIMAL(20, 0)"),
    ],
)  # fmt: skip
def test_what_does_not(columns: StructType, info: SchemaInfo, why: str) -> None:
    assert str(misfit(columns, info)).startswith(why)


def test_single_values() -> None:
    number = SchemaInfo("n", SchemaType.INT32, b"")
    assert misfit(kind(x="short")["x"].dataType, number) is None
    assert misfit(kind(x="long")["x"].dataType, number) == ("value is BIGINT, the schema has INT")
    for record in (AVRO, PROTOBUF):
        assert "the schema has the" in str(misfit(kind(x="integer")["x"].dataType, record))


def test_the_fields_of_a_record() -> None:
    assert record_fields(AVRO) == ["id", "name", "at", "data", "lines", "more"]
    assert record_fields(PROTOBUF) == ["key", "value"]
    assert record_fields(PAIR) is None
    assert record_fields(SchemaInfo("a", SchemaType.AVRO, b'"string"')) is None
