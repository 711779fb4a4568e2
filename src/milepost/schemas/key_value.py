"""The KEY_VALUE schema of a client.

Owns both byte forms. Of a message: INLINE puts both into the payload, each behind its size; SEPARATED
leaves the value there and makes the key the message's key. Of a definition: the two definitions, each
behind its size, with names, types and properties of both among the properties of the whole. REST has a
third form of the definition, JSON with `key` and `value`.

    schema = KeyValueSchema(StringSchema(), JsonSchema(Reading))
    schema.encode(KeyValue("sensor-7", Reading(celsius=21)))
"""

from __future__ import annotations

import json
import struct
from enum import StrEnum
from typing import Any, Final, NamedTuple

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.schema import Schema
from milepost.schemas.types import SchemaInfo, SchemaType

_SIZE: Final = struct.Struct(">i")
_NULL: Final = -1
"""The size of what is None."""


class KeyValueEncodingType(StrEnum):
    INLINE = "INLINE"
    SEPARATED = "SEPARATED"


class KeyValue(NamedTuple):
    key: Any
    value: Any


class KeyValueSchema(Schema):
    def __init__(
        self,
        key: Schema,
        value: Schema,
        encoding: KeyValueEncodingType = KeyValueEncodingType.INLINE,
    ) -> None:
        super().__init__(KeyValue, SchemaType.KEY_VALUE, None, "KeyValue")
        self.key_schema, self.value_schema, self.encoding = key, value, encoding
        self._schema_info = join_infos(key.schema_info(), value.schema_info(), encoding)

    def encode(self, obj: Any) -> bytes:
        """The payload; with SEPARATED the value alone (`encode_key` has the key)."""
        self._check_type(obj)
        value = None if obj.value is None else self.value_schema.encode(obj.value)
        if self.encoding is KeyValueEncodingType.SEPARATED:
            return value or b""
        return join_bytes(self.encode_key(obj), value)

    def encode_key(self, obj: KeyValue) -> bytes | None:
        return None if obj.key is None else self.key_schema.encode(obj.key)

    def decode(
        self, data: bytes, writer: SchemaInfo | None = None, *, key: bytes | None = None
    ) -> Any:
        """`key` is the message's key, as bytes, where keys are SEPARATED."""
        key_writer, value_writer = (None, None) if writer is None else split_info(writer)
        if self.encoding is KeyValueEncodingType.SEPARATED:
            value: bytes | None = data
        else:
            key, value = split_bytes(data)
        return KeyValue(
            None if key is None else self.key_schema.decode(key, key_writer),
            None if value is None else self.value_schema.decode(value, value_writer),
        )


def join_bytes(key: bytes | None, value: bytes | None) -> bytes:
    return b"".join(
        _SIZE.pack(_NULL) if part is None else _SIZE.pack(len(part)) + part for part in (key, value)
    )


def split_bytes(data: bytes) -> tuple[bytes | None, bytes | None]:
    key, at = _part(data, 0)
    value, end = _part(data, at)
    if end != len(data):
        raise SchemaMismatch(f"{len(data)} bytes are no key and value: {len(data) - end} are left")
    return key, value


def _part(data: bytes, at: int) -> tuple[bytes | None, int]:
    begin = at + _SIZE.size
    if begin > len(data):
        raise SchemaMismatch(f"{len(data)} bytes are no key and value: they end in a size")
    (size,) = _SIZE.unpack_from(data, at)
    if size == _NULL:
        return None, begin
    if not 0 <= size <= len(data) - begin:
        raise SchemaMismatch(f"{len(data)} bytes are no key and value: a part claims {size}")
    return data[begin : begin + size], begin + size


# -- definitions -----------------------------------------------------------------------------------


def join_infos(key: SchemaInfo, value: SchemaInfo, encoding: KeyValueEncodingType) -> SchemaInfo:
    properties = {"kv.encoding.type": encoding.value}
    for part, info in (("key", key), ("value", value)):
        properties[f"{part}.schema.name"] = info.name
        properties[f"{part}.schema.type"] = info.type.name
        properties[f"{part}.schema.properties"] = json.dumps(
            dict(sorted(info.properties.items())), separators=(",", ":")
        )
    return SchemaInfo(
        "KeyValue", SchemaType.KEY_VALUE, join_bytes(key.data, value.data), properties
    )


def split_info(info: SchemaInfo) -> tuple[SchemaInfo, SchemaInfo]:
    """The two schemas of a key-value schema."""
    if info.type is not SchemaType.KEY_VALUE:
        raise InvalidSchema(f"{info.type.name} is no key-value schema")
    try:
        key, value = split_bytes(info.data)
    except SchemaMismatch as failure:
        raise InvalidSchema(f"key-value schema: {failure}") from None
    return _sub_info(info, "key", key or b""), _sub_info(info, "value", value or b"")


def encoding_of(info: SchemaInfo) -> KeyValueEncodingType:
    named = info.properties.get("kv.encoding.type") or KeyValueEncodingType.INLINE.value
    try:
        return KeyValueEncodingType(named)
    except ValueError:
        raise InvalidSchema(f"key-value schema with encoding {named!r}") from None


def is_separated(info: SchemaInfo) -> bool:
    """Is it a key-value schema whose key is the message's?"""
    return info.type is SchemaType.KEY_VALUE and encoding_of(info) is KeyValueEncodingType.SEPARATED


def _sub_info(info: SchemaInfo, part: str, data: bytes) -> SchemaInfo:
    properties: Any = {}
    if said := info.properties.get(f"{part}.schema.properties"):
        try:
            properties = json.loads(said)
        except (ValueError, RecursionError):
            properties = None
        if not isinstance(properties, dict):
            raise InvalidSchema(f"properties of a {part}'s schema that are no JSON object")
    return SchemaInfo(
        info.properties.get(f"{part}.schema.name", ""),
        SchemaType.named(info.properties.get(f"{part}.schema.type", SchemaType.BYTES.name)),
        data,
        {str(name): str(value) for name, value in properties.items()},
    )


def data_from_json(text: str) -> bytes:
    """The definition that REST was given: `{"key": {...}, "value": {...}}`."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise InvalidSchema(f"the key-value schema is not JSON: {failure!s:.200}") from None
    if not isinstance(said, dict) or "key" not in said or "value" not in said:
        raise InvalidSchema("the key-value schema has no key and value")
    return join_bytes(*(_json_bytes(said[part]) for part in ("key", "value")))


def _json_bytes(said: Any) -> bytes:
    if said == "":
        return b""
    try:
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
        raise InvalidSchema("the key-value schema has a character that is none") from None


def data_to_json(info: SchemaInfo) -> str:
    """The definition as REST gives it; of a primitive type it is an empty text."""
    parts = {}
    for part, one in zip(("key", "value"), split_info(info), strict=True):
        if one.type.is_avro_defined or one.type is SchemaType.PROTOBUF_NATIVE:
            parts[part] = json.loads(one.data)
        elif one.type is SchemaType.KEY_VALUE:
            parts[part] = json.loads(data_to_json(one))
        else:
            parts[part] = ""
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
