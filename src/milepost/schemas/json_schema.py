"""The JSON schema of a client.

    schema = JsonSchema(Reading)
    schema.encode(Reading(sensor="a", celsius=21.5))        # b'{\\n "sensor": "a",\\n "celsius": 21.5\\n}'

Byte for byte what the official client writes: members of enums by their values, bytes as text.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from milepost.errors import SchemaMismatch
from milepost.schemas.record import Record
from milepost.schemas.schema import Schema
from milepost.schemas.types import SchemaInfo, SchemaType


class JsonSchema(Schema):
    def __init__(self, record_cls: type[Record]) -> None:
        super().__init__(record_cls, SchemaType.JSON, record_cls.schema(), "JSON")

    def encode(self, obj: Any) -> bytes:
        self._check_type(obj)
        try:
            return json.dumps(Record.values(obj), default=_plain, indent=1).encode()
        except (ValueError, TypeError) as failure:
            raise SchemaMismatch(f"a {type(obj).__name__} that is no JSON: {failure}") from None

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        assert self._record_cls is not None
        values = load_json(data)
        if not isinstance(values, dict):
            raise SchemaMismatch(f"{len(data)} bytes of JSON are no {self._record_cls.__name__}")
        return self._record_cls(**values)


def load_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as failure:
        raise SchemaMismatch(f"{len(data)} bytes are no JSON: {failure}") from None


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Record):
        return Record.values(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
