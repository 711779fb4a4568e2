from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.types import SchemaType

MOMENT = datetime(2026, 11, 15, 14, 30, 59, 123000, UTC)


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("BOOLEAN", True, "01"),
        ("INT8", -1, "ff"),
        ("INT16", 258, "0102"),
        ("INT32", 5, "00000005"),
        ("INT64", -2, "fffffffffffffffe"),
        ("FLOAT", 1.5, "3fc00000"),
        ("DOUBLE", 1.5, "3ff8000000000000"),
        ("DATE", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "00000000000003e8"),
        ("TIME", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "00000000000003e8"),
        ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "fffffffffffffc18"),
        ("INSTANT", datetime(1970, 1, 1, 0, 0, 1, 5, UTC), "000000000000000100001388"),
        ("LOCAL_DATE", date(1970, 1, 11), "000000000000000a"),
        ("LOCAL_TIME", time(0, 0, 1, 5), "000000003b9add88"),
        ("LOCAL_DATE_TIME", datetime(1970, 1, 2, 0, 0, 1), "0000000000000001000000003b9aca00"),
    ],
)
def test_byte_for_byte(kind: str, value: object, data: str) -> None:
    schema = PrimitiveSchema(SchemaType[kind])
    assert schema.encode(value).hex() == data
    assert schema.decode(bytes.fromhex(data)) == value
    info = schema.schema_info()
    assert (info.type.name, info.data) == (kind, b"")
    with pytest.raises(SchemaMismatch, match=f"no {kind}"):
        schema.decode(bytes.fromhex(data) + b"x")
    with pytest.raises(SchemaMismatch):
        schema.encode("text")


@pytest.mark.parametrize("kind", ["TIMESTAMP", "INSTANT"])
def test_times_with_and_without_a_zone(kind: str) -> None:
    schema = PrimitiveSchema(SchemaType[kind])
    assert schema.decode(schema.encode(MOMENT)) == MOMENT
    assert schema.encode(MOMENT.replace(tzinfo=None)) == schema.encode(MOMENT)
    assert schema.encode(MOMENT.astimezone(timezone(timedelta(hours=2)))) == schema.encode(MOMENT)


def test_whole_numbers_are_numbers() -> None:
    assert PrimitiveSchema(SchemaType.DOUBLE).encode(1) == PrimitiveSchema(
        SchemaType.DOUBLE
    ).encode(1.0)


@pytest.mark.parametrize(
    ("kind", "value"), [("INT8", 128), ("INT16", 2**15), ("INT32", 2**31), ("INT64", 2**63)]
)
def test_too_large(kind: str, value: int) -> None:
    with pytest.raises(SchemaMismatch, match=f"{value} does not fit {kind}"):
        PrimitiveSchema(SchemaType[kind]).encode(value)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "INSTANT", "LOCAL_DATE", "LOCAL_TIME"])
def test_times_beyond_the_calendar(kind: str) -> None:
    schema = PrimitiveSchema(SchemaType[kind])
    for byte in (b"\x7f", b"\x80"):
        data = byte + b"\xff" * (11 if kind == "INSTANT" else 7)
        with pytest.raises(SchemaMismatch, match=f"is no {kind}"):
            schema.decode(data)


def test_only_primitives() -> None:
    for kind in (SchemaType.AVRO, SchemaType.STRING, SchemaType.NONE):
        with pytest.raises(InvalidSchema, match="no primitive type"):
            PrimitiveSchema(kind)
