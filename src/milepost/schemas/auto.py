"""AUTO_CONSUME and AUTO_PRODUCE: the schema that the topic has.

`AutoConsumeSchema` decodes each message by the schema of its version; the consumer that has the message
passes it. `AutoProduceSchema` takes bytes that are encoded already and lets only those through that the
topic's schema can decode. Both work with any type that `schema_of` knows.

    AutoConsumeSchema().decode(data, writer)        # a dictionary, text, a number, a protobuf message
    AutoProduceSchema(info).encode(data)            # the same bytes, or SchemaMismatch
"""

from __future__ import annotations

from typing import Any, ClassVar

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from milepost.errors import SchemaMismatch
from milepost.schemas import avro, key_value, protobuf_native
from milepost.schemas.json_schema import load_json
from milepost.schemas.key_value import KeyValueSchema
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.schema import BytesSchema, Schema, StringSchema
from milepost.schemas.types import SchemaInfo, SchemaType

# Schemas that are kept ready: versions of the topics that one consumer reads.
READY_MAX = 256


class AutoConsumeSchema(Schema):
    needs_writer: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(None, SchemaType.AUTO_CONSUME, None, "AUTO_CONSUME")
        self._schema_info = SchemaInfo("AutoConsume", SchemaType.AUTO_CONSUME, b"")
        self._ready: dict[tuple[int, bytes], Schema] = {}

    def encode(self, obj: Any) -> bytes:
        raise SchemaMismatch("AUTO_CONSUME reads what others wrote; it writes nothing")

    def decode(
        self, data: bytes, writer: SchemaInfo | None = None, *, key: bytes | None = None
    ) -> Any:
        """Bytes as they are where the topic has no schema; `key` is the message's, as bytes."""
        if writer is None:
            return data
        known = (int(writer.type), writer.data)
        schema = self._ready.get(known)
        if schema is None:
            if len(self._ready) >= READY_MAX:
                self._ready.clear()
            schema = self._ready[known] = schema_of(writer)
        if isinstance(schema, KeyValueSchema):
            return schema.decode(data, key=key)
        return schema.decode(data)


class AutoProduceSchema(Schema):
    """`info` is the topic's schema; None while it has none, when any bytes will do."""

    def __init__(self, info: SchemaInfo | None = None) -> None:
        super().__init__(bytes, SchemaType.BYTES, None, "AUTO_PRODUCE")
        self._schema: Schema = BytesSchema()
        self.attach(info)

    def attach(self, info: SchemaInfo | None) -> None:
        """From now on what is sent must be of this schema; a producer that opens knows it."""
        self._schema = BytesSchema() if info is None else schema_of(info)
        self._schema_info = self._schema.schema_info() if info is None else info

    def encode(self, obj: Any) -> bytes:
        self._check_type(obj)
        self._schema.decode(obj)
        data: bytes = obj
        return data

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        return data


def schema_of(info: SchemaInfo) -> Schema:
    """A schema made from its description alone: records are dictionaries."""
    match info.type:
        case SchemaType.STRING:
            return StringSchema()
        case SchemaType.JSON:
            return _GenericJson(info)
        case SchemaType.AVRO:
            return _GenericAvro(info)
        case SchemaType.PROTOBUF_NATIVE:
            return _GenericProtobuf(info)
        case SchemaType.KEY_VALUE:
            key, value = key_value.split_info(info)
            return KeyValueSchema(schema_of(key), schema_of(value), key_value.encoding_of(info))
        case kind if kind.is_primitive:
            return PrimitiveSchema(kind)
    # NONE, BYTES, EXTERNAL; and PROTOBUF, whose definition is no description of its bytes.
    return BytesSchema()


class _Generic(Schema):
    def __init__(self, info: SchemaInfo) -> None:
        super().__init__(None, info.type, None, info.name)
        self._schema_info = info


class _GenericJson(_Generic):
    def encode(self, obj: Any) -> bytes:
        raise SchemaMismatch("a JSON schema without its class writes nothing")

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        return load_json(data)


class _GenericAvro(_Generic):
    def __init__(self, info: SchemaInfo) -> None:
        super().__init__(info)
        self._parsed = avro.parsed(avro.definition_of(info))

    def encode(self, obj: Any) -> bytes:
        return avro.write(self._parsed, obj)

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        return avro.read(data, self._parsed)


class _GenericProtobuf(_Generic):
    def __init__(self, info: SchemaInfo) -> None:
        super().__init__(info)
        self._class = GetMessageClass(protobuf_native.parse_definition(info.data))

    def encode(self, obj: Any) -> bytes:
        data: bytes = obj.SerializeToString()
        return data

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        try:
            return self._class.FromString(data)
        except DecodeError as failure:
            name = self._class.DESCRIPTOR.full_name
            raise SchemaMismatch(f"{len(data)} bytes are no {name}: {failure}") from None
