"""The base of a client's schemas; bytes and strings.

A schema turns values into bytes and back, and describes itself to the broker (`schema_info`). Classes,
bytes and descriptions are those of the official `pulsar.schema`, so that code and data move either way.

    schema = StringSchema()
    schema.decode(schema.encode("text"))

`decode` takes the writer's schema where the bytes cannot be read without it: of AVRO, when the message
carries another version than this one. The consumer that has the message fetches it and passes it;
`needs_writer` says whether that is worth a question to the broker.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from milepost.errors import SchemaMismatch
from milepost.schemas.types import SchemaInfo, SchemaType


class Schema:
    """Base of all; `record_cls` is the class of the values, None where any will do."""

    needs_writer: ClassVar[bool] = False
    """Data can be read better with the schema that wrote it."""

    def __init__(
        self,
        record_cls: type[Any] | None,
        schema_type: SchemaType,
        schema_definition: Any,
        schema_name: str,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._record_cls = record_cls
        # The official client's form of the JSON, to the space: it decides whether two are the same.
        data = json.dumps(schema_definition, indent=1).encode()
        self._schema_info = SchemaInfo(schema_name, schema_type, data, properties or {})

    def encode(self, obj: Any) -> bytes:
        raise NotImplementedError

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        raise NotImplementedError

    def schema_info(self) -> SchemaInfo:
        return self._schema_info

    def _check_type(self, obj: Any) -> None:
        if self._record_cls is not None and not isinstance(obj, self._record_cls):
            raise SchemaMismatch(
                f"a value of type {type(obj).__name__} where {self._record_cls.__name__} is expected"
            )


class BytesSchema(Schema):
    """No schema: bytes as they are. The default of producers and consumers; never registered."""

    def __init__(self) -> None:
        super().__init__(bytes, SchemaType.BYTES, None, "BYTES")

    def encode(self, obj: Any) -> bytes:
        self._check_type(obj)
        data: bytes = obj
        return data

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        return data

    def __str__(self) -> str:
        return "BytesSchema"


class StringSchema(Schema):
    """Text in UTF-8."""

    def __init__(self) -> None:
        super().__init__(str, SchemaType.STRING, None, "STRING")

    def encode(self, obj: Any) -> bytes:
        self._check_type(obj)
        text: str = obj
        return text.encode()

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        try:
            return data.decode()
        except UnicodeDecodeError as failure:
            raise SchemaMismatch(f"{len(data)} bytes are no UTF-8: {failure}") from None

    def __str__(self) -> str:
        return "StringSchema"
