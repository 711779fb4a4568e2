"""Flat records by the compiled loop against the library: the same values, or the library decides."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples

from milepost.schemas import avro
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.values import BAD, AvroCodec

FIELDS: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "b": ("boolean", pa.bool_(), st.booleans()),
    "i": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "l": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": ("float", pa.float32(), st.floats(width=32)),
    "d": ("double", pa.float64(), st.floats()),
    "s": ("string", pa.string(), st.text(max_size=12)),
    "y": ("bytes", pa.binary(), st.binary(max_size=12)),
    "e": ({"type": "enum", "name": "E", "symbols": ["x", "y"]}, pa.string(), st.sampled_from("xy")),
    "a": ({"type": "int", "logicalType": "date"}, pa.date32(), st.dates()),
    "t": (
        {"type": "long", "logicalType": "timestamp-micros"},
        pa.timestamp("us", tz="UTC"),
        st.datetimes(
            datetime(1, 1, 2),
            datetime(9999, 12, 30),
            timezones=st.just(UTC),
        ),
    ),
}


@st.composite
def written(draw: st.DrawFn) -> tuple[AvroCodec, list[bytes]]:
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, unique=True))
    fields, values = [], {}
    for name in names:
        kind, _, value = FIELDS[name]
        union = draw(st.sampled_from([kind, ["null", kind], [kind, "null"]]))
        fields.append({"name": name, "type": union})
        values[name] = st.none() | value if isinstance(union, list) else value
    definition = {"type": "record", "name": "R", "fields": fields}
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=9))
    info = SchemaInfo("", SchemaType.AVRO, json.dumps(definition).encode())
    codec = AvroCodec(info, info, pa.struct([(name, FIELDS[name][1]) for name in names]))
    return codec, [avro.write(avro.parsed(definition), row) for row in rows]


def outcome(read: Any, values: pa.Array) -> str:
    """What it is, or that it is bad. As text, in which a NaN is a NaN."""
    try:
        found = read(values)
    except BAD:
        return "bad"
    found.validate(full=True)
    return f"{found.type}: {found.to_pylist()}"


@settings(max_examples=examples(200))
@given(written())
def test_the_loop_reads_what_the_library_reads(given_: tuple[AvroCodec, list[bytes]]) -> None:
    codec, data = given_
    values = pa.array(data, pa.binary())
    assert codec._flat is not None
    if values.nbytes > 4 * len(values) + 4:  # there are bytes at all
        assert codec._flat.array(values) is not None
    assert outcome(codec.array, values) == outcome(codec.plain_array, values)


@settings(max_examples=examples(200))
@given(written(), st.integers(0, 8), st.integers(0, 60), st.integers(0, 255), st.integers(0, 2))
def test_damage_is_judged_by_the_library(
    given_: tuple[AvroCodec, list[bytes]], row: int, place: int, byte: int, cut: int
) -> None:
    codec, data = given_
    changed = bytearray(data[row % len(data)])
    if changed:
        changed[place % len(changed)] = byte
    data[row % len(data)] = bytes(changed[: len(changed) - cut])
    values = pa.array(data, pa.binary())
    assert outcome(codec.array, values) == outcome(codec.plain_array, values)
