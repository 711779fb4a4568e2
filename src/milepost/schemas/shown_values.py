"""Values for people, by the schema of their topic: what a server may decode of payloads that strangers wrote.

AVRO, PROTOBUF_NATIVE, single values and KEY_VALUE of these become what JSON has words for. A payload of a few
bytes can claim any number of values, nest as deep as it is long, and repeat names that are long; all of it is
limited here, and a server must not use a library that believes them. A union's value stands by itself,
bytes are text of the same code points, and numbers that JSON's readers would round are text.

    >>> schema = b'{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
    >>> shown_value(SchemaInfo("", SchemaType.AVRO, schema), b"\\x0e")
    {'n': 7}
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from milepost.errors import InvalidSchema, MilepostError, SchemaMismatch
from milepost.schemas.auto import schema_of
from milepost.schemas.key_value import is_separated, split_bytes, split_info
from milepost.schemas.types import SchemaInfo, SchemaType

# Of a value's text: names, numbers, and some for each value.
TEXT_MAX: Final = 64 * 1024
VALUE_COST: Final = 4
DEPTH_MAX: Final = 64
# Protobuf's library repeats a name for every value that has it: at most so many bytes of names.
_NAMES_MAX: Final = 16 * 1024 * 1024
# Whole numbers that every reader of JSON keeps.
_EXACT_MAX: Final = 2**53


def is_shown(kind: SchemaType) -> bool:
    """Whether its payloads need decoding, and can be. JSON and text are shown as they are."""
    return kind in (SchemaType.AVRO, SchemaType.PROTOBUF_NATIVE, SchemaType.KEY_VALUE) or (
        kind.is_primitive and kind is not SchemaType.STRING
    )


def shown_value(info: SchemaInfo, payload: bytes, key: bytes | None = None) -> Any:
    """The value of a message's payload; `SchemaMismatch` if its schema does not fit it. `key` is the
    message's: with KEY_VALUE it may be the key of the value."""
    return decoder_of(info)(payload, key)


def decoder_of(info: SchemaInfo) -> Callable[[bytes, bytes | None], Any]:
    """`shown_value` of many payloads of one schema, which is read once."""
    if info.type is SchemaType.KEY_VALUE:
        return _pair_decoder(info)
    decode = _part_decoder(info)
    return lambda payload, _: decode(payload)


def _pair_decoder(info: SchemaInfo) -> Callable[[bytes, bytes | None], Any]:
    of_key, of_value = map(_part_decoder, split_info(info))
    has_key_apart = is_separated(info)

    def decode(payload: bytes, key: bytes | None) -> Any:
        value: bytes | None = payload
        if not has_key_apart:
            key, value = split_bytes(payload)
        return {
            "key": None if key is None else of_key(key),
            "value": None if value is None else of_value(value),
        }

    return decode


