"""A schema as the option gives it, and the columns that become a record."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from milepost.errors import InvalidOption
from milepost.schemas import key_value
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.target_schema import Target, parse_schema, shown

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def test_a_schema_is_said_as_for_uploading() -> None:
    text = json.dumps(RECORD)
    for definition in (text, RECORD):
        found = parse_schema(json.dumps({"type": "AVRO", "schema": definition}))
        assert (found.type, json.loads(found.data)) == (SchemaType.AVRO, RECORD)
    assert parse_schema('{"type": "INT32"}') == SchemaInfo("INT32", SchemaType.INT32, b"")
    said = {
        "type": "KEY_VALUE",
        "schema": {"key": "", "value": RECORD},
        "properties": {
            "kv.encoding.type": "SEPARATED",
            "key.schema.type": "STRING",
            "value.schema.type": "JSON",
        },
    }
    pair = parse_schema(json.dumps(said))
    assert [one.type.name for one in key_value.split_info(pair)] == ["STRING", "JSON"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json", "option targetSchema is 'no json'"),
        ("[]", "allowed is JSON with type"),
        ('{"type": "AVRO", "properties": 1}', "allowed is JSON with type"),
        ('{"type": "WHAT"}', "schema type 'WHAT'"),
        ('{"type": "AVRO", "schema": "{"}', "option targetSchema: "),
        ('{"type": "KEY_VALUE", "schema": "{}"}', "has no key and value"),
    ],
)
def test_what_is_no_schema_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        parse_schema(text)


def test_columns_are_put_together_or_taken() -> None:
    info = SchemaInfo("R", SchemaType.AVRO, json.dumps(RECORD, indent=1).encode())
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", "y"], "value": [5, 6]})
    assert Target(info, ("b", "a")).column(batch).to_pylist() == [
        {"b": "x", "a": 1},
        {"b": "y", "a": 2},
    ]
    assert Target(info).column(batch).to_pylist() == [5, 6]
    assert shown(info).startswith('AVRO { "type": "record"')
