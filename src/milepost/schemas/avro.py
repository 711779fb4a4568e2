"""The AVRO schema of a client: records or dictionaries.

    schema = AvroSchema(Reading)
    schema.encode(Reading(sensor="a", celsius=21.5))
    AvroSchema(None, {"type": "record", "name": "R", "fields": [...]}).encode({...})

Avro's bytes say nothing of themselves: a caller that decodes a message of another version passes the `writer`
schema, and Avro turns old values into new ones. fastavro does the work. Record names do not have to be
the same: the writer's is taken for the reader's, as the official client does.
"""

from __future__ import annotations

import io
import json
from enum import Enum
from typing import Any, ClassVar, cast

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.record import Record
from milepost.schemas.schema import Schema
from milepost.schemas.types import SchemaInfo, SchemaType

# Writers' schemas that are kept parsed: versions of the topics that one consumer reads.
WRITERS_MAX = 256


class AvroSchema(Schema):
    needs_writer: ClassVar[bool] = True

    def __init__(self, record_cls: type[Record] | None, schema_definition: Any = None) -> None:
        if record_cls is None and schema_definition is None:
            raise InvalidSchema("an AVRO schema needs a record's class or a definition")
        self._schema = schema_definition if record_cls is None else record_cls.schema()
        super().__init__(record_cls, SchemaType.AVRO, self._schema, "AVRO")
        self._parsed = parsed(self._schema)
        self._writers: dict[bytes, Any] = {}

    def encode(self, obj: Any) -> bytes:
        if self._record_cls is not None:
            self._check_type(obj)
        elif not isinstance(obj, dict):
            raise SchemaMismatch(f"{type(obj).__name__} where a dictionary is expected")
        return write(self._parsed, _plain(obj))

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        values = read(data, self._writer(writer), self._parsed)
        return values if self._record_cls is None else self._record_cls(**values)

    def _writer(self, writer: SchemaInfo | None) -> Any:
        if writer is None or writer.data == self._schema_info.data:
            return self._parsed
        if writer.type is not SchemaType.AVRO:
            raise SchemaMismatch(f"{writer.type.name} data where AVRO is expected")
        found = self._writers.get(writer.data)
        if found is None:
            definition = definition_of(writer)
            if isinstance(definition, dict) and isinstance(self._schema, dict):
                for key in ("name", "namespace"):
                    definition.pop(key, None)
                    if key in self._schema:
                        definition[key] = self._schema[key]
            if len(self._writers) >= WRITERS_MAX:
                self._writers.clear()
            found = self._writers[writer.data] = parsed(definition)
        return found


def definition_of(info: SchemaInfo) -> Any:
    """The Avro schema of a description, as JSON."""
    try:
        return json.loads(info.data)
    except (ValueError, RecursionError) as failure:
        raise InvalidSchema(f"{info.type.name} schema that is not JSON: {failure}") from None


# fastavro is loaded where it is used: most brokers never meet a schema, and it takes four megabytes.


def parsed(definition: Any) -> Any:
    import fastavro

    try:
        return fastavro.parse_schema(definition)
    except Exception as failure:  # of many kinds, for a definition that any client may have sent
        raise InvalidSchema(f"Avro schema: {failure!r:.300}") from None


def write(schema: Any, value: Any) -> bytes:
    import fastavro

    buffer = io.BytesIO()
    try:
        fastavro.schemaless_writer(buffer, schema, value)
    except Exception as failure:
        raise SchemaMismatch(
            f"a value that its Avro schema does not fit: {str(failure) or repr(failure):.300}"
        ) from None
    return buffer.getvalue()


def read(data: bytes, writer: Any, reader: Any = None) -> Any:
    import fastavro

    buffer = io.BytesIO(data)
    try:
        value = fastavro.schemaless_reader(buffer, writer, reader)
    except Exception as failure:
        raise SchemaMismatch(f"{len(data)} bytes that are not Avro's: {failure!r:.300}") from None
    if buffer.tell() != len(data):
        left = len(data) - buffer.tell()
        raise SchemaMismatch(f"{len(data)} bytes that are not Avro's: {left} are left over")
    return cast("Any", value)


def _plain(value: Any) -> Any:
    """What fastavro takes: enums by their names, records as dictionaries."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Record):
        return {key: _plain(one) for key, one in Record.values(value).items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
