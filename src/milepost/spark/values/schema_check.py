"""Checks that rows with these columns can be written by the topic's schema.

Asked before anything is written.

A column may say less than its schema: fields that are missing take their default or null, a narrower number
is taken for a wider one. It may not say more: a field that the schema does not have would be lost without a
word.

    >>> record = b'{"type": "record", "name": "Reading", "fields": [{"name": "sensor", "type": "string"}]}'
    >>> info = SchemaInfo("Reading", SchemaType.AVRO, record)
    >>> misfit(StructType().add("sensor", "string"), info)        # None: it fits
    >>> misfit(StructType().add("sensr", "string"), info)
    'value.sensr is no field of the record Reading, which has sensor'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from milepost.schemas import avro_schema, key_value, protobuf_native
from milepost.schemas.avro_schema import Node
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.query_columns import declared
from milepost.spark.values.value_types import avro_type, is_map, single_type, value_type

# Numbers that hold all values of those before them.
_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20, 0)")
_REAL: Final = ("FLOAT", "DOUBLE")


def misfit(kind: DataType, info: SchemaInfo, at: str = "value") -> str | None:
    """What is in the way of writing a column of this type by a schema; None: nothing is."""
    match info.type:
        case SchemaType.AVRO | SchemaType.JSON:
            is_json = info.type is SchemaType.JSON
            return _node(kind, avro_schema.parse(info.data), at, is_json=is_json)
        case SchemaType.PROTOBUF_NATIVE:
            return _message(kind, protobuf_native.parse_definition(info.data), at)
        case SchemaType.KEY_VALUE:
            return _pair(kind, info, at)
    return _leaf(kind, value_type(info), at)


def record_fields(info: SchemaInfo) -> list[str] | None:
    """The names of a record's or message's fields; None if the schema is of something else."""
    match info.type:
        case SchemaType.AVRO | SchemaType.JSON:
            node = avro_schema.parse(info.data)
            return [one.name for one in node.fields] if node.kind == "record" else None
        case SchemaType.PROTOBUF_NATIVE:
            return [one.name for one in protobuf_native.parse_definition(info.data).fields]
    return None


def _leaf(kind: DataType, expected: str, at: str) -> str | None:
    found = declared(kind)
    if found == expected:
        return None
    for scale in (_WHOLE, _REAL):
        if found in scale and expected in scale and scale.index(found) < scale.index(expected):
            return None
    return f"{at} is {found}, the schema has {expected}"


def _node(kind: DataType, node: Node, at: str, *, is_json: bool) -> str | None:
    if node.kind == "union":
        inner = [one for one in node.inner if one.kind != "null"]
        if len(inner) == 1:
            return _node(kind, inner[0], at, is_json=is_json)
    if node.kind == "record":
        if not isinstance(kind, StructType):
            return f"{at} is {declared(kind)}, the schema has the record {node.short_name}"
        by_name = {one.name: one for one in node.fields}
        for field in kind.fields:
            if field.name not in by_name:
                return _stranger(f"{at}.{field.name}", f"the record {node.short_name}", by_name)
            found = _node(
                field.dataType, by_name[field.name].schema, f"{at}.{field.name}", is_json=is_json
            )
            if found is not None:
                return found
        for one in node.fields:
            if one.name not in kind.names and not one.has_default and not is_nullable(one.schema):
                return f"{at}.{one.name} is missing, and has no default in the record {node.short_name}"
        return None
    if node.kind == "array" and isinstance(kind, ArrayType):
        return _node(kind.elementType, node.inner[0], f"{at}[]", is_json=is_json)
    if node.kind == "map" and isinstance(kind, MapType) and declared(kind.keyType) == "STRING":
        return _node(kind.valueType, node.inner[0], f"{at}[]", is_json=is_json)
    return _leaf(kind, avro_type(node, is_json=is_json), at)


def is_nullable(node: Node) -> bool:
    return node.kind == "null" or (
        node.kind == "union" and any(one.kind == "null" for one in node.inner)
    )


def _message(kind: DataType, descriptor: Descriptor, at: str) -> str | None:
    if not isinstance(kind, StructType):
        return f"{at} is {declared(kind)}, the schema has the message {descriptor.name}"
    by_name = descriptor.fields_by_name
    for field in kind.fields:
        if field.name not in by_name:
            names = [one.name for one in descriptor.fields]
            return _stranger(f"{at}.{field.name}", f"the message {descriptor.name}", names)
        found = _field(field.dataType, by_name[field.name], f"{at}.{field.name}")
        if found is not None:
            return found
    return None


def _field(kind: DataType, field: FieldDescriptor, at: str) -> str | None:
    if is_map(field):
        assert field.message_type is not None
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        if not isinstance(kind, MapType):
            return f"{at} is {declared(kind)}, the schema has a map"
        return _leaf(kind.keyType, single_type(key), at) or _one(kind.valueType, value, f"{at}[]")
    if field.is_repeated:
        if not isinstance(kind, ArrayType):
            return f"{at} is {declared(kind)}, the schema has an array"
        return _one(kind.elementType, field, f"{at}[]")
    return _one(kind, field, at)


def _one(kind: DataType, field: FieldDescriptor, at: str) -> str | None:
    if field.message_type is not None:
        return _message(kind, field.message_type, at)
    return _leaf(kind, single_type(field), at)


def _pair(kind: DataType, info: SchemaInfo, at: str) -> str | None:
    if not isinstance(kind, StructType) or sorted(kind.names) != ["key", "value"]:
        return f"{at} is {declared(kind)}, the schema has a key and a value"
    for name, part in zip(("key", "value"), key_value.split_info(info), strict=True):
        found = misfit(kind[name].dataType, part, f"{at}.{name}")
        if found is not None:
            return found
    return None


def _stranger(at: str, of: str, names: Iterable[str]) -> str:
    return f"{at} is no field of {of}, which has {', '.join(names)}"
