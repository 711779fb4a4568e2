from __future__ import annotations

import json
from enum import Enum

import pytest

from milepost.errors import SchemaMismatch
from milepost.schemas.fields import Array, Bytes, Integer, String
from milepost.schemas.json_schema import JsonSchema
from milepost.schemas.record import Record
from milepost.schemas.types import SchemaType


class Color(Enum):
    RED = 1


class Inner(Record):
    x = Integer()


class Outer(Record):
    a = String()
    color = Color
    raw = Bytes()
    inner = Inner
    many = Array(Inner())


SCHEMA = JsonSchema(Outer)


def test_byte_for_byte() -> None:
    made = Outer(a="ä", color=Color.RED, raw=b"raw", inner={"x": 1}, many=[{"x": 2}])
    data = SCHEMA.encode(made)
    assert data.startswith(
        b'{\n "a": "\\u00e4",\n "color": 1,\n "raw": "raw",\n "inner": {\n  "x": 1'
    )
    assert SCHEMA.decode(data) == made


def test_it_is_described_by_an_avro_schema() -> None:
    info = SCHEMA.schema_info()
    assert (info.name, info.type) == ("JSON", SchemaType.JSON)
    assert json.loads(info.data) == Outer.schema()


def test_fields_that_came_later_are_ignored() -> None:
    assert SCHEMA.decode(b'{"a": "x", "later": 5}') == Outer(a="x")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"5", b"\xff", b'{"a": 5}', b"[" * 100_000])
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(SchemaMismatch):
        SCHEMA.decode(data)


def test_what_has_no_json() -> None:
    with pytest.raises(SchemaMismatch, match="type dict where Outer"):
        SCHEMA.encode({})
    with pytest.raises(SchemaMismatch, match="no JSON"):
        SCHEMA.encode(Outer(raw=b"\xff"))
