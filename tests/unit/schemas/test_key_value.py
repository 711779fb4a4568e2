from __future__ import annotations

import json

import pytest

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.fields import Integer
from milepost.schemas.json_schema import JsonSchema
from milepost.schemas.key_value import (
    KeyValue,
    KeyValueEncodingType,
    KeyValueSchema,
    data_from_json,
    data_to_json,
    encoding_of,
    join_bytes,
    split_bytes,
    split_info,
)
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.record import Record
from milepost.schemas.schema import StringSchema
from milepost.schemas.types import SchemaInfo, SchemaType


class Reading(Record):
    x = Integer()


INLINE = KeyValueSchema(StringSchema(), JsonSchema(Reading))
SEPARATED = KeyValueSchema(
    StringSchema(), PrimitiveSchema(SchemaType.INT32), KeyValueEncodingType.SEPARATED
)


def test_inline() -> None:
    pair = KeyValue("k", Reading(x=1))
    data = INLINE.encode(pair)
    assert data.startswith(b"\x00\x00\x00\x01k\x00\x00\x00")
    assert INLINE.decode(data) == pair
    for empty in (KeyValue(None, Reading()), KeyValue("k", None), KeyValue(None, None)):
        assert INLINE.decode(INLINE.encode(empty)) == empty
    with pytest.raises(SchemaMismatch):
        INLINE.encode(("k", 5))


def test_separated() -> None:
    pair = KeyValue("k", 5)
    assert SEPARATED.encode(pair) == b"\x00\x00\x00\x05"
    assert SEPARATED.encode_key(pair) == b"k"
    assert SEPARATED.decode(b"\x00\x00\x00\x05", key=b"k") == pair
    assert SEPARATED.decode(b"\x00\x00\x00\x05").key is None


def test_bytes() -> None:
    assert join_bytes(b"a", None) == b"\x00\x00\x00\x01a\xff\xff\xff\xff"
    assert split_bytes(join_bytes(b"", b"v")) == (b"", b"v")


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0", b"\0\0\0\x01", b"\0\0\0\0", b"\0\0\0\0\0\0\0\x05v", b"\xff\xff\xff\xfe" * 2],
)
def test_bytes_of_something_else(data: bytes) -> None:
    with pytest.raises(SchemaMismatch, match=f"{len(data)} bytes are no key and value"):
        split_bytes(data)
    with pytest.raises(InvalidSchema):
        split_info(SchemaInfo("", SchemaType.KEY_VALUE, data))
    with pytest.raises(SchemaMismatch):
        split_bytes(join_bytes(b"a", b"b") + b"more")


def test_the_definition() -> None:
    info = INLINE.schema_info()
    assert info.type is SchemaType.KEY_VALUE
    assert info.properties == {
        "kv.encoding.type": "INLINE",
        "key.schema.name": "STRING",
        "key.schema.type": "STRING",
        "key.schema.properties": "{}",
        "value.schema.name": "JSON",
        "value.schema.type": "JSON",
        "value.schema.properties": "{}",
    }
    assert split_info(info) == (
        StringSchema().schema_info(),
        JsonSchema(Reading).schema_info(),
    )
    assert encoding_of(info) is KeyValueEncodingType.INLINE
    assert encoding_of(SEPARATED.schema_info()) is KeyValueEncodingType.SEPARATED


def test_what_is_left_out_of_the_properties() -> None:
    key, value = split_info(SchemaInfo("", SchemaType.KEY_VALUE, join_bytes(b"", b"")))
    assert key.type is value.type is SchemaType.BYTES
    assert encoding_of(SchemaInfo("", SchemaType.KEY_VALUE, b"")) is KeyValueEncodingType.INLINE


@pytest.mark.parametrize(
    "properties",
    [
        {"key.schema.type": "NOPE"},
        {"key.schema.properties": "{"},
        {"value.schema.properties": "[]"},
    ],
)
def test_properties_that_say_nothing(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidSchema):
        split_info(SchemaInfo("", SchemaType.KEY_VALUE, join_bytes(b"", b""), properties))
    with pytest.raises(InvalidSchema):
        encoding_of(SchemaInfo("", SchemaType.KEY_VALUE, b"", {"kv.encoding.type": "NOPE"}))
    with pytest.raises(InvalidSchema, match="STRING is no key-value schema"):
        split_info(SchemaInfo("", SchemaType.STRING, b""))


def test_as_rest_says_it() -> None:
    info = INLINE.schema_info()
    text = data_to_json(info)
    assert json.loads(text) == {"key": "", "value": Reading.schema()}
    again = info._replace(data=data_from_json(text))
    assert data_to_json(again) == text
    nested = KeyValueSchema(StringSchema(), INLINE).schema_info()
    assert json.loads(data_to_json(nested))["value"]["value"] == Reading.schema()
    half = r'{"key": "\ud800", "value": ""}'  # of a surrogate pair
    for wrong in ("", "[]", "{}", '{"key": ""}', "[" * 100_000, half):
        with pytest.raises(InvalidSchema):
            data_from_json(wrong)
