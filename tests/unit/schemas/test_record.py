from __future__ import annotations

from enum import Enum

import pytest

from milepost.errors import SchemaMismatch, UndeclaredField
from milepost.schemas.fields import Array, Boolean, CustomEnum, Integer, Map, String
from milepost.schemas.record import Record


class Color(Enum):
    RED = 1


class Inner(Record):
    x = Integer()
    y = String(default="y")


class Outer(Record):
    a = String()
    inner = Inner
    again = Inner(required=True)
    many = Array(Inner())
    named = Map(Inner())
    color = Color


def test_values_and_defaults() -> None:
    made = Outer(a="text", inner={"x": 1})
    assert made.a == "text"
    assert made.inner == Inner(x=1, y="y")
    assert made.again == Inner()
    assert made.many is None
    assert list(made.values()) == ["a", "inner", "again", "many", "named", "color"]


def test_dictionaries_become_records() -> None:
    made = Outer(many=[{"x": 1}, Inner(x=2)], named={"k": {"y": "z"}}, color="RED")
    assert [one.x for one in made.many] == [1, 2]
    assert made.named["k"].y == "z"
    assert made.color is Color.RED


def test_a_record_in_a_record_is_its_own() -> None:
    one, other = Outer(), Outer()
    one.inner.x = 5
    assert other.inner.x is None


def test_assignments_are_checked() -> None:
    made = Outer()
    with pytest.raises(SchemaMismatch, match="field a: int where string"):
        made.a = 5
    with pytest.raises(SchemaMismatch, match="field inner: int where Inner"):
        made.inner = 5
    with pytest.raises(UndeclaredField, match="record Outer has no field nope"):
        made.nope = 5
    with pytest.raises(AttributeError):
        made.nope = 5
    made.inner = None
    assert made.inner is None
    with pytest.raises(SchemaMismatch):
        made.again = None


def test_equality() -> None:
    assert Inner(x=1) == Inner(x=1)
    assert Inner(x=1) != Inner(x=2)
    assert Inner(x=1) != 5
    with pytest.raises(TypeError):
        hash(Inner())
    assert repr(Inner(x=1)) == "Inner({'x': 1, 'y': 'y'})"


def test_the_schema() -> None:
    assert Inner.schema() == {
        "type": "record",
        "name": "Inner",
        "fields": [
            {"name": "x", "type": ["null", "int"]},
            {"name": "y", "type": ["null", "string"]},
        ],
    }
    fields = {field["name"]: field["type"] for field in Outer.schema()["fields"]}
    assert fields["inner"][1]["name"] == "Inner"
    assert fields["again"] == "Inner", "a named type is defined once"
    assert fields["many"] == ["null", {"type": "array", "items": "Inner"}]


def test_namespace_order_and_defaults() -> None:
    class Named(Record):
        _avro_namespace = "a.b"
        _sorted_fields = True
        z = Integer(default=1, required_default=True)
        b = CustomEnum(Color, default=Color.RED, required_default=True)
        a = Boolean(required=True)

    assert Named.schema() == {
        "type": "record",
        "name": "Named",
        "namespace": "a.b",
        "fields": [
            {"name": "a", "type": "boolean"},
            {
                "name": "b",
                "default": "RED",
                "type": ["null", {"type": "enum", "name": "Color", "symbols": ["RED"]}],
            },
            {"name": "z", "default": 1, "type": ["null", "int"]},
        ],
    }
    assert Named.schema_info({"a.b.Named"}) == "a.b.Named"


def test_fields_are_those_of_the_class_itself() -> None:
    """As in the official client."""

    class Derived(Inner):
        z = Integer()

    assert [field["name"] for field in Derived.schema()["fields"]] == ["z"]
