"""What a topic's schema is in Spark, and what Spark has no type for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost.errors import InvalidOption
from milepost.schemas import key_value
from milepost.schemas.key_value import KeyValueEncodingType
from milepost.schemas.protobuf_native import definition_of
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.value_types import value_type
from milepost.wire import pulsar_pb2 as pb


def record(*fields: tuple[str, Any], kind: SchemaType = SchemaType.AVRO) -> SchemaInfo:
    said = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": one} for name, one in fields],
    }
    return SchemaInfo("R", kind, json.dumps(said).encode())


def test_primitives_are_columns_of_their_type() -> None:
    found = {
        kind.name: value_type(SchemaInfo("", kind, b""))
        for kind in (SchemaType.STRING, SchemaType.INT8, SchemaType.DOUBLE, SchemaType.LOCAL_DATE)
    }
    expected = {"STRING": "STRING", "INT8": "TINYINT", "DOUBLE": "DOUBLE", "LOCAL_DATE": "DATE"}
    assert found == expected
    with pytest.raises(InvalidOption, match="values of LOCAL_TIME have no type in Spark"):
        value_type(SchemaInfo("", SchemaType.LOCAL_TIME, b""))


def test_records_are_structs_of_their_fields() -> None:
    info = record(
        ("id", "long"),
        ("na$me", ["null", "string"]),
        ("tags", {"type": "array", "items": "string"}),
        ("by", {"type": "map", "values": ["null", "double"]}),
        ("inner", {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("clock", {"type": "int", "logicalType": "time-millis"}),
        ("wide", ["int", "long"]),
        ("colour", {"type": "enum", "name": "E", "symbols": ["RED"]}),
    )
    assert value_type(info) == (
        "STRUCT<`id`: BIGINT, `na$me`: STRING, `tags`: ARRAY<STRING>, `by`: MAP<STRING, DOUBLE>, "
        "`inner`: STRUCT<`x`: INT>, `at`: TIMESTAMP, `price`: DECIMAL(9, 2), `clock`: INT, "
        "`wide`: BIGINT, `colour`: STRING>"
    )


def test_json_says_numbers_and_text_only() -> None:
    info = record(
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("data", "bytes"),
        kind=SchemaType.JSON,
    )
    assert value_type(info) == "STRUCT<`at`: BIGINT, `data`: STRING>"


@pytest.mark.parametrize(
    ("field", "what"),
    [
        (["null", "int", "string"], "a union of null, int, string"),
        (["null", "R"], "record R, which contains itself"),
        ("null", "null alone"),
    ],
)
def test_what_has_no_type_is_named(field: Any, what: str) -> None:
    with pytest.raises(InvalidOption, match=f"has {what}.*use decode=raw"):
        value_type(record(("x", field)))


def test_messages_and_pairs_are_structs() -> None:
    data = json.dumps(definition_of(pb.KeyLongValue.DESCRIPTOR)).encode()
    info = SchemaInfo("", SchemaType.PROTOBUF_NATIVE, data)
    assert value_type(info) == "STRUCT<`key`: STRING, `value`: DECIMAL(20, 0)>"
    text = SchemaInfo("", SchemaType.STRING, b"")
    pair = key_value.join_infos(text, info, KeyValueEncodingType.INLINE)
    assert value_type(pair) == f"STRUCT<`key`: STRING, `value`: {value_type(info)}>"
