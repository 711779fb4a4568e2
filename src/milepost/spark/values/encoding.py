"""Encodes columns of rows as payloads of messages.

The other way round than values.py. An encoder takes one value as Arrow hands it to Python: dictionaries for
structs and maps, lists, numbers, text, moments; and gives its bytes, or raises `SchemaMismatch`. What does
not fit by its type alone is refused before, when a query is planned (schema_check.py).

    encode = encoder_of(SchemaInfo("R", SchemaType.AVRO, definition))
    encode({"sensor": "a", "celsius": 21.5})
    Encoding(info).of(array)                    # of a whole column: keys and values
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from milepost.errors import SchemaMismatch
from milepost.schemas import avro, avro_schema, key_value, protobuf_native
from milepost.schemas.avro_schema import Node
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.values.schema_check import is_nullable
from milepost.spark.values.value_types import is_map
from milepost.spark.values.values import plain_definition

Encode = Callable[[Any], bytes]

# How much of a value an error shows.
SHOWN_MAX: Final = 120


class Encoding:
    """What makes messages of a column: a payload each, and a key where the schema keeps it apart."""

    def __init__(self, info: SchemaInfo) -> None:
        self.has_keys = key_value.is_separated(info)
        if self.has_keys:
            self._encoders = [encoder_of(one) for one in key_value.split_info(info)]
        else:
            self._encode = encoder_of(info)

    def of(self, column: pa.Array) -> tuple[list[bytes | None] | None, list[bytes | None]]:
        """Keys, or None where they are not the schema's; and values. Null is null."""
        rows = column.to_pylist(maps_as_pydicts="strict")
        if not self.has_keys:
            return None, [_told(self._encode, row) for row in rows]
        parts: list[list[bytes | None]] = [
            [None if row is None else _told(encode, row[name]) for row in rows]
            for name, encode in zip(("key", "value"), self._encoders, strict=True)
        ]
        return parts[0], parts[1]


def _told(encode: Encode, value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return encode(value)
    except SchemaMismatch as error:
        raise SchemaMismatch(f"{error}: {value!r:.{SHOWN_MAX}}") from None


def encoder_of(info: SchemaInfo) -> Encode:
    match info.type:
        case SchemaType.AVRO:
            parsed = avro.parsed(plain_definition(avro.definition_of(info)))
            return lambda value: avro.write(parsed, value)
        case SchemaType.JSON:
            return _json(avro_schema.parse(info.data))
        case SchemaType.PROTOBUF_NATIVE:
            descriptor = protobuf_native.parse_definition(info.data)
            return lambda value: _message(descriptor, value).SerializeToString()
        case SchemaType.KEY_VALUE:
            key, value = (encoder_of(one) for one in key_value.split_info(info))
            return lambda pair: key_value.join_bytes(
                _told(key, pair["key"]), _told(value, pair["value"])
            )
        case SchemaType.STRING:
            return lambda value: value.encode()
        case kind if kind.is_primitive:
            return PrimitiveSchema(kind).encode
    return lambda value: value


# -- JSON ------------------------------------------------------------------------------------------


def _json(node: Node) -> Encode:
    checked = _checked(node, "value")

    def encode(value: Any) -> bytes:
        try:
            return json.dumps(
                checked(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False
            ).encode()
        except (ValueError, TypeError) as error:  # half of a surrogate pair, a number that is none
            raise SchemaMismatch(f"a value that is no JSON: {error}") from None

    return encode


def _checked(node: Node, at: str) -> Callable[[Any], Any]:
    """What makes a value of this node ready for JSON, which would let anything pass."""
    if node.kind == "union":
        inner = [one for one in node.inner if one.kind != "null"]
        checked = _checked(inner[0], at) if len(inner) == 1 else lambda value: value
        if is_nullable(node):
            return lambda value: None if value is None else checked(value)
        return checked
    match node.kind:
        case "record":
            return _record(node, at)
        case "array":
            item = _required(_checked(node.inner[0], f"{at}[]"), node.inner[0], f"{at}[]")
            return lambda value: [item(one) for one in value]
        case "map":
            item = _required(_checked(node.inner[0], f"{at}[]"), node.inner[0], f"{at}[]")
            return lambda value: {key: item(one) for key, one in value.items()}
        case "enum":
            return _symbol(node, at)
    return lambda value: value


def _record(node: Node, at: str) -> Callable[[Any], Any]:
    fields: list[tuple[str, Callable[[Any], Any], bool, Any]] = []

    def encode(value: Any) -> dict[str, Any]:
        if not fields:
            # With the first value, and not before: a record may contain itself.
            for one in node.fields:
                place = f"{at}.{one.name}"
                checked = _required(_checked(one.schema, place), one.schema, place)
                fields.append((one.name, checked, one.has_default, one.default))
        return {
            name: default if has_default and name not in value else checked(value.get(name))
            for name, checked, has_default, default in fields
        }

    return encode


def _required(checked: Callable[[Any], Any], node: Node, at: str) -> Callable[[Any], Any]:
    if is_nullable(node):
        return lambda value: None if value is None else checked(value)

    def encode(value: Any) -> Any:
        if value is None:
            raise SchemaMismatch(f"{at} is null, and may not be by its JSON schema")
        return checked(value)

    return encode


def _symbol(node: Node, at: str) -> Callable[[Any], Any]:
    def encode(value: Any) -> Any:
        if value not in node.symbols:
            raise SchemaMismatch(f"{at} is {value!r:.60}, its JSON schema has no such symbol")
        return value

    return encode


# -- protobuf --------------------------------------------------------------------------------------


def _message(descriptor: Descriptor, value: Any) -> Any:
    made = GetMessageClass(descriptor)()
    for name, one in value.items():
        if one is None:
            continue  # not set
        field = descriptor.fields_by_name[name]
        try:
            _set(made, field, one)
        except (ValueError, TypeError) as error:
            raise SchemaMismatch(f"{field.full_name}: {error}") from None
    return made


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if is_map(field):
        assert field.message_type is not None
        inner, there = field.message_type.fields_by_name["value"], getattr(message, field.name)
        for key, one in value.items():
            if inner.message_type is not None:
                there[key].CopyFrom(_message(inner.message_type, one or {}))
            else:
                there[key] = _single(inner, one)
    elif field.is_repeated:
        getattr(message, field.name).extend(_single(field, one) for one in value)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(_message(field.message_type, value))
    else:
        setattr(message, field.name, _single(field, value))


def _single(field: FieldDescriptor, value: Any) -> Any:
    if value is None:
        raise ValueError("null in a repeated field, which protobuf cannot say")
    if field.message_type is not None:
        return _message(field.message_type, value)
    if field.enum_type is not None:
        symbol = field.enum_type.values_by_name.get(value)
        if symbol is None:
            raise ValueError(f"there is no {value!r:.60} in {field.enum_type.full_name}")
        return symbol.number
    return int(value) if isinstance(value, Decimal) else value
