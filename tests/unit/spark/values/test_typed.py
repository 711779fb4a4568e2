"""Batches with typed values: versions side by side, bad ones found, named or kept apart."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from milepost.errors import Undecodable
from milepost.schemas.types import SchemaInfo, SchemaType, version_bytes
from milepost.spark.values.columns import Row, to_batch
from milepost.spark.values.topic_schemas import TopicSchema
from milepost.spark.values.typed import TypedBatches, Typing, needed

TOPIC = "persistent://public/default/t"
NUMBER = SchemaInfo("", SchemaType.INT32, b"")
VERSION = version_bytes(3)


def batch(*values: bytes | None, versions: list[bytes | None] | None = None) -> pa.RecordBatch:
    said = versions or [VERSION] * len(values)
    rows = [
        Row(TOPIC, -1, 40 + n, b"", 0, n, -1, None, None, value, [], 0, None, "p", n, said[n])
        for n, value in enumerate(values)
    ]
    return to_batch(rows, needed(("index", "value")))


def typed(raw: pa.RecordBatch, *, permissive: bool = False, known: bool = True) -> pa.RecordBatch:
    fields = [("index", pa.int64()), ("value", pa.int32())]
    if permissive:
        fields += [("_corrupt", pa.binary()), ("_corrupt_reason", pa.string())]
    typing = Typing(TopicSchema(NUMBER, VERSION), permissive)

    def writer(version: bytes) -> SchemaInfo | None:
        return NUMBER if known or version == VERSION else None

    (found,) = TypedBatches(typing, TOPIC, pa.schema(fields), writer).of([raw])
    return found


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def test_values_and_nulls() -> None:
    found = typed(batch(number(1), None, number(3)))
    assert found.to_pydict() == {"index": [40, 41, 42], "value": [1, None, 3]}


def test_the_first_bad_value_is_named() -> None:
    values = [number(n) for n in range(100)]
    values[71] = values[90] = b"bad"
    with pytest.raises(
        Undecodable, match=rf"{TOPIC}: message 111 is not what its INT32 schema says"
    ):
        typed(batch(*values))


def test_bad_values_are_kept_apart() -> None:
    values: list[bytes | None] = [number(n) for n in range(10)]
    values[3], values[7], values[8] = b"bad", b"", None
    found = typed(batch(*values), permissive=True).to_pydict()
    assert found["value"] == [0, 1, 2, None, 4, 5, 6, None, None, 9]
    assert found["_corrupt"] == [None] * 3 + [b"bad"] + [None] * 3 + [b""] + [None] * 2
    assert [n for n, why in enumerate(found["_corrupt_reason"]) if why] == [3, 7]
    (only,) = typed(batch(b"bad"), permissive=True).to_pylist()
    assert (only["value"], only["_corrupt"]) == (None, b"bad")
    (good,) = typed(batch(number(1)), permissive=True).to_pylist()
    assert (good["_corrupt"], good["_corrupt_reason"]) == (None, None)


def test_versions_are_decoded_apart_and_put_in_order() -> None:
    assert typed(batch(number(5), number(6), versions=[version_bytes(0), VERSION]))[
        "value"
    ].to_pylist() == [5, 6]
    other = version_bytes(9)
    raw = batch(*map(number, range(5)), versions=[VERSION, other, None, VERSION, other])
    assert typed(raw)["value"].to_pylist() == [0, 1, 2, 3, 4]
    found = typed(raw, permissive=True, known=False)
    assert found["value"].to_pylist() == [0, None, None, 3, None]
    assert found["_corrupt_reason"][1].as_py() == "the topic has no schema of version 9"
    with pytest.raises(Undecodable, match=r"message 41 .*no schema of version 9"):
        typed(batch(*map(number, range(2)), versions=[VERSION, other]), known=False)