def _part_decoder(info: SchemaInfo) -> Callable[[bytes], Any]:
    if info.type is SchemaType.KEY_VALUE:
        raise InvalidSchema("KEY_VALUE: a pair inside a pair is not decoded here")
    if info.type is SchemaType.JSON:
        return _json_value
    if info.type is SchemaType.AVRO:
        definition = _definition(info.data)
        return lambda payload: _Avro(definition, payload).value()
    schema = schema_of(info)

    def decode(payload: bytes) -> Any:
        if len(info.data) * len(payload) > _NAMES_MAX:
            raise SchemaMismatch(f"{info.type.name}: too large to be decoded here")
        try:
            found = schema.decode(payload)
            if info.type is SchemaType.PROTOBUF_NATIVE:
                from google.protobuf.json_format import MessageToDict

                found = MessageToDict(found, preserving_proto_field_name=True)
        except (MilepostError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise SchemaMismatch(f"{info.type.name}: {error!s:.200}") from None
        return _plain(found)

    return decode


def _json_value(payload: bytes) -> Any:
    try:
        return _plain(json.loads(payload))
    except (ValueError, RecursionError):
        raise SchemaMismatch("JSON: the payload is none") from None


def _definition(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidSchema("an AVRO schema that is not JSON") from None


def _plain(value: Any, depth: int = 0) -> Any:
    """The same in words that JSON has, and that its readers do not round."""
    if depth > DEPTH_MAX:
        raise SchemaMismatch(f"values nested deeper than {DEPTH_MAX}")
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= _EXACT_MAX else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return value.decode("latin-1")
        case dict():
            return {str(name): _plain(one, depth + 1) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one, depth + 1) for one in value]
    return str(value)


class _Avro:
    """Reads one value in Avro's binary encoding."""

    def __init__(self, schema: Any, data: bytes) -> None:
        self._schema = schema
        self._data = data
        self._at = 0
        self._left = TEXT_MAX
        self._names: dict[str, Any] = {}

    def value(self) -> Any:
        try:
            found = self._read(self._schema, "", 0)
        except (KeyError, IndexError, TypeError, ValueError, struct.error, AttributeError):
            raise SchemaMismatch("AVRO: the schema does not fit the payload") from None
        if self._at != len(self._data):
            raise SchemaMismatch(f"AVRO: {len(self._data) - self._at} bytes behind the value")
        return found

    def _read(self, schema: Any, namespace: str, depth: int) -> Any:
        self._spend(VALUE_COST)
        if depth > DEPTH_MAX:
            raise SchemaMismatch(f"AVRO: values nested deeper than {DEPTH_MAX}")
        if isinstance(schema, list):
            return self._read(schema[self._index(len(schema))], namespace, depth + 1)
        if isinstance(schema, str):
            return self._named(schema, namespace, depth)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self._read(kind, namespace, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(kind, schema, namespace, depth)
        if kind == "array":
            return [self._read(schema["items"], namespace, depth + 1) for _ in self._items()]
        if kind == "map":
            return {
                self._text(): self._read(schema["values"], namespace, depth + 1)
                for _ in self._items()
            }
        return self._named(kind, namespace, depth)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise SchemaMismatch(f"AVRO: a value of more than {TEXT_MAX} characters")

    def _named(self, name: str, namespace: str, depth: int) -> Any:
        read = _PRIMITIVES.get(name)
        if read is not None:
            return read(self)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        return self._read(self._names[full], namespace, depth + 1)

    def _defined(self, kind: str, schema: Any, namespace: str, depth: int) -> Any:
        name = schema["name"]
        if "." in name:
            namespace = name.rpartition(".")[0]
        else:
            namespace = schema.get("namespace", namespace)
            name = f"{namespace}.{name}" if namespace else name
        self._names[name] = {**schema, "name": name}
        if kind == "enum":
            symbols = schema["symbols"]
            symbol = str(symbols[self._index(len(symbols))])
            self._spend(len(symbol))
            return symbol
        if kind == "fixed":
            return self._take(schema["size"]).decode("latin-1")
        found = {}
        for one in schema["fields"]:
            self._spend(len(one["name"]))
            found[one["name"]] = self._read(one["type"], namespace, depth + 1)
        return found

    def _items(self) -> Any:
        """Once for each item of an array or a map: blocks with their number, the last has none."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the size of the block
            yield from range(count)

    def _index(self, count: int) -> int:
        found = self._long()
        if not 0 <= found < count:
            raise SchemaMismatch(f"AVRO: choice {found} of {count}")
        return found

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise SchemaMismatch(f"AVRO: {size} bytes, and {len(self._data) - self._at} are left")
        self._at += size
        self._spend(size)
        return self._data[self._at - size : self._at]

    def _long(self) -> int:
        found = shift = 0
        while shift < 70:
            (byte,) = self._take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
        raise SchemaMismatch("AVRO: a number of more than ten bytes")

    def _text(self) -> str:
        return self._take(self._long()).decode("utf-8", "replace")


_PRIMITIVES: Final[dict[str, Callable[[_Avro], Any]]] = {
    "null": lambda one: None,
    "boolean": lambda one: one._take(1) != b"\0",
    "int": lambda one: one._long(),
    "long": lambda one: _plain(one._long()),
    "float": lambda one: _plain(struct.unpack("<f", one._take(4))[0]),
    "double": lambda one: _plain(struct.unpack("<d", one._take(8))[0]),
    "bytes": lambda one: one._take(one._long()).decode("latin-1"),
    "string": lambda one: one._text(),
}
