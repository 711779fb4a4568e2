"""Numbers at the edges of their widths, and frames that carry them whatever the field's type says.

Which fields there are is read from the protocol's own declaration: a field that is added to a command is
tried from then on. A value is written as the varint that a hostile peer writes, so that also what no
protobuf library would write is heard.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import command_frame
from milepost.wire.scanners.varint import encode_varint

EDGES = (
    0,
    1,
    2**20 + 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
"""The last two are what signed fields read as the smallest number and as -1."""

Path = tuple[FieldDescriptor, ...]

# Enumerations too: a number that no value has.
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
    FieldDescriptor.CPPTYPE_ENUM,
    FieldDescriptor.CPPTYPE_BOOL,
}
# A first chunk's id is an id too: once is enough.
_DEPTH_MAX = 3


def number_fields(kind: Descriptor, before: Path = ()) -> Iterator[Path]:
    """Every number that a message of this kind can carry, by the fields that lead to it."""
    for field in kind.fields:
        if field.cpp_type in _NUMBERS:
            yield (*before, field)
        elif field.message_type is not None and len(before) < _DEPTH_MAX:
            yield from number_fields(field.message_type, (*before, field))


def name_of(path: Path) -> str:
    return ".".join(field.name for field in path)


def with_number(message: Message, path: Path, value: int) -> bytes:
    """The message with one more number at the end, which counts instead of the one that it has."""
    field, *rest = path
    _fill(message)
    if not rest:
        return message.SerializePartialToString() + _tag(field, 0) + encode_varint(value)
    inner: Any = getattr(message, field.name)
    if field.is_repeated:
        inner = inner[-1] if len(inner) else field.message_type._concrete_class()
    body = with_number(inner, tuple(rest), value)
    kept = type(message)()
    kept.CopyFrom(message)
    kept.ClearField(field.name)
    return kept.SerializePartialToString() + _tag(field, 2) + encode_varint(len(body)) + body


def _fill(message: Message) -> None:
    """Give a message what it must have."""
    for field in message.DESCRIPTOR.fields:
        if field.is_required and not message.HasField(field.name):
            if field.message_type is not None:
                _fill(getattr(message, field.name))
            elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
                setattr(message, field.name, b"" if field.type == field.TYPE_BYTES else "x")
            else:
                setattr(message, field.name, 0)


def _tag(field: FieldDescriptor, wire_type: int) -> bytes:
    return encode_varint(field.number << 3 | wire_type)


def frame(kind: Descriptor, body: bytes) -> bytes:
    """The frame of a command with this body."""
    (field,) = (one for one in pb.BaseCommand.DESCRIPTOR.fields if one.message_type is kind)
    head = b"\x08" + encode_varint(_type_of(field)) + _tag(field, 2) + encode_varint(len(body))
    return bytes(command_frame(head + body))


def _type_of(field: FieldDescriptor) -> int:
    # A command's field in BaseCommand has the number of its type.
    assert field.number in pb.BaseCommand.Type.values(), field.name
    return int(field.number)


def send_frame(command: bytes, entry: bytes) -> bytes:
    base = b"\x08\x06\x32" + encode_varint(len(command)) + command
    return struct.pack(">II", len(base) + 4 + len(entry), len(base)) + base + entry
