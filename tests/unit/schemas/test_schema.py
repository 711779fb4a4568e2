from __future__ import annotations

import pytest

from milepost.errors import SchemaMismatch
from milepost.schemas.schema import BytesSchema, Schema, StringSchema
from milepost.schemas.types import SchemaType


def test_bytes() -> None:
    schema = BytesSchema()
    assert schema.decode(schema.encode(b"\xff")) == b"\xff"
    assert schema.schema_info().type is SchemaType.BYTES
    assert str(schema) == "BytesSchema"
    with pytest.raises(SchemaMismatch, match="type str where bytes"):
        schema.encode("text")


def test_strings() -> None:
    schema = StringSchema()
    assert schema.encode("größer") == "größer".encode()
    assert schema.decode("größer".encode()) == "größer"
    assert schema.schema_info().type is SchemaType.STRING
    assert str(schema) == "StringSchema"
    with pytest.raises(SchemaMismatch, match="type bytes where str"):
        schema.encode(b"text")
    with pytest.raises(SchemaMismatch, match="1 bytes are no UTF-8"):
        schema.decode(b"\xff")


def test_only_some_need_the_writers_schema() -> None:
    assert not StringSchema().needs_writer
    base = Schema(None, SchemaType.NONE, None, "")
    for call in (base.encode, base.decode):
        with pytest.raises(NotImplementedError):
            call(b"")
