"""Flat records: which definitions are, every type of field, and bytes that are left to the library."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from milepost.schemas import avro
from milepost.spark.reading.flat_avro import FIELDS_MAX, FlatRecord, flat_record

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 8000, UTC)
COLOUR = {"type": "enum", "name": "C", "symbols": ["red", "green"]}
FIELDS: list[tuple[str, Any, pa.DataType, Any]] = [
    ("boolean", "boolean", pa.bool_(), True),
    ("int", "int", pa.int32(), -(2**31)),
    ("long", "long", pa.int64(), -(2**63)),
    ("float", "float", pa.float32(), -1.5),
    ("double", "double", pa.float64(), 0.1),
    ("string", {"type": "string", "avro.java.string": "String"}, pa.string(), "äöü"),
    ("bytes", "bytes", pa.binary(), b"\xff\0"),
    ("date", {"type": "int", "logicalType": "date"}, pa.date32(), date(1, 1, 1)),
    ("enum", COLOUR, pa.string(), "green"),
]
for name in ("timestamp-millis", "timestamp-micros"):
    FIELDS.append(
        (name, {"type": "long", "logicalType": name}, pa.timestamp("us", tz="UTC"), MOMENT)
    )
    FIELDS.append(
        (
            f"local-{name}",
            {"type": "long", "logicalType": f"local-{name}"},
            pa.timestamp("us"),
            MOMENT.replace(tzinfo=None),
        )
    )


def definition(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name.replace("-", "_"), "type": kind} for name, kind in fields],
    }


def flat(kind: Any, shown: pa.DataType) -> FlatRecord:
    found = flat_record(definition(("f", kind)), pa.struct([("f", shown)]))
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "kind", "shown", "value"), FIELDS)
def test_every_type_of_field(name: str, kind: Any, shown: pa.DataType, value: Any) -> None:
    for union in (kind, ["null", kind], [kind, "null"]):
        schema = definition(("f", union))
        rows = [{"f": value}] * 9
        if isinstance(union, list):
            rows[3] = rows[8] = {"f": None}
        written = [avro.write(avro.parsed(schema), row) for row in rows]
        found = flat(union, shown).array(pa.array([b"before", *written], pa.binary())[1:])
        assert found is not None
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (pa.struct([("f", shown)]), rows)


def test_fields_in_order() -> None:
    schema = definition(*((name, kind) for name, kind, _, _ in FIELDS))
    shown = pa.struct([(name.replace("-", "_"), kind) for name, _, kind, _ in FIELDS])
    row = {name.replace("-", "_"): value for name, _, _, value in FIELDS}
    record = flat_record(schema, shown)
    assert record is not None
    found = record.array(pa.array([avro.write(avro.parsed(schema), row)] * 3, pa.binary()))
    assert found is not None
    assert found.to_pylist() == [row] * 3


INT = pa.struct([("f", pa.int32())])


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ("int", pa.int32()),
        (COLOUR, pa.string()),
        (definition(), pa.struct([])),
        (definition(("f", "Other")), INT),
        (definition(("f", {"type": "array", "items": "int"})), pa.struct([("f", pa.list_(INT))])),
        (definition(("f", ["null", "int", "string"])), INT),
        (definition(("f", ["int", "long"])), INT),
        (definition(("f", {"type": "int", "logicalType": "unknown"})), INT),
        # Another type, another name, more fields than are shown.
        (definition(("f", "long")), INT),
        (definition(("g", "int")), INT),
        (definition(("f", "int"), ("g", "int")), INT),
        (
            definition(*((f"f{number}", "int") for number in range(FIELDS_MAX + 1))),
            pa.struct([(f"f{number}", pa.int32()) for number in range(FIELDS_MAX + 1)]),
        ),
    ],
)
def test_what_is_not_flat_has_no_program(schema: Any, shown: pa.DataType) -> None:
    assert flat_record(schema, shown) is None


@pytest.mark.parametrize(
    ("kind", "shown", "data"),
    [
        ("boolean", pa.bool_(), b"\2"),
        ("boolean", pa.bool_(), b""),
        ("int", pa.int32(), b"\x80\x80\x80\x80\x10"),  # 2^31
        ("int", pa.int32(), b"\x80"),
        ("int", pa.int32(), b"\0\0"),
        ("long", pa.int64(), b"\xff" * 9 + b"\2"),  # 65 bits
        ("long", pa.int64(), b"\xff" * 10 + b"\1"),
        ("float", pa.float32(), b"\0\0\0"),
        ("double", pa.float64(), struct.pack("<d", 1.0) + b"\0"),
        ("string", pa.string(), b"\x04\xffa"),
        ("string", pa.string(), b"\x04a"),
        ("bytes", pa.binary(), b"\1"),  # a size of -1
        (["null", "int"], pa.int32(), b"\4\0"),
        (["null", "int"], pa.int32(), b"\1\0"),
        (COLOUR, pa.string(), b"\4"),
        ({"type": "int", "logicalType": "date"}, pa.date32(), b"\xfe\xff\xff\xff\x0f"),
    ],
)
def test_bytes_that_are_left_to_the_library(kind: Any, shown: pa.DataType, data: bytes) -> None:
    assert flat(kind, shown).array(pa.array([data, data], pa.binary())) is None


def test_nothing_at_all_is_left_to_the_library() -> None:
    for values in ([], [b""]):
        assert flat("int", pa.int32()).array(pa.array(values, pa.binary())) is None
