"""What a server decodes for people: values of every kind, and payloads and schemas that want too much."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from google.protobuf import type_pb2

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.key_value import KeyValueEncodingType, join_bytes, join_infos
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.shown_values import DEPTH_MAX, TEXT_MAX, is_shown, shown_value
from milepost.schemas.types import SchemaInfo, SchemaType

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "raw", "type": "bytes"},
        {"name": "paid", "type": "boolean"},
        {"name": "rate", "type": "float"},
        {"name": "next", "type": ["null", "Order"], "default": None},
        {"name": "sizes", "type": {"type": "array", "items": "shop.Size"}},
    ],
}


def avro(schema: Any) -> SchemaInfo:
    return SchemaInfo("", SchemaType.AVRO, json.dumps(schema).encode())


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def order(**fields: Any) -> dict[str, Any]:
    plain = {
        "id": 7, "city": "Köln", "size": "L", "tags": {"a": 0.5}, "hash": b"\x01\xff", "raw": b"\xfe",
        "paid": True, "rate": 0.25, "next": None, "sizes": ["S", "L", "S"],
    }  # fmt: skip
    return {**plain, **fields}


def test_avro_is_shown_as_it_was_written() -> None:
    value = order(next=order(city=None))
    shown = shown_value(avro(ORDER), written(ORDER, value))
    texts = {"hash": "\x01ÿ", "raw": "þ"}
    assert shown == order(**texts, next=order(city=None, **texts))


def test_numbers_that_readers_would_round_are_text() -> None:
    assert shown_value(avro("long"), written("long", 2**62)) == str(2**62)
    assert shown_value(avro("double"), written("double", float("nan"))) == "nan"
    assert shown_value(avro("long"), written("long", -(2**53))) == -(2**53)


def test_protobuf_is_shown_by_the_names_of_its_fields() -> None:
    schema = ProtobufNativeSchema(type_pb2.Type)
    message = type_pb2.Type(name="x", oneofs=["a", "b"])
    info = schema.schema_info()
    assert shown_value(info, schema.encode(message)) == {"name": "x", "oneofs": ["a", "b"]}
    for payload in (b"\x0a\xff", bytes(10_000_000)):
        with pytest.raises(SchemaMismatch):
            shown_value(info, payload)


def test_single_values() -> None:
    assert shown_value(SchemaInfo("", SchemaType.INT32, b""), b"\0\0\1\0") == 256
    assert not is_shown(SchemaType.JSON)
    assert not is_shown(SchemaType.STRING)
    with pytest.raises(SchemaMismatch):
        shown_value(SchemaInfo("", SchemaType.INT32, b""), b"\0")


@pytest.mark.parametrize("encoding", list(KeyValueEncodingType))
def test_a_key_and_a_value(encoding: KeyValueEncodingType) -> None:
    number = SchemaInfo("", SchemaType.INT32, b"")
    text = SchemaInfo("", SchemaType.JSON, b"{}")
    info = join_infos(number, text, encoding)
    assert is_shown(info.type)
    for said, shown in ((b'{"a": [1, null]}', {"a": [1, None]}), (None, None)):
        if encoding is KeyValueEncodingType.INLINE:
            found = shown_value(info, join_bytes(b"\0\0\1\0", said), b"of the message")
            assert found == {"key": 256, "value": shown}
        elif said is not None:
            assert shown_value(info, said, b"\0\0\1\0") == {"key": 256, "value": shown}
            assert shown_value(info, said) == {"key": None, "value": shown}
    for value in (b"{", b"[" * 60_000, b"[" * 80 + b"]" * 80, b"9" * 5000):
        with pytest.raises(SchemaMismatch):
            shown_value(info, join_bytes(b"\0\0\0\1", value), b"\0\0\0\1")
    with pytest.raises(InvalidSchema, match="inside a pair"):
        shown_value(join_infos(number, info, encoding), b"")


EMPTY = {"type": "record", "name": "E", "fields": []}
NESTED = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
LONG_NAME = {"type": "record", "name": "L", "fields": [{"name": "x" * 5000, "type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ({"type": "array", "items": EMPTY}, b"\x80\x80\x80\x80\x80\x20"),
        ({"type": "array", "items": LONG_NAME}, b"\xc0\x84\x3d"),
        (NESTED, b"\x02" * 60_000),
        ("string", b"\xfe\xff\xff\xff\x0f"),
        ("string", b"\x01"),
        ("long", b"\xff" * 20),
        ("long", b"\x02\x02"),
        (["null", "long"], b"\x08"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}, b""),
        ({"type": "fixed", "name": "F", "size": -1}, b""),
        ({"nonsense": 1}, b""),
        (7, b""),
    ],
)
def test_what_wants_too_much_or_does_not_fit_is_refused_at_once(
    schema: Any, payload: bytes
) -> None:
    with pytest.raises(SchemaMismatch):
        shown_value(avro(schema), payload)


def test_what_is_as_large_as_allowed_is_shown() -> None:
    text = "x" * (TEXT_MAX - 100)
    assert shown_value(avro("string"), written("string", text)) == text
    deep = shown_value(avro(NESTED), b"\x02" * (DEPTH_MAX // 3 - 1) + b"\0")
    assert deep["n"]["n"] is not None
