from __future__ import annotations

import json
import re
from enum import Enum
from pathlib import Path

import pytest

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.avro import WRITERS_MAX, AvroSchema
from milepost.schemas.fields import Array, Bytes, Integer, Map, String
from milepost.schemas.record import Record
from milepost.schemas.types import SchemaInfo, SchemaType


class Color(Enum):
    RED = 1
    GREEN = 2


class Inner(Record):
    x = Integer()


class Outer(Record):
    a = String()
    color = Color
    raw = Bytes()
    inner = Inner
    many = Array(Inner())
    named = Map(Inner())


class Grown(Record):
    a = String()
    b = Integer(default=7, required=True, required_default=True)


SCHEMA = AvroSchema(Outer)


def test_there_and_back() -> None:
    made = Outer(
        a="ä",
        color=Color.GREEN,
        raw=b"\xff",
        inner={"x": 1},
        many=[{"x": 2}],
        named={"k": {"x": 3}},
    )
    assert SCHEMA.decode(SCHEMA.encode(made)) == made
    assert SCHEMA.needs_writer


def test_byte_for_byte() -> None:
    """Branch 1, a text of one byte; null five times, but for the record, whose field is null."""
    assert SCHEMA.encode(Outer(a="x")) == bytes.fromhex(
        "020278" + "00" + "00" + "0200" + "00" + "00"
    )


def test_a_definition_of_ones_own() -> None:
    definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    schema = AvroSchema(None, definition)
    assert schema.decode(schema.encode({"a": 5})) == {"a": 5}
    assert json.loads(schema.schema_info().data) == definition
    with pytest.raises(SchemaMismatch, match="where a dictionary"):
        schema.encode(5)
    with pytest.raises(SchemaMismatch, match=r"does not fit: an integer is required on field a$"):
        schema.encode({"a": "text"})


def test_old_data_is_read_with_the_schema_that_wrote_it() -> None:
    class Old(Record):
        a = String()

    old = AvroSchema(Old)
    grown = AvroSchema(Grown)
    data = old.encode(Old(a="x"))
    assert grown.decode(data, old.schema_info()) == Grown(a="x", b=7)
    with pytest.raises(SchemaMismatch):
        grown.decode(data)
    assert old.decode(grown.encode(Grown(a="y", b=1)), grown.schema_info()) == Old(a="y")


def test_a_writers_namespace_does_not_matter() -> None:
    class Spaced(Record):
        _avro_namespace = "a.b"
        a = String()

    spaced = AvroSchema(Spaced)
    assert AvroSchema(Grown).decode(spaced.encode(Spaced(a="x")), spaced.schema_info()).a == "x"
    grown = AvroSchema(Grown)
    assert spaced.decode(grown.encode(Grown(a="x")), grown.schema_info()).a == "x"


def test_writers_are_kept_but_not_without_end() -> None:
    grown = AvroSchema(Grown)
    for number in range(WRITERS_MAX + 10):
        fields = [{"name": "a", "type": ["null", "string"]}, {"name": f"n{number}", "type": "null"}]
        data = json.dumps({"type": "record", "name": "Grown", "fields": fields}).encode()
        writer = SchemaInfo("", SchemaType.AVRO, data)
        assert grown.decode(b"\x02\x02x", writer).a == "x"
    assert len(grown._writers) <= WRITERS_MAX


@pytest.mark.parametrize("data", [b"", b"\x02", b"\xff" * 20, b"\x02\x02x" + b"\x00" * 40])
def test_bytes_of_something_else(data: bytes) -> None:
    with pytest.raises(SchemaMismatch, match="not Avro's"):
        SCHEMA.decode(data)


def test_schemas_that_are_none() -> None:
    with pytest.raises(InvalidSchema, match="class or a definition"):
        AvroSchema(None)
    with pytest.raises(InvalidSchema):
        AvroSchema(None, {"type": "nope"})
    with pytest.raises(InvalidSchema, match="not JSON"):
        SCHEMA.decode(b"", SchemaInfo("", SchemaType.AVRO, b"{"))
    with pytest.raises(SchemaMismatch, match="JSON data where AVRO"):
        SCHEMA.decode(b"", SchemaInfo("", SchemaType.JSON, b"{}"))
    with pytest.raises(SchemaMismatch, match="type Inner where Outer"):
        SCHEMA.encode(Inner())


def test_the_example_of_the_page() -> None:
    text = (Path(__file__).parents[3] / "docs/schemas.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(code, {"__name__": "example"})
