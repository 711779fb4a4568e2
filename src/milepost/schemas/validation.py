"""Checks that a definition is what its type says. Asked before one is registered or compared.

    >>> check_schema(SchemaInfo("s", SchemaType.AVRO, b'{"type": "record"}'))
    Traceback (most recent call last):
    milepost.errors.InvalidSchema: AVRO schema: an Avro record has None for a name

AVRO, JSON and PROTOBUF are defined by Avro schemas (JSON in the form of Jackson, which clients older than
2.1 sent, is not read), PROTOBUF_NATIVE by descriptors, KEY_VALUE by two others; the definition of a
primitive type is empty.
"""

from __future__ import annotations

from typing import Final

from milepost.errors import InvalidSchema
from milepost.schemas import avro_schema, key_value, protobuf_native
from milepost.schemas.types import SchemaInfo, SchemaType

# Of a definition and all properties together; well below what a command may have, so that a client that sends
# more is told so.
SIZE_MAX: Final = 512 * 1024
# Key-value schemas inside key-value schemas.
DEPTH_MAX: Final = 8

# What Python clients send for "nothing", there being no bytes for None in JSON.
_PYTHON_NONE: Final = b"null"


def check_schema(info: SchemaInfo, *, depth: int = 0) -> None:
    """Raise `InvalidSchema` that says what is wrong, or return."""
    size = len(info.data) + sum(len(key) + len(value) for key, value in info.properties.items())
    if size > SIZE_MAX:
        raise InvalidSchema(f"a schema of {size} bytes; at most {SIZE_MAX} are taken")
    kind = info.type
    if kind.is_avro_defined:
        _check_avro(info)
    elif kind is SchemaType.PROTOBUF_NATIVE:
        protobuf_native.parse_definition(info.data)
    elif kind is SchemaType.STRING:
        if info.data not in (b"", _PYTHON_NONE):
            raise InvalidSchema(f"STRING schema with a definition of {len(info.data)} bytes")
    elif kind.is_primitive:
        if info.data:
            raise InvalidSchema(f"{kind.name} schema with a definition of {len(info.data)} bytes")
    elif kind is SchemaType.KEY_VALUE:
        if depth == DEPTH_MAX:
            raise InvalidSchema(f"key-value schemas nested deeper than {DEPTH_MAX}")
        key_value.encoding_of(info)
        for part in key_value.split_info(info):
            check_schema(part, depth=depth + 1)
    elif kind in (SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH):
        raise InvalidSchema(f"{kind.name} is a client's own: there is nothing to register")


def _check_avro(info: SchemaInfo) -> None:
    try:
        parsed = avro_schema.parse(info.data)
    except InvalidSchema as failure:
        raise InvalidSchema(f"{info.type.name} schema: {failure}") from None
    if info.type is SchemaType.AVRO and parsed.kind == "union":
        raise InvalidSchema("AVRO schema that is a union: a message is one thing")
