from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, type_pb2

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.protobuf_native import ProtobufNativeSchema, parse_definition
from milepost.schemas.types import SchemaType

SCHEMA = ProtobufNativeSchema(type_pb2.Type)


def test_there_and_back() -> None:
    message = type_pb2.Type(name="x")
    assert SCHEMA.decode(SCHEMA.encode(message)) == message
    assert str(SCHEMA) == "ProtobufNativeSchema(Type)"
    with pytest.raises(SchemaMismatch, match="type Timestamp where Type"):
        SCHEMA.encode(timestamp_pb2.Timestamp())
    with pytest.raises(SchemaMismatch, match="2 bytes are no Type"):
        SCHEMA.decode(b"\x0a\xff")


def test_only_classes_of_messages() -> None:
    for wrong in (int, type_pb2.Type(), "Type"):
        with pytest.raises(SchemaMismatch, match="no class of protobuf messages"):
            ProtobufNativeSchema(wrong)  # type: ignore[arg-type]


def test_the_definition_is_complete() -> None:
    info = SCHEMA.schema_info()
    assert (info.name, info.type) == ("PROTOBUF_NATIVE", SchemaType.PROTOBUF_NATIVE)
    said = json.loads(info.data)
    assert said["rootMessageTypeName"] == "google.protobuf.Type"
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(said["fileDescriptorSet"]))
    names = [file.name for file in files.file]
    assert names[-1] == said["rootFileDescriptorName"] == "google/protobuf/type.proto"
    assert "google/protobuf/any.proto" in names
    found = parse_definition(info.data)
    assert found.full_name == "google.protobuf.Type"
    assert found is not type_pb2.Type.DESCRIPTOR, "it is built in a pool of its own"


def definition(*files: descriptor_pb2.FileDescriptorProto, root: str, file: str) -> bytes:
    data = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return json.dumps(
        {
            "fileDescriptorSet": base64.b64encode(data).decode(),
            "rootMessageTypeName": root,
            "rootFileDescriptorName": file,
        }
    ).encode()


def file(name: str, message: str, *imports: str, kind: str = "") -> Any:
    made = descriptor_pb2.FileDescriptorProto(name=name, package="p", dependency=imports)
    field = made.message_type.add(name=message).field.add(name="f", number=1, label=1, type=9)
    if kind:
        field.type, field.type_name = 11, kind
    return made


def test_files_come_in_any_order() -> None:
    files = [file("a", "A", "b", kind=".p.B"), file("b", "B")]
    for given in (files, files[::-1]):
        found = parse_definition(definition(*given, root="p.A", file="a"))
        assert found.full_name == "p.A"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no protobuf descriptors"),
        (b"{}", "no protobuf descriptors"),
        (b"[]", "no protobuf descriptors"),
        (b"[" * 100_000, "no protobuf descriptors"),
        (definition(file("a", "A"), root="p.B", file="a"), "'p.B' of 'a'"),
        (definition(file("a", "A"), root="p.A", file="b"), "'b' is missing"),
        (definition(file("a", "A", "b"), root="p.A", file="a"), "'b' is missing"),
        (definition(file("a", "A", "a"), root="p.A", file="a"), "'a' imports itself"),
        (definition(file("a", "A", kind=".p.X"), root="p.A", file="a"), "'p.A' of 'a'"),
    ],
)
def test_what_is_no_definition(data: bytes, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        parse_definition(data)


def test_one_definition_does_not_know_another() -> None:
    """A stranger's message of a name that is taken: nobody else sees it."""
    one = parse_definition(definition(file("a", "A"), root="p.A", file="a"))
    two = parse_definition(
        definition(file("a", "A", "b", kind=".p.B"), file("b", "B"), root="p.A", file="a")
    )
    assert one.fields[0].message_type is None
    assert two.fields[0].message_type.full_name == "p.B"
