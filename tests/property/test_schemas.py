"""The judge of Avro schemas beside a dumb twin: write with one schema, read with the other."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st

from milepost.errors import IncompatibleSchema, InvalidSchema
from milepost.schemas import avro
from milepost.schemas.avro_reading import why_not
from milepost.schemas.avro_schema import identity, parse
from milepost.schemas.compatibility import Strategy, check_compatible
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.schemas.validation import check_schema

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    # That may be read as a text: any text as bytes, but not any bytes as a text.
    "bytes": st.text(max_size=5).map(str.encode),
    "string": st.text(max_size=5),
}
plain = st.sampled_from(sorted(VALUES))
unions = st.lists(plain, min_size=1, max_size=3, unique=True)
containers = st.one_of(
    plain,
    unions,
    st.builds(lambda items: {"type": "array", "items": items}, plain | unions),
    st.builds(lambda values: {"type": "map", "values": values}, plain | unions),
)


def default_of(kind: Any) -> Any:
    if isinstance(kind, list):
        return default_of(kind[0])
    if isinstance(kind, dict):
        return [] if kind["type"] == "array" else {}
    return {"null": None, "boolean": True, "string": "s", "bytes": "b"}.get(kind, 1)


@st.composite
def fields(draw: st.DrawFn, kinds: st.SearchStrategy[Any]) -> dict[str, Any]:
    kind = draw(kinds)
    name = draw(st.sampled_from("abcde"))
    return {
        "name": name,
        "type": kind,
        **({"default": default_of(kind)} if draw(st.booleans()) else {}),
    }


@st.composite
def records(draw: st.DrawFn, name: str = "R", inner: bool = True) -> dict[str, Any]:
    kinds = containers | records("Inner", False) if inner else containers
    found = draw(st.lists(fields(kinds), max_size=4, unique_by=lambda field: field["name"]))
    # A named type is defined once.
    seen = 0
    for field in found:
        if isinstance(field["type"], dict) and field["type"].get("type") == "record":
            field.pop("default", None)
            seen += 1
    assume(seen <= 1)
    return {"type": "record", "name": name, "fields": found}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, str):
        return VALUES[kind]
    if isinstance(kind, list):
        return st.one_of([values_of(one) for one in kind])
    if kind["type"] == "array":
        return st.lists(values_of(kind["items"]), max_size=2)
    if kind["type"] == "map":
        return st.dictionaries(st.text(max_size=2), values_of(kind["values"]), max_size=2)
    return st.fixed_dictionaries({one["name"]: values_of(one["type"]) for one in kind["fields"]})


@given(st.data())
def test_what_may_be_read_is_read(data: st.DataObject) -> None:
    writer = data.draw(records())
    reader = data.draw(st.just(writer) | records())
    if why_not(parse(json.dumps(reader)), parse(json.dumps(writer))) is not None:
        event("refused")
        return
    event("same" if reader == writer else "allowed")
    value = data.draw(values_of(writer))
    written = avro.write(avro.parsed(writer), value)
    found = avro.read(written, avro.parsed(writer), avro.parsed(reader))
    assert set(found) == {field["name"] for field in reader["fields"]}


@given(records(), records(), st.sampled_from(Strategy))
def test_full_is_both_ways_and_everything_is_compatible_with_itself(
    one: dict[str, Any], other: dict[str, Any], strategy: Strategy
) -> None:
    def info(schema: dict[str, Any]) -> SchemaInfo:
        return SchemaInfo("", SchemaType.AVRO, json.dumps(schema).encode())

    def is_allowed(old: dict[str, Any], new: dict[str, Any], strategy: Strategy) -> bool:
        try:
            check_compatible([info(old)], info(new), strategy)
        except IncompatibleSchema:
            return False
        return True

    assert is_allowed(one, other, Strategy.FULL) == (
        is_allowed(one, other, Strategy.BACKWARD) and is_allowed(one, other, Strategy.FORWARD)
    )
    assert is_allowed(one, other, Strategy.BACKWARD) == is_allowed(other, one, Strategy.FORWARD)
    if strategy.new_reads_old or strategy.old_reads_new:
        assert is_allowed(one, one, strategy)


@given(records(), st.randoms())
def test_the_order_of_keys_is_no_difference(schema: dict[str, Any], shuffler: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            keys = list(value)
            shuffler.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(one) for one in value] if isinstance(value, list) else value

    first, second = json.dumps(schema), json.dumps(shuffled(schema))
    assert identity(parse(first)) == identity(parse(second))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "name", "fields", "items", "values", "symbols", "size", "aliases"]
            ),
            inner | st.sampled_from(["record", "enum", "fixed", "array", "map"]),
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(json_values, st.sampled_from(SchemaType))
def test_any_json_is_a_schema_or_refused(said: Any, kind: SchemaType) -> None:
    with suppress(InvalidSchema):  # and nothing else
        check_schema(SchemaInfo("", kind, json.dumps(said).encode()))


@given(st.binary(max_size=50), st.sampled_from(SchemaType))
def test_any_bytes_are_a_schema_or_refused(data: bytes, kind: SchemaType) -> None:
    with suppress(InvalidSchema):
        check_schema(SchemaInfo("", kind, data))
