"""The schemas of topics as the client sends and looks them up.

A schema that reads better with the writer's (AVRO) is given it: the versions that a topic's messages carry
are asked for once each and kept.

    readings = Readings(AvroSchema(Order))
    if readings.lacks(version): readings.learn(version, await ask(version))
    readings.decode(message.data(), version, key=b"")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.errors import InvalidInput
from milepost.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    # A program that has a schema has imported them; for bytes their libraries are not needed.
    from milepost.schemas import Schema, SchemaInfo


def schema_data(schema: Schema | None) -> pb.Schema | None:
    """What PRODUCER and SUBSCRIBE carry; None for bytes, which have no schema."""
    if schema is None:
        return None
    info = schema.schema_info()
    # Those below zero are known to clients only.
    return None if info.type < 0 else schema_message(info)


def schema_message(info: SchemaInfo) -> pb.Schema:
    """A description as it is on the wire."""
    return pb.Schema(
        name=info.name,
        schema_data=info.data,
        type=pb.Schema.Type.Name(info.type),
        properties=[pb.KeyValue(key=key, value=value) for key, value in info.properties.items()],
    )


def schema_info(data: pb.Schema) -> SchemaInfo:
    """The other way."""
    from milepost.schemas import SchemaInfo, SchemaType

    properties = {item.key: item.value for item in data.properties}
    return SchemaInfo(data.name, SchemaType(data.type), data.schema_data, properties)


def encode(schema: Schema | None, content: Any) -> bytes:
    """The payload of a message."""
    if schema is not None:
        return schema.encode(content)
    if isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    raise InvalidInput(f"a message without a schema is bytes, not {type(content).__name__}")


class Readings:
    """A consumer's schema, and those that wrote what it reads."""

    __slots__ = ("_schema", "_writers")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        # By version; None for one that the broker does not know.
        self._writers: dict[bytes, SchemaInfo | None] = {}

    def lacks(self, version: bytes) -> bool:
        """Whether it is worth asking for the schema of this version."""
        return bool(version) and self._schema.needs_writer and version not in self._writers

    def learn(self, version: bytes, writer: SchemaInfo | None) -> None:
        self._writers[version] = writer

    def decode(self, data: bytes, version: bytes, key: bytes) -> Any:
        from milepost.schemas import AutoConsumeSchema, KeyValueSchema

        writer = self._writers.get(version)
        if isinstance(self._schema, KeyValueSchema | AutoConsumeSchema):
            return self._schema.decode(data, writer, key=key)
        return self._schema.decode(data, writer)
