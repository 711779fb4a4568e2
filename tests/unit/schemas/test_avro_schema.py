from __future__ import annotations

import json

import pytest

from milepost.errors import InvalidSchema
from milepost.schemas.avro_schema import NODES_MAX, identity, parse


def same(one: object, other: object) -> bool:
    return identity(parse(json.dumps(one))) == identity(parse(json.dumps(other)))


def record(*fields: object, name: str = "R", **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def test_a_record_that_holds_itself() -> None:
    node = parse(json.dumps(record({"name": "next", "type": ["null", "R"]}, namespace="a.b")))
    assert node.name == "a.b.R"
    assert node.short_name == "R"
    assert node.fields[0].schema.inner[1] is node
    assert repr(node) == "<Avro record a.b.R>"
    assert identity(node) == identity(node)


def test_names_of_nested_java_classes_and_other_letters() -> None:
    assert parse(json.dumps(record(name="Outer$Inner"))).name == "Outer$Inner"
    assert parse(json.dumps(record(name="Größe"))).name == "Größe"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("5", "5 is no Avro schema"),
        ("null", "None is no Avro schema"),
        ('"nope"', "'nope' is not defined"),
        ("{}", "has no type"),
        ('{"type": 5}', "has no type"),
        ('{"type": "record"}', "None for a name"),
        ('{"type": "record", "name": "R"}', "no list of fields"),
        ('{"type": "record", "name": "R", "fields": [5]}', "5 for a field"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "field a has no type"),
        ('{"type": "record", "name": "R", "fields": [{"type": "int"}]}', "None is no Avro name"),
        ('{"type": "record", "name": "", "fields": []}', "'' is no Avro name"),
        ('{"type": "record", "name": "1R", "fields": []}', "letters, digits"),
        ('{"type": "record", "name": "a-b", "fields": []}', "letters, digits"),
        ('{"type": "record", "name": "int", "fields": []}', "primitive"),
        ('{"type": "record", "name": "R", "namespace": 5, "fields": []}', "namespace 5"),
        ('{"type": "record", "name": "R", "aliases": "x", "fields": []}', "no list of names"),
        (r'{"type": "enum", "name": "E", "namespace": "\ud800"}', "no Avro namespace"),
        (r'{"type": "enum", "name": "\ud800.E"}', "no Avro namespace"),
        (r'{"type": "enum", "name": "\ud800"}', "letters, digits"),
        ('{"type": "enum", "name": "E"}', "no list of symbols"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "'B', its default"),
        ('{"type": "enum", "name": "E", "symbols": ["A b"]}', "letters, digits"),
        ('{"type": "fixed", "name": "F"}', "size None"),
        ('{"type": "fixed", "name": "F", "size": -1}', "size -1"),
        ('{"type": "fixed", "name": "F", "size": true}', "size True"),
        ('{"type": "array"}', "array has no items"),
        ('{"type": "map"}', "map has no values"),
        ('["int", "int"]', "'int' twice"),
        ('["int", ["null"]]', "directly inside another"),
    ],
)
def test_what_is_no_schema(text: str | bytes, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        parse(text)


def test_a_name_defined_twice_and_a_field_twice() -> None:
    inner = {"name": "a", "type": record()}
    with pytest.raises(InvalidSchema, match="R is defined twice"):
        parse(json.dumps(record(inner)))
    field = {"name": "a", "type": "int"}
    with pytest.raises(InvalidSchema, match="field 'a' twice"):
        parse(json.dumps(record(field, field)))


def test_too_deep_and_too_large() -> None:
    with pytest.raises(InvalidSchema, match="too deep"):
        parse('{"type":"array","items":' * 50_000 + '"int"' + "}" * 50_000)
    fields = [{"name": f"f{number}", "type": "int"} for number in range(NODES_MAX)]
    with pytest.raises(InvalidSchema, match="more than 20000 parts"):
        parse(json.dumps(record(*fields)))


def test_what_makes_no_difference() -> None:
    one = record({"name": "a", "type": "int", "doc": "one"}, doc="x", aliases=["Old"])
    other = {"fields": [{"type": {"type": "int"}, "name": "a"}], "name": "R", "type": "record"}
    assert same(one, other)
    assert same({"type": "record", "name": "a.R", "fields": []}, record(namespace="a"))


@pytest.mark.parametrize(
    "other",
    [
        record({"name": "a", "type": "int", "default": 2}),
        record({"name": "a", "type": "int"}),
        record({"name": "a", "type": "long", "default": 1}),
        record({"name": "b", "type": "int", "default": 1}),
        record({"name": "a", "type": "int", "default": 1}, name="S"),
        record({"name": "a", "type": "int", "default": 1}, more="x"),
        record({"name": "a", "type": {"type": "int", "logicalType": "date"}, "default": 1}),
    ],
)
def test_what_makes_a_difference(other: object) -> None:
    assert not same(record({"name": "a", "type": "int", "default": 1}), other)


def test_a_default_of_null_is_a_default() -> None:
    node = parse(json.dumps(record({"name": "a", "type": ["null", "int"], "default": None})))
    assert node.fields[0].has_default
    assert not same(
        record({"name": "a", "type": ["null", "int"], "default": None}),
        record({"name": "a", "type": ["null", "int"]}),
    )
