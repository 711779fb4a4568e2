"""Payloads as JSON by the schemas of their topic, and JSON as payloads.

AVRO is in Avro's own JSON encoding (a union's value stands under the name of its type, bytes are text of the
same code points), PROTOBUF_NATIVE in protobuf's, JSON as it is, dates and times in ISO 8601. A payload that
its schema does not fit is `SchemaMismatch`.

    schemas = TopicSchemas(connection(), "orders")
    schemas.value_of(message.data(), message.schema_version(), message.key_bytes())     # {"id": 7, …}
    schemas.latest().encode({"id": 7})
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from milepost.cli.exits import CommandFailed, Exit
from milepost.errors import SchemaMismatch

if TYPE_CHECKING:
    from milepost.client.connection.endpoint import Endpoint
    from milepost.schemas import Schema, SchemaInfo

# What `value_of` says of a payload that has no schema.
NO_VALUE: Any = object()


class ValueCodec:
    """JSON values of one schema, and their bytes."""

    def __init__(self, info: SchemaInfo) -> None:
        from milepost.schemas import schema_of

        self.info = info
        self._schema: Schema = schema_of(info)
        # Avro and protobuf have a JSON of their own; other values are what `_plain` makes of them.
        self._avro: Any = None
        if info.type.name == "AVRO":
            from milepost.schemas import avro

            self._avro = avro.parsed(avro.definition_of(info))

    @property
    def is_bytes(self) -> bool:
        """The schema says nothing of the bytes: there is none, or it is one that only Java knows."""
        from milepost.schemas import BytesSchema

        return isinstance(self._schema, BytesSchema)

    def decode(self, data: bytes, key: bytes = b"") -> Any:
        """The JSON of a payload; `key` is the message's, for schemas that have it there."""
        from milepost.schemas import KeyValueSchema

        if self._avro is not None:
            return _avro_json(self._avro, self._schema.decode(data))
        if isinstance(self._schema, KeyValueSchema):
            return _plain(self._schema.decode(data, key=key))
        return _plain(self._schema.decode(data))

    def encode(self, value: Any) -> bytes:
        """The payload of a JSON value."""
        from milepost.schemas import PrimitiveSchema

        kind = self.info.type.name
        if self._avro is not None:
            return self._schema.encode(_from_avro_json(self._avro, value))
        if kind == "JSON":
            return json.dumps(value, ensure_ascii=False).encode()
        if kind == "PROTOBUF_NATIVE":
            return _from_protobuf_json(self._schema, value)
        if kind == "STRING":
            return self._schema.encode(value)
        if isinstance(self._schema, PrimitiveSchema):
            return self._schema.encode(_from_plain(self._schema, value))
        raise SchemaMismatch(f"values of {kind} are not made from JSON; publish their bytes")


class TopicSchemas:
    """The versions of a topic's schema, each asked for once."""

    def __init__(self, where: Endpoint, topic: str) -> None:
        self._where = where
        self._topic = topic
        # By the version as a message has it; None for one that the broker does not know.
        self._codecs: dict[bytes, ValueCodec | None] = {}

    def codec(self, version: bytes) -> ValueCodec | None:
        if version not in self._codecs:
            self._codecs[version] = self._asked(version)
        return self._codecs[version]

    def _asked(self, version: bytes) -> ValueCodec | None:
        from milepost.admin import Missing
        from milepost.schemas import version_number

        number = version_number(version)
        if number is None:
            return None
        try:
            with self._where.admin() as admin:
                return ValueCodec(info_of(admin.get_schema(self._topic, number)))
        except Missing:
            return None

    def value_of(self, data: bytes, version: bytes, key: bytes) -> Any:
        """The JSON of a payload by the schema that wrote it; `NO_VALUE` if it has none."""
        codec = self.codec(version)
        if codec is None or codec.is_bytes:
            return NO_VALUE
        return codec.decode(data, key)

    def latest(self) -> ValueCodec:
        """What is published now is of this one."""
        from milepost.admin import Missing

        try:
            with self._where.admin() as admin:
                codec = ValueCodec(info_of(admin.get_schema(self._topic)))
        except Missing:
            raise CommandFailed(
                f"topic {self._topic} has no schema; `milepost schemas upload` gives it one",
                Exit.NOT_FOUND,
            ) from None
        return codec


def info_of(document: dict[str, Any]) -> SchemaInfo:
    """A schema as REST describes it."""
    from milepost.schemas import SchemaInfo, SchemaType, key_value

    kind = SchemaType.named(str(document.get("type")))
    text = str(document.get("data") or "")
    is_pair = kind is SchemaType.KEY_VALUE
    data = key_value.data_from_json(text) if is_pair else text.encode()
    return SchemaInfo("", kind, data, dict(document.get("properties") or {}))


def _plain(value: Any) -> Any:
    """What JSON has no word for, in words that it has."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import Message

    from milepost.schemas import KeyValue

    if isinstance(value, KeyValue):
        return {"key": _plain(value.key), "value": _plain(value.value)}
    if isinstance(value, Message):
        return MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return value


def _from_plain(schema: Schema, value: Any) -> Any:
    """A date or time from its text; everything else is what it is."""
    if not isinstance(value, str):
        return value
    readers: tuple[Callable[[str], Any], ...] = (
        datetime.fromisoformat,
        date.fromisoformat,
        time.fromisoformat,
    )
    for read in readers:
        try:
            made = read(value)
            schema.encode(made)
        except (ValueError, SchemaMismatch, AttributeError, TypeError):
            continue
        return made
    return value


def _avro_json(schema: Any, value: Any) -> Any:
    import fastavro

    text = io.StringIO()
    try:
        fastavro.json_writer(text, schema, [value])
        return json.loads(text.getvalue())
    except Exception as failure:  # of many kinds, for values that any client may have sent
        raise SchemaMismatch(f"an Avro value that has no JSON: {failure!r:.200}") from None


def _from_avro_json(schema: Any, value: Any) -> Any:
    import fastavro

    text = io.StringIO(json.dumps(value))
    try:
        (read,) = fastavro.json_reader(text, schema)
    except Exception as failure:  # of many kinds, for JSON that a person has written
        lacks = _lacked(schema, value)
        why = f"it lacks {', '.join(lacks)}" if lacks else str(failure) or repr(failure)
        raise SchemaMismatch(
            f"JSON that its Avro schema does not fit: {why:.200}; a union's value stands under "
            'the name of its type, as {"string": "x"}'
        ) from None
    return read


def _lacked(schema: Any, value: Any) -> list[str]:
    """The fields of a record that its JSON lacks, which the library does not name."""
    fields = (
        schema.get("fields", ()) if isinstance(schema, dict) and isinstance(value, dict) else ()
    )
    return [one["name"] for one in fields if "default" not in one and one["name"] not in value]


def _from_protobuf_json(schema: Schema, value: Any) -> bytes:
    from google.protobuf.json_format import ParseDict, ParseError

    message = schema.decode(b"")
    try:
        return schema.encode(ParseDict(value, message))
    except (ParseError, TypeError, ValueError, AttributeError) as failure:
        raise SchemaMismatch(
            f"JSON that its protobuf schema does not fit: {failure!s:.200}"
        ) from None
