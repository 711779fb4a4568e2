"""Schemas as the client needs them: the wire's form of one, and bytes as they are without one."""

from __future__ import annotations

from typing import Any

from milepost.errors import InvalidInput
from milepost.wire import pulsar_pb2 as pb


def schema_data(schema: Any) -> pb.Schema | None:
    """What PRODUCER and SUBSCRIBE carry; None for bytes, which have no schema."""
    return None


def encode(schema: Any, content: Any) -> bytes:
    """The payload of a message."""
    if schema is not None:
        encoded: bytes = schema.encode(content)
        return encoded
    if isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    raise InvalidInput(f"a message without a schema is bytes, not {type(content).__name__}")
