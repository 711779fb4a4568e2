"""Values of a batch as one Arrow array, by every kind of schema; and bytes that are something else."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from milepost.schemas import avro, key_value
from milepost.schemas.key_value import KeyValueEncodingType
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.protobuf_native import definition_of
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.values import BAD, codec_of, with_nulls
from milepost.wire import pulsar_pb2 as pb


def info(kind: SchemaType, definition: Any = None) -> SchemaInfo:
    return SchemaInfo("", kind, b"" if definition is None else json.dumps(definition).encode())


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def decode(
    reader: SchemaInfo, kind: pa.DataType, values: list[bytes], writer: SchemaInfo | None = None
) -> list[Any]:
    found = codec_of(writer or reader, reader, kind).array(pa.array(values, pa.binary()))
    assert found.type == kind
    found.validate(full=True)
    return list(found.to_pylist())


def test_numbers_are_turned_as_a_whole() -> None:
    values = [struct.pack(">i", one) for one in (1, -2, 2**31 - 1)]
    assert decode(info(SchemaType.INT32), pa.int32(), values) == [1, -2, 2**31 - 1]
    codec = codec_of(info(SchemaType.INT32), info(SchemaType.INT32), pa.int32())
    assert codec.array(pa.array(values, pa.binary())[1:]).to_pylist() == [-2, 2**31 - 1]
    with pytest.raises(BAD, match="no INT32"):
        decode(info(SchemaType.INT32), pa.int32(), [b"\0\0\0"])


def test_other_primitives() -> None:
    moment = datetime(2026, 3, 4, 5, 6, 7, 8000, UTC)
    for kind, arrow, value in (
        (SchemaType.BOOLEAN, pa.bool_(), True),
        (SchemaType.TIMESTAMP, pa.timestamp("us", tz="UTC"), moment),
        (SchemaType.INSTANT, pa.timestamp("us", tz="UTC"), moment),
        (SchemaType.LOCAL_DATE, pa.date32(), date(2026, 3, 4)),
    ):
        assert decode(info(kind), arrow, [PrimitiveSchema(kind).encode(value)]) == [value]
    assert decode(info(SchemaType.STRING), pa.string(), ["ä".encode(), b""]) == ["ä", ""]
    with pytest.raises(BAD):
        decode(info(SchemaType.STRING), pa.string(), [b"\xff"])


def test_avro_of_an_older_version_is_resolved() -> None:
    old = record({"name": "id", "type": "int"}, {"name": "gone", "type": "string"})
    new = record(
        {"name": "id", "type": "long"},
        {"name": "colour", "type": "string", "default": "red"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    )
    kind = pa.struct(
        [("id", pa.int64()), ("colour", pa.string()), ("at", pa.timestamp("us", tz="UTC"))]
    )
    written = [avro.write(avro.parsed(old), {"id": 7, "gone": "x"})]
    reader = info(SchemaType.AVRO, new)
    (found,) = decode(reader, kind, written, info(SchemaType.AVRO, {**old, "name": "Older"}))
    assert found == {"id": 7, "colour": "red", "at": datetime(1970, 1, 1, tzinfo=UTC)}
    moment = datetime(2026, 3, 4, 5, 6, 7, 8000, UTC)
    value = {"id": 1, "colour": "b", "at": moment}
    assert decode(reader, kind, [avro.write(avro.parsed(new), value)]) == [value]


def test_avro_that_reaches_into_its_neighbour_is_bad() -> None:
    reader = info(SchemaType.AVRO, record({"name": "a", "type": "string"}))
    kind = pa.struct([("a", pa.string())])
    assert decode(reader, kind, [b"\x04ab", b"\x02c"]) == [{"a": "ab"}, {"a": "c"}]
    for bad in ([b"\x04a", b"b\x02c"], [b"\x02a!"], [b""]):
        with pytest.raises(BAD):
            decode(reader, kind, bad)


def test_avro_decimals_maps_and_annotations_without_a_type() -> None:
    definition = record(
        {
            "name": "d",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        },
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
    )
    kind = pa.struct(
        [("d", pa.decimal128(5, 2)), ("m", pa.map_(pa.string(), pa.int64())), ("u", pa.string())]
    )
    data = avro.write(
        avro.parsed(definition),
        {"d": Decimal("1.20"), "m": {"a": 1}, "u": "00000000-0000-0000-0000-000000000001"},
    )
    (found,) = decode(info(SchemaType.AVRO, definition), kind, [data])
    assert found == {
        "d": Decimal("1.20"),
        "m": [("a", 1)],
        "u": "00000000-0000-0000-0000-000000000001",
    }


def test_json_takes_what_it_knows_and_ignores_the_rest() -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    values = [b'{"a": 1, "b": "x", "c": {"d": []}}', b'{"b": null}', b'\n{"a":\n2}\n']
    assert decode(info(SchemaType.JSON), kind, values) == [
        {"a": 1, "b": "x"},
        {"a": None, "b": None},
        {"a": 2, "b": None},
    ]


@pytest.mark.parametrize(
    "values",
    [
        [b"{"], [b""], [b'{"a": 1.5}'], [b'{"a": "1"}'], [b"[1]"], [b'{"b": "\xff"}'],
        # Two messages that are one value together, and one that is two.
        [b'{"a":', b"1}"], [b'{"a": 1}}\n{"v":{"a": 2}'], [b'{"b":"x', b'y"}'],
    ],
)  # fmt: skip
def test_json_that_is_none_is_bad(values: list[bytes]) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    with pytest.raises(BAD):
        decode(info(SchemaType.JSON), kind, values)


def test_json_maps() -> None:
    kind = pa.struct([("m", pa.map_(pa.string(), pa.int64()))])
    assert decode(info(SchemaType.JSON), kind, [b'{"m": {"a": 1}}']) == [{"m": [("a", 1)]}]


def test_protobuf_messages_field_by_field() -> None:
    reader = info(SchemaType.PROTOBUF_NATIVE, definition_of(pb.SingleMessageMetadata.DESCRIPTOR))
    pair = pa.struct([("key", pa.string()), ("value", pa.string())])
    kind = pa.struct(
        [
            ("properties", pa.list_(pair)),
            ("partition_key", pa.string()),
            ("payload_size", pa.int32()),
            ("compacted_out", pa.bool_()),
        ]
    )
    one = pb.SingleMessageMetadata(payload_size=3)
    one.properties.add(key="k", value="v")
    two = pb.SingleMessageMetadata(payload_size=4, partition_key="p")
    found = decode(reader, kind, [one.SerializeToString(), two.SerializeToString()])
    assert found == [
        {
            "properties": [{"key": "k", "value": "v"}],
            "partition_key": None,
            "payload_size": 3,
            "compacted_out": None,
        },
        {"properties": [], "partition_key": "p", "payload_size": 4, "compacted_out": None},
    ]
    with pytest.raises(BAD, match=r"no \S*SingleMessageMetadata"):
        decode(reader, kind, [b"\xff"])


def test_pairs_in_the_payload_and_beside_it() -> None:
    text, number = info(SchemaType.STRING), info(SchemaType.INT32)
    kind = pa.struct([("key", pa.string()), ("value", pa.int32())])
    inline = key_value.join_infos(text, number, KeyValueEncodingType.INLINE)
    values = [key_value.join_bytes(b"k", b"\0\0\0\5"), key_value.join_bytes(None, None)]
    assert decode(inline, kind, values) == [{"key": "k", "value": 5}, {"key": None, "value": None}]
    separated = key_value.join_infos(text, number, KeyValueEncodingType.SEPARATED)
    codec = codec_of(separated, separated, kind)
    values_, keys = pa.array([b"\0\0\0\7"], pa.binary()), pa.array([b"k"], pa.binary())
    assert codec.array(values_, keys).to_pylist() == [{"key": "k", "value": 7}]


def test_nulls_stay_where_they_are() -> None:
    values = pa.array([None, b"a", None, b"b"], pa.binary())
    assert with_nulls(values, pa.string(), lambda one: one.cast(pa.string())).to_pylist() == [
        None,
        "a",
        None,
        "b",
    ]


def test_another_type_of_schema_is_refused() -> None:
    with pytest.raises(BAD, match="JSON data where AVRO is expected"):
        codec_of(info(SchemaType.JSON), info(SchemaType.AVRO), pa.int32())
