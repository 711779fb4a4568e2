from __future__ import annotations

import json

import pytest
from google.protobuf import timestamp_pb2

from milepost.errors import SchemaMismatch
from milepost.schemas.auto import READY_MAX, AutoConsumeSchema, AutoProduceSchema, schema_of
from milepost.schemas.avro import AvroSchema
from milepost.schemas.fields import Integer, String
from milepost.schemas.json_schema import JsonSchema
from milepost.schemas.key_value import KeyValue, KeyValueEncodingType, KeyValueSchema
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.record import Record
from milepost.schemas.schema import Schema, StringSchema
from milepost.schemas.types import SchemaInfo, SchemaType


class Point(Record):
    x = Integer()
    name = String()


CASES: list[tuple[Schema, object, object]] = [
    (StringSchema(), "text", "text"),
    (PrimitiveSchema(SchemaType.INT16), 5, 5),
    (JsonSchema(Point), Point(x=1, name="a"), {"x": 1, "name": "a"}),
    (AvroSchema(Point), Point(x=1, name="a"), {"x": 1, "name": "a"}),
    (
        KeyValueSchema(StringSchema(), AvroSchema(Point)),
        KeyValue("k", Point(x=1)),
        KeyValue("k", {"x": 1, "name": None}),
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), CASES)
def test_whatever_was_written(schema: Schema, value: object, expected: object) -> None:
    auto = AutoConsumeSchema()
    for _ in range(2):
        assert auto.decode(schema.encode(value), schema.schema_info()) == expected


@pytest.mark.parametrize(("schema", "value", "expected"), CASES)
def test_only_bytes_of_the_topics_schema_pass(
    schema: Schema, value: object, expected: object
) -> None:
    auto = AutoProduceSchema(schema.schema_info())
    data = schema.encode(value)
    assert auto.encode(data) == auto.decode(data) == data
    assert auto.schema_info() == schema.schema_info()
    with pytest.raises(SchemaMismatch):
        auto.encode(b"\xff\xff\xff")


def test_protobuf() -> None:
    schema = ProtobufNativeSchema(timestamp_pb2.Timestamp)
    auto = AutoConsumeSchema()
    data = schema.encode(timestamp_pb2.Timestamp(seconds=5))
    assert auto.decode(data, schema.schema_info()).seconds == 5
    generic = schema_of(schema.schema_info())
    assert generic.encode(generic.decode(data)) == data
    with pytest.raises(SchemaMismatch, match=r"no google\.protobuf\.Timestamp"):
        auto.decode(b"\xff", schema.schema_info())


def test_separated_keys() -> None:
    schema = KeyValueSchema(
        StringSchema(), StringSchema(), KeyValueEncodingType.SEPARATED
    ).schema_info()
    assert AutoConsumeSchema().decode(b"v", schema, key=b"k") == KeyValue("k", "v")


def test_without_a_schema_bytes_are_bytes() -> None:
    assert AutoConsumeSchema().decode(b"\xff") == b"\xff"
    auto = AutoProduceSchema()
    assert auto.encode(b"\xff") == b"\xff"
    assert auto.schema_info().type is SchemaType.BYTES
    auto.attach(StringSchema().schema_info())
    with pytest.raises(SchemaMismatch):
        auto.encode(b"\xff")
    assert schema_of(SchemaInfo("", SchemaType.PROTOBUF, b"{}")).decode(b"x") == b"x"


def test_what_only_reads() -> None:
    auto = AutoConsumeSchema()
    assert auto.schema_info().type is SchemaType.AUTO_CONSUME
    with pytest.raises(SchemaMismatch, match="writes nothing"):
        auto.encode("x")
    with pytest.raises(SchemaMismatch, match="writes nothing"):
        schema_of(JsonSchema(Point).schema_info()).encode({})
    avro = schema_of(AvroSchema(Point).schema_info())
    assert avro.decode(avro.encode({"x": 1})) == {"x": 1, "name": None}


def test_schemas_are_kept_but_not_without_end() -> None:
    auto = AutoConsumeSchema()
    for number in range(READY_MAX + 10):
        data = json.dumps({"type": "record", "name": f"R{number}", "fields": []}).encode()
        assert auto.decode(b"", SchemaInfo("", SchemaType.AVRO, data)) == {}
    assert len(auto._ready) <= READY_MAX
