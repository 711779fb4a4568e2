"""A schema on the wire: type, definition, name, properties, version.

Owns the numbers of Pulsar's schema types and the eight bytes of a version. Knows nothing of what the
bytes of a definition mean: `validation.py` knows who does.

    >>> SchemaInfo("counts", SchemaType.INT32, b"").type
    <SchemaType.INT32: 8>
    >>> version_bytes(3).hex()
    '0000000000000003'
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from milepost.errors import InvalidSchema


class SchemaType(IntEnum):
    """Pulsar's schema types, by their numbers in protocol messages.

    Those below zero are known to clients only and never stored. `BYTES` is the absence of a schema: a
    client that uses it sends none.
    """

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22
    BYTES = -1
    AUTO_PUBLISH = -4

    @classmethod
    def named(cls, name: str) -> SchemaType:
        """By the name that REST and the properties of key-value schemas use."""
        try:
            return cls[name]
        except KeyError:
            known = ", ".join(cls.__members__)
            raise InvalidSchema(f"schema type {name!r}; known are {known}") from None

    @property
    def is_avro_defined(self) -> bool:
        """Its definition is an Avro schema in JSON, whatever its messages are."""
        return self in _AVRO_DEFINED

    @property
    def is_primitive(self) -> bool:
        """Its type says everything; a definition has nothing to add."""
        return SchemaType.BOOLEAN <= self <= SchemaType.TIMESTAMP or (
            SchemaType.INSTANT <= self <= SchemaType.LOCAL_DATE_TIME
        )


_AVRO_DEFINED: Final = frozenset({SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF})


class SchemaInfo(NamedTuple):
    """A schema, as clients and brokers exchange it."""

    name: str
    """The client's word for it; from a broker, `tenant/namespace/topic`."""
    type: SchemaType
    data: bytes
    """The definition; its form depends on the type."""
    properties: dict[str, str] = {}  # noqa: RUF012  # never changed in place

    def is_same(self, other: SchemaInfo) -> bool:
        """Type and definition are the same, byte for byte; names and properties do not count."""
        return (self.type, self.data) == (other.type, other.data)


NO_VERSION: Final = -1
"""What asking for the version of an unknown schema is answered with."""

_VERSION_MAX: Final = 2**63 - 1


def version_bytes(version: int) -> bytes:
    """A version in messages and receipts: eight bytes, big-endian."""
    return version.to_bytes(8, "big", signed=True)


def version_number(data: bytes) -> int | None:
    """The version that these bytes name; None for bytes that no broker has given."""
    if len(data) != 8:
        return None
    version = int.from_bytes(data, "big", signed=True)
    return version if version >= 0 else None
