"""Our schema classes beside those of the official package: definitions and messages, byte for byte."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pulsar.schema as official
import pytest
from google.protobuf import timestamp_pb2, type_pb2

from milepost import schemas as ours


class Color(Enum):
    RED = 1
    GREEN = 2


def example(package: Any) -> Any:
    """The same classes, declared with either package."""

    class Inner(package.Record):  # type: ignore[misc]
        x = package.Integer()
        y = package.String(default="why")

    class Example(package.Record):  # type: ignore[misc]
        _avro_namespace = "org.example"
        text = package.String()
        number = package.Integer(required=True)
        truth = package.Boolean()
        ratio = package.Double(default=1.5, required_default=True)
        raw = package.Bytes()
        words = package.Array(package.String())
        counts = package.Map(package.Integer())
        color = Color
        inner = Inner
        inners = package.Array(Inner())
        named = package.Map(Inner())
        small = package.Float()
        large = package.Long()
        nothing = package.Null()
        other = package.CustomEnum(Color, default=Color.RED, required_default=True)
        nested = package.Array(package.Array(package.Long()))
        needed = Inner(required=True)

    return Example


def sorted_example(package: Any) -> Any:
    class Sorted(package.Record):  # type: ignore[misc]
        _sorted_fields = True
        z = package.Integer()
        a = package.String(required=True)

    return Sorted


FULL = {
    "text": "größer",
    "number": 5,
    "truth": True,
    "ratio": 2,
    "raw": b"raw",
    "words": ["p", "q"],
    "counts": {"k": 1},
    "color": "GREEN",
    "inner": {"x": 3},
    "inners": [{"x": 1}, {"y": "z"}],
    "named": {"u": {"x": 9}},
    "small": 1.25,
    "large": 2**40,
    "other": 2,
    "nested": [[1, 2], [3]],
}


@pytest.mark.parametrize("name", ["JsonSchema", "AvroSchema"])
@pytest.mark.parametrize("values", [FULL, {"number": 1}, {"number": 1, "inner": None}])
def test_records(name: str, values: dict[str, Any]) -> None:
    theirs, mine = example(official), example(ours)
    assert mine.schema() == theirs.schema()
    their_schema = getattr(official, name)(theirs)
    my_schema = getattr(ours, name)(mine)
    info = their_schema.schema_info()
    assert my_schema.schema_info().data == info.schema().encode()
    assert my_schema.schema_info().name == info.name()
    assert int(my_schema.schema_info().type) == int(info.schema_type())
    data = their_schema.encode(theirs(**values))
    assert my_schema.encode(mine(**values)) == data
    if name == "AvroSchema":
        assert my_schema.decode(data) == mine(**values)
    assert vars(their_schema.decode(data)).keys() >= mine(**values).values().keys()
    assert my_schema.encode(my_schema.decode(data)) == data


def test_the_order_of_fields() -> None:
    theirs, mine = sorted_example(official), sorted_example(ours)
    assert mine.schema() == theirs.schema()
    for name in ("JsonSchema", "AvroSchema"):
        their_schema, my_schema = getattr(official, name)(theirs), getattr(ours, name)(mine)
        assert my_schema.schema_info().data == their_schema.schema_info().schema().encode()
        assert my_schema.encode(mine(z=1, a="b")) == their_schema.encode(theirs(z=1, a="b"))


@pytest.mark.parametrize("name", ["BytesSchema", "StringSchema"])
def test_simple_ones(name: str) -> None:
    theirs, mine = getattr(official, name)(), getattr(ours, name)()
    info = theirs.schema_info()
    assert mine.schema_info().data == info.schema().encode()
    assert mine.schema_info().name == info.name()
    assert int(mine.schema_info().type) == int(info.schema_type())
    assert str(mine) == str(theirs)
    value: Any = "text" if name == "StringSchema" else b"text"
    assert mine.encode(value) == theirs.encode(value)


@pytest.mark.parametrize("message", [timestamp_pb2.Timestamp(seconds=5), type_pb2.Type(name="x")])
def test_protobuf(message: Any) -> None:
    theirs = official.ProtobufNativeSchema(type(message))
    mine = ours.ProtobufNativeSchema(type(message))
    assert mine.schema_info().data == theirs.schema_info().schema().encode()
    assert mine.encode(message) == theirs.encode(message)
    assert mine.decode(theirs.encode(message)) == message


def test_a_definition_of_ones_own() -> None:
    definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    theirs, mine = official.AvroSchema(None, definition), ours.AvroSchema(None, definition)
    assert mine.schema_info().data == theirs.schema_info().schema().encode()
    assert mine.encode({"a": 5}) == theirs.encode({"a": 5})


def test_every_name_of_the_official_package_is_here() -> None:
    names = {
        name
        for name, value in vars(official).items()
        if isinstance(value, type) and not name.startswith("_")
    }
    assert names <= set(ours.__all__)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", "5"),
        ("text", 5),
        ("truth", 1),
        ("words", [1]),
        ("words", "p"),
        ("counts", {1: 1}),
        ("counts", {"a": "b"}),
        ("color", "BLUE"),
        ("color", 7),
        ("inner", 5),
        ("nothing", 5),
    ],
)
def test_both_refuse_the_same(field: str, value: Any) -> None:
    for package in (official, ours):
        made = example(package)(number=1)
        with pytest.raises(TypeError):
            setattr(made, field, value)
        with pytest.raises(AttributeError):
            made.nope = 1
