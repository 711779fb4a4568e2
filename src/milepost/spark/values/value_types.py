"""The schema of a topic as a Spark type. From a schema's definition to a type as Spark declares it.

Records and messages are structs, their fields in order; a union of null and something is that, and null where
it is null. What Spark has no type for (other unions, types that contain themselves) is refused by name: such
a topic is read with `decode=raw`. Nothing here reads data.

    >>> value_type(SchemaInfo("R", SchemaType.INT32, b""))
    'INT'
    >>> record = b'{"type": "record", "name": "R", "fields": [{"name": "celsius", "type": "double"}]}'
    >>> value_type(SchemaInfo("R", SchemaType.AVRO, record))
    'STRUCT<`celsius`: DOUBLE>'
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from milepost.errors import InvalidOption
from milepost.schemas import avro_schema, key_value, protobuf_native
from milepost.schemas.avro_schema import Node
from milepost.schemas.types import SchemaInfo, SchemaType

# Structs in structs; more is no table any more.
DEPTH_MAX: Final = 32

_PRIMITIVES: Final = {
    SchemaType.NONE: "BINARY", SchemaType.BYTES: "BINARY", SchemaType.STRING: "STRING",
    SchemaType.BOOLEAN: "BOOLEAN", SchemaType.INT8: "TINYINT", SchemaType.INT16: "SMALLINT",
    SchemaType.INT32: "INT", SchemaType.INT64: "BIGINT",
    SchemaType.FLOAT: "FLOAT", SchemaType.DOUBLE: "DOUBLE",
    SchemaType.DATE: "TIMESTAMP", SchemaType.TIME: "TIMESTAMP", SchemaType.TIMESTAMP: "TIMESTAMP",
    SchemaType.INSTANT: "TIMESTAMP", SchemaType.LOCAL_DATE: "DATE",
    SchemaType.LOCAL_DATE_TIME: "TIMESTAMP_NTZ",
}  # fmt: skip

_AVRO: Final = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bytes": "BINARY", "fixed": "BINARY", "string": "STRING", "enum": "STRING",
}  # fmt: skip
# By the type that they annotate, since Avro ignores them on others. What is not here is its plain type.
LOGICAL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}
DECIMAL_PRECISION_MAX: Final = 38
# Unions that are one type, the wider.
_WIDER: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}

_PROTOBUF: Final = {
    FieldDescriptor.CPPTYPE_INT32: "INT", FieldDescriptor.CPPTYPE_INT64: "BIGINT",
    FieldDescriptor.CPPTYPE_UINT32: "BIGINT", FieldDescriptor.CPPTYPE_UINT64: "DECIMAL(20, 0)",
    FieldDescriptor.CPPTYPE_FLOAT: "FLOAT", FieldDescriptor.CPPTYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.CPPTYPE_BOOL: "BOOLEAN", FieldDescriptor.CPPTYPE_ENUM: "STRING",
}  # fmt: skip


def value_type(info: SchemaInfo) -> str:
    """The type of the column `value`, decoded by a schema."""
    match info.type:
        case SchemaType.AVRO:
            return avro_type(avro_schema.parse(info.data), (), is_json=False)
        case SchemaType.JSON:
            return avro_type(avro_schema.parse(info.data), (), is_json=True)
        case SchemaType.PROTOBUF_NATIVE:
            return _message(protobuf_native.parse_definition(info.data), ())
        case SchemaType.KEY_VALUE:
            key, value = key_value.split_info(info)
            return _struct([("key", value_type(key)), ("value", value_type(value))])
    if info.type not in _PRIMITIVES:
        raise InvalidOption(f"values of {info.type.name} have no type in Spark: use decode=raw")
    return _PRIMITIVES[info.type]


def _struct(fields: list[tuple[str, str]]) -> str:
    quoted = [f"`{name.replace('`', '``')}`: {kind}" for name, kind in fields]
    return f"STRUCT<{', '.join(quoted)}>"


def logical_type(node: Node) -> str | None:
    """The type that an annotation makes of a plain one; None if there is no such annotation."""
    name = node.properties.get("logicalType")
    if name == "decimal" and node.kind in ("bytes", "fixed"):
        precision, scale = node.properties.get("precision", 0), node.properties.get("scale", 0)
        are_numbers = type(precision) is int and type(scale) is int
        if are_numbers and 0 <= scale <= precision <= DECIMAL_PRECISION_MAX and precision > 0:
            return f"DECIMAL({precision}, {scale})"
        return None
    return LOGICAL.get((node.kind, str(name)))


def avro_type(node: Node, within: tuple[Any, ...] = (), *, is_json: bool) -> str:
    """The type of one node of an Avro schema, which lies within others."""
    if node in within or len(within) > DEPTH_MAX:
        raise _refused(f"{node.kind} {node.name}, which contains itself")
    inner = (*within, node)
    match node.kind:
        case "record":
            if not node.fields:
                raise _refused(f"record {node.name} without fields")
            return _struct(
                [(one.name, avro_type(one.schema, inner, is_json=is_json)) for one in node.fields]
            )
        case "array":
            return f"ARRAY<{avro_type(node.inner[0], inner, is_json=is_json)}>"
        case "map":
            return f"MAP<STRING, {avro_type(node.inner[0], inner, is_json=is_json)}>"
        case "union":
            kinds = [one for one in node.inner if one.kind != "null"]
            if len(kinds) == 1:
                return avro_type(kinds[0], inner, is_json=is_json)
            wider = _WIDER.get(frozenset(one.kind for one in kinds))
            if wider is not None:
                return _AVRO[wider]
            raise _refused(f"a union of {', '.join(one.kind for one in node.inner)}")
        case "null":
            raise _refused("null alone")
    if is_json:
        # JSON has numbers and text: what clients write for bytes and times differs.
        return "STRING" if node.kind in ("bytes", "fixed") else _AVRO[node.kind]
    return logical_type(node) or _AVRO[node.kind]


def _message(descriptor: Descriptor, within: tuple[str, ...]) -> str:
    if descriptor.full_name in within or len(within) > DEPTH_MAX:
        raise _refused(f"message {descriptor.full_name}, which contains itself")
    if not descriptor.fields:
        raise _refused(f"message {descriptor.full_name} without fields")
    inner = (*within, descriptor.full_name)
    return _struct([(field.name, _field(field, inner)) for field in descriptor.fields])


def is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return bool(field.is_repeated and kind is not None and kind.GetOptions().map_entry)


def _field(field: FieldDescriptor, within: tuple[str, ...]) -> str:
    if is_map(field):
        assert field.message_type is not None
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"MAP<{single_type(key, within)}, {single_type(value, within)}>"
    kind = single_type(field, within)
    return f"ARRAY<{kind}>" if field.is_repeated else kind


def single_type(field: FieldDescriptor, within: tuple[str, ...] = ()) -> str:
    """The type of a protobuf field, or of one of its values if it is repeated."""
    if field.message_type is not None:
        return _message(field.message_type, within)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "BINARY" if field.type == FieldDescriptor.TYPE_BYTES else "STRING"
    return _PROTOBUF[field.cpp_type]


def _refused(what: str) -> InvalidOption:
    return InvalidOption(f"the topic's schema has {what}: Spark has no type for it; use decode=raw")
