"""The PROTOBUF_NATIVE schema of a client.

The definition is JSON with three keys: the base64 of a FileDescriptorSet (the message's file behind all
that it imports), the full name of the message, and the name of its file. Owns that form, both ways, and
`ProtobufNativeSchema`, the client's class. A definition comes from strangers: descriptors are built in a
pool of their own, and none that does not fit gets out.

    schema = ProtobufNativeSchema(Sensor)               # a generated class
    schema.decode(schema.encode(Sensor(celsius=21)))
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, cast

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.schema import Schema
from milepost.schemas.types import SchemaInfo, SchemaType

_SET, _ROOT, _FILE = "fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName"


class ProtobufNativeSchema(Schema):
    """Messages of a generated class."""

    def __init__(self, record_cls: type[Message]) -> None:
        if not (isinstance(record_cls, type) and issubclass(record_cls, Message)):
            raise SchemaMismatch(f"{record_cls!r} is no class of protobuf messages")
        definition = definition_of(cast("Descriptor", record_cls.DESCRIPTOR))
        super().__init__(record_cls, SchemaType.PROTOBUF_NATIVE, definition, "PROTOBUF_NATIVE")

    def encode(self, obj: Any) -> bytes:
        self._check_type(obj)
        data: bytes = obj.SerializeToString()
        return data

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        assert self._record_cls is not None
        try:
            return self._record_cls.FromString(data)
        except DecodeError as failure:
            name = self._record_cls.__name__
            raise SchemaMismatch(f"{len(data)} bytes are no {name}: {failure}") from None

    def __str__(self) -> str:
        assert self._record_cls is not None
        return f"ProtobufNativeSchema({self._record_cls.__name__})"


def definition_of(descriptor: Descriptor) -> dict[str, str]:
    """The definition of a message type: its file and everything that imports, imports first."""
    collected = descriptor_pb2.FileDescriptorSet()
    seen: set[str] = set()

    def collect(file: FileDescriptor) -> None:
        if file.name in seen:
            return
        for imported in file.dependencies:
            collect(imported)
        seen.add(file.name)
        file.CopyToProto(collected.file.add())

    collect(descriptor.file)
    return {
        _SET: base64.b64encode(collected.SerializeToString()).decode("ascii"),
        _ROOT: descriptor.full_name,
        _FILE: descriptor.file.name,
    }


def parse_definition(data: bytes) -> Descriptor:
    """The message type that a definition describes."""
    try:
        said = json.loads(data)
        encoded, root, name = said[_SET], said[_ROOT], said[_FILE]
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(encoded))
    except (
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
        binascii.Error,
        DecodeError,
    ) as failure:
        raise InvalidSchema(f"no protobuf descriptors: {failure!r:.200}") from None
    pool = DescriptorPool()
    try:
        for file in _imports_first(files, name):
            pool.AddSerializedFile(file.SerializeToString())
        found = pool.FindMessageTypeByName(root)
    except (TypeError, KeyError, ValueError) as failure:
        raise InvalidSchema(f"protobuf message {root!r} of {name!r}: {failure!s:.200}") from None
    return found


def _imports_first(
    files: descriptor_pb2.FileDescriptorSet, root: str
) -> list[descriptor_pb2.FileDescriptorProto]:
    """The files that the root needs, each behind what it imports."""
    by_name = {file.name: file for file in files.file}
    ordered: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    # A stack of our own: a chain of imports may be longer than Python's.
    waiting = [(root, False)]
    open_names: set[str] = set()
    while waiting:
        name, is_done = waiting.pop()
        if is_done:
            open_names.discard(name)
            ordered[name] = by_name[name]
            continue
        if name in ordered:
            continue
        if name in open_names:
            raise ValueError(f"file {name!r} imports itself")
        if name not in by_name:
            raise KeyError(f"file {name!r} is missing")
        open_names.add(name)
        waiting.append((name, True))
        waiting += [(imported, False) for imported in by_name[name].dependency]
    return list(ordered.values())
