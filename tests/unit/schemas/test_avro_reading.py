"""Verdicts beside those of Avro's Java library, which gave the ones in avro_verdicts.txt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.errors import InvalidSchema
from milepost.schemas.avro_reading import fits, why_not
from milepost.schemas.avro_schema import identity, parse

VERDICTS = [
    line.split("\t")
    for line in (Path(__file__).parent / "avro_verdicts.txt").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("number", range(len(VERDICTS)))
def test_as_the_java_library_judges(number: int) -> None:
    verdict, sameness, writer, reader = VERDICTS[number]
    assert (why_not(parse(reader), parse(writer)) is None) is (verdict == "true")
    assert (identity(parse(reader)) == identity(parse(writer))) is (sameness == "same")


def record(*fields: object, name: str = "R", **more: object) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


def field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}


A = field("a", "int")
NODE = field("next", ["null", "R"])


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        ('"int"', '"long"', "long cannot be read as int"),
        ('"string"', '"int"', "int cannot be read as string"),
        ('"int"', '["null", "int"]', "null cannot be read as int"),
        ('["null", "string"]', '"int"', "no branch for int"),
        (record(A, field("b", "int")), record(A), "b: a field that was not written, and has no"),
        (record(A, field("b", "int", default="x")), record(A), "b: .* default does not fit"),
        (record(field("a", "string")), record(A), "a: int cannot be read as string"),
        (
            record(field("a", {"type": "array", "items": "int"})),
            record(field("a", {"type": "array", "items": "string"})),
            r"a\[\]: string cannot",
        ),
        (
            '{"type": "fixed", "name": "F", "size": 1}',
            '{"type": "fixed", "name": "F", "size": 2}',
            "has 1 bytes, was 2",
        ),
        (
            '{"type": "enum", "name": "E", "symbols": ["A"]}',
            '{"type": "enum", "name": "F", "symbols": ["A"]}',
            "enum F cannot be read as enum E",
        ),
        (
            record(field("new", "int", aliases=["a"])),
            record(A, field("new", "int")),
            "become one by an alias",
        ),
    ],
)
def test_why_not(reader: str, writer: str, why: str) -> None:
    fault = why_not(parse(reader), parse(writer))
    assert fault is not None
    with pytest.raises(InvalidSchema, match=why):
        raise InvalidSchema(fault)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ('"double"', '"int"'),
        ('"bytes"', '"string"'),
        ('["null", "double"]', '["null", "int"]'),
        (record(A, field("b", ["null", "int"], default=None)), record(A)),
        (record(A), record(A, field("b", "string"))),
        (record(A), record(A, name="Other")),
        (record(field("new", "int", aliases=["a"])), record(A)),
        (record(A, aliases=["Old"], name="New"), record(A, name="Old")),
        (record(NODE, A | {"default": 1}), record(NODE)),
        (
            '{"type": "enum", "name": "a.E", "symbols": ["A"]}',
            '{"type": "enum", "name": "b.E", "symbols": ["A", "B"]}',
        ),
    ],
)
def test_what_can_be_read(reader: str, writer: str) -> None:
    assert why_not(parse(reader), parse(writer)) is None


def test_records_without_end_are_compared_in_finite_time() -> None:
    one = parse(record(field("me", "R")))
    other = parse(record(field("me", "R"), field("b", "int", default=1)))
    assert why_not(one, other) is None
    assert why_not(other, one) is None
    union = parse(record(field("me", ["null", "S", "string"]), name="S"))
    assert why_not(union, parse(record(field("me", "R")))) is None


def test_a_comparison_that_would_take_for_ever_is_refused() -> None:
    """Two unions of many records: every pair is looked at, and no more than so many."""

    def one(name: str, last: str) -> object:
        fields = [*(field(f"f{at}", "int") for at in range(8)), field("last", last)]
        return json.loads(record(*fields, name=name))

    reader = json.dumps([*(one(f"A{n}", "string") for n in range(300)), one("A", "int")])
    writer = json.dumps([one(f"B{n}", "int") for n in range(300)])
    with pytest.raises(InvalidSchema, match="too large to be compared"):
        why_not(parse(reader), parse(writer))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("null", [None], [0, ""]),
        ("boolean", [True], [1, None]),
        ("int", [1], [True, 1.5, "1", None]),
        ("double", [1, 1.5], [True, "1"]),
        ("string", ["x"], [1, None]),
        ("bytes", ["x"], [1]),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"], [0]),
        ({"type": "array", "items": "int"}, [[], [1]], [["x"], {}]),
        ({"type": "map", "values": "int"}, [{}, {"a": 1}], [{"a": "x"}, []]),
        (["null", "int"], [None, 1], ["x"]),
        (json.loads(record(A, field("b", "int", default=1))), [{"a": 1}], [{}, {"a": "x"}, []]),
    ],
)
def test_defaults(kind: object, good: list[object], bad: list[object]) -> None:
    node = parse(json.dumps(kind))
    assert all(fits(node, value) for value in good)
    assert not any(fits(node, value) for value in bad)
