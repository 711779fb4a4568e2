from __future__ import annotations

from enum import Enum

import pytest

from milepost.errors import SchemaMismatch
from milepost.schemas.fields import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Field,
    Float,
    Integer,
    Long,
    Map,
    Null,
    String,
)
from milepost.schemas.record import Record


class Color(Enum):
    RED = 1
    GREEN = 2


class Point(Record):
    x = Integer()


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (Null(), [None], [0]),
        (Boolean(), [True], [1, "yes"]),
        (Integer(), [5], ["5", 5.0]),
        (Long(), [2**40], [b"5"]),
        (Float(), [1, 1.5], ["1.5"]),
        (Double(), [1, 1.5], ["1.5"]),
        (Bytes(), [b"x"], [5]),
        (String(), ["x"], [5]),
        (CustomEnum(Color), [Color.RED, None], ["BLUE", 3, 1.5]),
        (Array(Integer()), [[], [1]], [["x"], (1,), 5]),
        (Array(Point()), [[Point(x=1)]], [[5]]),
        (Map(Integer()), [{}, {"a": 1}], [{"a": "x"}, {1: 1}, []]),
        (Map(Point), [{"a": Point(x=1)}], [{"a": {}}]),
        (Array(Array(Long())), [[[1], []]], [[1]]),
    ],
)
def test_what_a_field_takes(field: Field, good: list[object], bad: list[object]) -> None:
    for value in good:
        assert field.validate_type("f", value) == value
    for value in bad:
        with pytest.raises(SchemaMismatch, match="field f"):
            field.validate_type("f", value)
        with pytest.raises(TypeError):
            field.validate_type("f", value)


def test_conversions() -> None:
    assert Bytes().validate_type("f", "text") == b"text"
    assert String().validate_type("f", b"text") == "text"
    assert CustomEnum(Color).validate_type("f", "GREEN") is Color.GREEN
    assert CustomEnum(Color).validate_type("f", 1) is Color.RED


def test_none_is_the_default_unless_required() -> None:
    assert Integer(default=7).validate_type("f", None) == 7
    assert Integer().validate_type("f", None) is None
    with pytest.raises(SchemaMismatch):
        Integer(required=True).validate_type("f", None)
    assert Boolean().default() is False
    assert Boolean(default=True).default() is True
    assert CustomEnum(Color, default="RED").default() is Color.RED


def test_a_default_is_checked_when_it_is_declared() -> None:
    with pytest.raises(SchemaMismatch, match="field default"):
        Integer(default="x")


def test_schemas() -> None:
    assert Integer().schema() == "int"
    assert Array(Map(Double())).schema() == {
        "type": "array",
        "items": {"type": "map", "values": "double"},
    }
    assert Array(CustomEnum(Color)).schema() == {
        "type": "array",
        "items": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]},
    }
    assert CustomEnum(Color).schema_info({"Color"}) == "Color"


@pytest.mark.parametrize("inner", [int, 5, "string", String])
def test_containers_of_what_is_no_field(inner: object) -> None:
    with pytest.raises(SchemaMismatch, match="neither a field nor a record"):
        Array(inner)  # type: ignore[arg-type]


def test_enums_of_what_is_none() -> None:
    with pytest.raises(SchemaMismatch, match="no class of enum members"):
        CustomEnum(int)  # type: ignore[type-var, arg-type]
