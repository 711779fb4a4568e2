"""Payloads as JSON and back, by every kind of schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from unit.admin.conftest import Played
from unit.cli.conftest import Face

from milepost.cli.exits import CommandFailed
from milepost.cli.messages.values import NO_VALUE, TopicSchemas, ValueCodec, info_of
from milepost.client.connection.endpoint import Endpoint
from milepost.errors import SchemaMismatch
from milepost.schemas import (
    KeyValue,
    KeyValueSchema,
    PrimitiveSchema,
    ProtobufNativeSchema,
    SchemaInfo,
    SchemaType,
    StringSchema,
    version_bytes,
)

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def rest(kind: str, data: Any = "", **properties: str) -> dict[str, Any]:
    text = data if isinstance(data, str) else json.dumps(data)
    return {"version": 0, "type": kind, "data": text, "timestamp": 0, "properties": properties}


def codec(kind: str, data: Any = "") -> ValueCodec:
    return ValueCodec(info_of(rest(kind, data)))


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    st.integers(0, 253_402_300_799_999),
)
def test_avro_both_ways(
    number: int, note: str | None, raw: bytes, tags: list[str], at_ms: int
) -> None:
    value = {
        "id": number,
        "note": None if note is None else {"string": note},
        "raw": raw.decode("latin-1"),
        "tags": tags,
        "at": at_ms,
    }
    avro = codec("AVRO", ORDER)
    data = avro.encode(json.loads(json.dumps(value)))
    assert avro.decode(data) == value
    assert avro.encode(avro.decode(data)) == data


def test_protobuf_both_ways() -> None:
    info = ProtobufNativeSchema(Struct).schema_info()
    proto = codec("PROTOBUF_NATIVE", info.data.decode())
    value = {"a": 1.5, "b": ["x", None], "c": {"d": True}}
    assert proto.decode(proto.encode(value)) == value
    with pytest.raises(SchemaMismatch, match="protobuf"):
        proto.encode(7)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("JSON", {"a": [1, None, "ö"]}),
        ("STRING", "text"),
        ("INT32", -7),
        ("DOUBLE", 1.5),
        ("BOOLEAN", True),
        ("LOCAL_DATE", date(2026, 11, 16).isoformat()),
        ("INSTANT", datetime(2026, 11, 16, 1, 2, 3, tzinfo=UTC).isoformat()),
        ("LOCAL_TIME", "12:30:01"),
    ],
)
def test_other_kinds_both_ways(kind: str, value: Any) -> None:
    one = codec(kind, ORDER if kind == "JSON" else "")
    assert one.decode(one.encode(value)) == value


def test_a_key_and_a_value() -> None:
    schema = KeyValueSchema(StringSchema(), PrimitiveSchema(SchemaType.INT32))
    one = ValueCodec(schema.schema_info())
    assert one.decode(schema.encode(KeyValue("k", 7))) == {"key": "k", "value": 7}
    with pytest.raises(SchemaMismatch, match="publish their bytes"):
        one.encode({"key": "k", "value": 7})


@pytest.mark.parametrize("value", [{}, {"id": "x"}, 7, {"id": 1, "note": "untagged"}])
def test_json_that_an_avro_schema_does_not_fit(value: Any) -> None:
    with pytest.raises(SchemaMismatch):
        codec("AVRO", ORDER).encode(value)


def test_a_field_that_json_lacks_is_named() -> None:
    with pytest.raises(SchemaMismatch, match="does not fit: it lacks id, raw, tags, at;"):
        codec("AVRO", ORDER).encode({"note": None})


def schemas(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> tuple[TopicSchemas, Played]:
    transport = Played(*answers)
    monkeypatch.setattr(Endpoint, "admin", lambda self: Face(transport))
    return TopicSchemas(Endpoint(), "orders"), transport


def test_each_version_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, transport = schemas(monkeypatch, rest("STRING"), 404)
    for _ in range(3):
        assert found.value_of(b"x", version_bytes(3), b"") == "x"
        assert found.value_of(b"x", version_bytes(4), b"") is NO_VALUE
        assert found.value_of(b"x", b"", b"") is NO_VALUE
    assert [one.target for one in transport.asked] == [
        "/admin/v2/schemas/public/default/orders/schema/3",
        "/admin/v2/schemas/public/default/orders/schema/4",
    ]


def test_bytes_have_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = schemas(monkeypatch, rest("PROTOBUF", ORDER))
    assert found.value_of(b"x", version_bytes(0), b"") is NO_VALUE


def test_a_topic_without_a_schema_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = schemas(monkeypatch, 404)
    with pytest.raises(CommandFailed, match="has no schema; `milepost schemas upload`"):
        found.latest()


def test_the_definition_is_the_same_to_the_byte() -> None:
    """Else a producer would register another version."""
    text = json.dumps(ORDER, indent=1)
    assert info_of(rest("AVRO", text)) == SchemaInfo("", SchemaType.AVRO, text.encode(), {})
