from __future__ import annotations

import pytest
from google.protobuf import timestamp_pb2

from milepost.errors import InvalidSchema
from milepost.schemas.key_value import KeyValueSchema
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.schema import Schema, StringSchema
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.schemas.validation import SIZE_MAX, check_schema

RECORD = b'{"type": "record", "name": "R", "fields": []}'


def info(kind: str, data: bytes = b"", **properties: str) -> SchemaInfo:
    return SchemaInfo("s", SchemaType[kind], data, properties)


@pytest.mark.parametrize(
    "good",
    [
        info("AVRO", RECORD),
        info("JSON", RECORD),
        info("PROTOBUF", RECORD),
        info("AVRO", b'"string"'),
        info("JSON", b'["null", "int"]'),
        info("STRING"),
        info("STRING", b"null"),
        info("INT32"),
        info("LOCAL_DATE_TIME"),
        info("NONE"),
        info("BYTES", b"anything"),
        info("EXTERNAL", b"anything"),
        ProtobufNativeSchema(timestamp_pb2.Timestamp).schema_info(),
        KeyValueSchema(StringSchema(), PrimitiveSchema(SchemaType.INT8)).schema_info(),
    ],
)
def test_what_passes(good: SchemaInfo) -> None:
    check_schema(good)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (info("AVRO"), "AVRO schema: .* not JSON"),
        (info("AVRO", b"{"), "AVRO schema: .* not JSON"),
        (info("JSON", b'{"type": "object", "id": "x"}'), "JSON schema: .*'object' is not defined"),
        (info("PROTOBUF", b"5"), "PROTOBUF schema: 5 is no"),
        (info("AVRO", b'["null", "int"]'), "a union"),
        (info("PROTOBUF_NATIVE", b"{}"), "no protobuf descriptors"),
        (info("STRING", b"x"), "STRING schema with a definition of 1 bytes"),
        (info("INT8", b"null"), "INT8 schema with a definition of 4 bytes"),
        (info("KEY_VALUE"), "key-value"),
        (info("KEY_VALUE", bytes(8), **{"kv.encoding.type": "X"}), "encoding 'X'"),
        (info("KEY_VALUE", bytes(8), **{"value.schema.type": "AVRO"}), "AVRO schema"),
        (info("AUTO_CONSUME"), "a client's own"),
        (info("AUTO_PUBLISH"), "a client's own"),
        (info("EXTERNAL", bytes(SIZE_MAX + 1)), "at most 524288"),
        (info("STRING", b"", key="x" * SIZE_MAX), "at most 524288"),
    ],
)
def test_what_does_not(bad: SchemaInfo, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        check_schema(bad)


def test_key_values_without_end() -> None:
    schema: Schema = StringSchema()
    for _ in range(8):
        schema = KeyValueSchema(schema, StringSchema())
    check_schema(schema.schema_info())
    with pytest.raises(InvalidSchema, match="nested deeper than 8"):
        check_schema(KeyValueSchema(schema, StringSchema()).schema_info())
