"""What is encoded by a schema is what the same schema decodes; what cannot be is named."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import SchemaMismatch
from milepost.schemas import KeyValueEncodingType, KeyValueSchema, PrimitiveSchema, StringSchema
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.encoding import Encoding, encoder_of
from milepost.spark.values.values import codec_of
from milepost.wire import pulsar_pb2 as pb

RECORD = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "colour", "type": {"type": "enum", "name": "C", "symbols": ["red", "blue"]}},
        {"name": "sizes", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "more", "type": {"type": "map", "values": "double"}},
        {
            "name": "inner",
            "type": [
                "null",
                {"type": "record", "name": "I", "fields": [{"name": "x", "type": "float"}]},
            ],
        },
    ],
}
KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("colour", pa.string()),
        ("sizes", pa.list_(pa.int32())),
        ("more", pa.map_(pa.string(), pa.float64())),
        ("inner", pa.struct([("x", pa.float32())])),
    ]
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | text,
        "colour": st.sampled_from(["red", "blue"]),
        "sizes": st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
        "more": st.dictionaries(text, st.floats(allow_nan=False, allow_infinity=False), max_size=2),
        "inner": st.none() | st.fixed_dictionaries({"x": st.floats(-10, 10, width=32)}),
    }
)


def info(kind: SchemaType, definition: Any = None) -> SchemaInfo:
    return SchemaInfo("s", kind, b"" if definition is None else json.dumps(definition).encode())


def round_trip(schema: SchemaInfo, array: pa.Array) -> pa.Array:
    keys, values = Encoding(schema).of(array)
    codec = codec_of(schema, schema, array.type)
    return codec.array(pa.array(values, pa.binary()), keys and pa.array(keys, pa.binary()))


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
@given(rows=st.lists(orders, min_size=1, max_size=4))
def test_records_come_back(kind: SchemaType, rows: list[dict[str, Any]]) -> None:
    array = pa.array([{**row, "more": list(row["more"].items())} for row in rows], KIND)
    found = round_trip(info(kind, RECORD), array)
    assert found.to_pylist(maps_as_pydicts="strict") == rows


@pytest.mark.parametrize(
    ("kind", "values", "arrow"),
    [
        (SchemaType.STRING, ["", "é"], pa.string()),
        (SchemaType.BOOLEAN, [True, False], pa.bool_()),
        (SchemaType.INT8, [-128, 127], pa.int8()),
        (SchemaType.INT16, [-5], pa.int16()),
        (SchemaType.INT32, [2**31 - 1], pa.int32()),
        (SchemaType.INT64, [-(2**63)], pa.int64()),
        (SchemaType.FLOAT, [1.5], pa.float32()),
        (SchemaType.DOUBLE, [1e300], pa.float64()),
        (SchemaType.TIMESTAMP, [datetime(2026, 1, 2, 3, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        (SchemaType.LOCAL_DATE, [date(2026, 1, 2)], pa.date32()),
        (SchemaType.BYTES, [b"", b"\xff"], pa.binary()),
    ],
)
def test_single_values_come_back(kind: SchemaType, values: list[Any], arrow: pa.DataType) -> None:
    assert round_trip(info(kind), pa.array(values, arrow)).to_pylist() == values


def test_a_null_is_no_value() -> None:
    assert Encoding(info(SchemaType.INT32)).of(pa.array([None, 1], pa.int32())) == (
        None,
        [None, b"\x00\x00\x00\x01"],
    )


@pytest.mark.parametrize("encoding", list(KeyValueEncodingType))
def test_keys_and_values_come_back(encoding: KeyValueEncodingType) -> None:
    schema = KeyValueSchema(StringSchema(), PrimitiveSchema(SchemaType.INT32), encoding)
    kind = pa.struct([("key", pa.string()), ("value", pa.int32())])
    array = pa.array([{"key": "a", "value": 1}, {"key": "b", "value": 2}], kind)
    described = schema.schema_info()
    keys, values = Encoding(described).of(array)
    assert (keys is not None) == (encoding is KeyValueEncodingType.SEPARATED)
    assert round_trip(described, array) == array
    if keys is not None:
        assert keys == [b"a", b"b"]
        assert Encoding(described).of(pa.array([None], kind)) == ([None], [None])
    first = schema.decode(values[0] or b"", key=keys and keys[0])
    assert first == ("a", 1)


def test_annotated_types_of_avro_come_back() -> None:
    fields = [
        ("d", {"type": "int", "logicalType": "date"}, date(2026, 1, 2), pa.date32()),
        (
            "t",
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
        ),
        (
            "m",
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("1.25"),
            pa.decimal128(9, 2),
        ),
        ("u", {"type": "string", "logicalType": "uuid"}, "no uuid", pa.string()),
    ]
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind, _, _ in fields],
    }
    row = {name: value for name, _, value, _ in fields}
    array = pa.array([row], pa.struct([(name, kind) for name, _, _, kind in fields]))
    assert round_trip(info(SchemaType.AVRO, record), array).to_pylist() == [row]


def test_messages_of_protobuf_come_back() -> None:
    described = ProtobufNativeSchema(pb.MessageMetadata).schema_info()
    row = {
        "producer_name": "p",
        "sequence_id": Decimal(2**64 - 1),
        "publish_time": Decimal(5),
        "compression": "LZ4",
        "properties": [{"key": "a", "value": "b"}],
        "partition_key": None,
        "schema_version": b"\x00\xff",
        "replicate_to": ["x", "y"],
    }
    (data,) = (encoder_of(described)(one) for one in [row])
    found = pb.MessageMetadata.FromString(data)
    assert (found.producer_name, found.sequence_id, found.compression) == ("p", 2**64 - 1, pb.LZ4)
    assert [(one.key, one.value) for one in found.properties] == [("a", "b")]
    assert (found.HasField("partition_key"), list(found.replicate_to)) == (False, ["x", "y"])
    for wrong, why in (
        ({"compression": "NO"}, "there is no 'NO'"),
        ({"replicate_to": [None]}, "null in a repeated field"),
        ({"sequence_id": Decimal(-1)}, "sequence_id"),
    ):
        with pytest.raises(SchemaMismatch, match=why):
            encoder_of(described)({**row, **wrong})


GOOD = {"id": 1, "name": None, "colour": "red", "sizes": [], "more": {}, "inner": None}


@pytest.mark.parametrize(
    ("kind", "wrong", "why"),
    [
        (SchemaType.JSON, {"id": None}, "value.id is null"),
        (SchemaType.JSON, {"colour": "pink"}, "value.colour is 'pink'"),
        (SchemaType.JSON, {"inner": {"x": None}}, "value.inner.x is null"),
        (SchemaType.JSON, {"more": {"a": None}}, r"value.more\[\] is null"),
        (SchemaType.JSON, {"more": {"a": float("nan")}}, "no JSON"),
        (SchemaType.AVRO, {"id": None}, "does not fit"),
        (SchemaType.AVRO, {"colour": "pink"}, "does not fit"),
    ],
)
def test_what_does_not_fit_is_named(kind: SchemaType, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaMismatch, match=why):
        encoder_of(info(kind, RECORD))({**GOOD, **wrong})


def test_fields_that_are_missing_take_their_default() -> None:
    left = {name: value for name, value in GOOD.items() if name != "name"}
    assert json.loads(encoder_of(info(SchemaType.JSON, RECORD))(left)) == GOOD
    encoder_of(info(SchemaType.AVRO, RECORD))(left)


def test_a_record_may_contain_itself() -> None:
    chain = {
        "type": "record",
        "name": "N",
        "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "N"]}],
    }
    encode = encoder_of(info(SchemaType.JSON, chain))
    assert json.loads(encode({"n": 1, "next": {"n": 2}})) == {
        "n": 1,
        "next": {"n": 2, "next": None},
    }


def test_an_error_shows_the_value() -> None:
    with pytest.raises(SchemaMismatch, match=r"does not fit INT8.*: 300"):
        Encoding(info(SchemaType.INT8)).of(pa.array([300], pa.int32()))
