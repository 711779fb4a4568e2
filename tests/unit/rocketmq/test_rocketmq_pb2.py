"""The generated module is what rocketmq.proto says, and that agrees with the official client's."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code

SOURCES = Path(pb.__file__).parent.parent.parent
GENERATED = ("milepost/rocketmq/rocketmq_pb2.py", "milepost/rocketmq/rocketmq_pb2.pyi")


def test_the_generated_files_are_up_to_date(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    common = Path(protoc.__file__).parent / "_proto"  # durations and timestamps
    arguments = ["protoc", f"-I{SOURCES}", f"-I{common}"]
    arguments += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main([*arguments, "milepost/rocketmq/rocketmq.proto"]) == 0
    for name in GENERATED:
        assert (tmp_path / name).read_text() == (SOURCES / name).read_text(), f"regenerate {name}"


def test_numbers_and_names_are_those_of_the_official_client() -> None:
    """Every field and every enumeration value that is here is there, with its number and type. A code is
    a number here."""
    definition, service = _official("definition_pb2"), _official("service_pb2")

    def theirs(kind: str, name: str) -> Any:
        for module in (definition, service):
            found = getattr(module.DESCRIPTOR, kind).get(name)
            if found is not None:
                return found
        raise AssertionError(f"{name} is not RocketMQ's")

    for name, message in pb.DESCRIPTOR.message_types_by_name.items():
        other = theirs("message_types_by_name", name).fields_by_name
        for field in message.fields:
            one = other[field.name]
            assert field.number == one.number, (name, field.name)
            assert field.is_repeated == one.is_repeated, (name, field.name)
            assert field.has_presence == one.has_presence, (name, field.name)
            is_number = {field.type, one.type} == {field.TYPE_INT32, field.TYPE_ENUM}
            assert field.type == one.type or is_number, (name, field.name)
    for name, values in pb.DESCRIPTOR.enum_types_by_name.items():
        other = theirs("enum_types_by_name", name).values_by_name
        assert {value.name: value.number for value in values.values} == {
            value.name: other[value.name].number for value in values.values
        }


def test_codes_are_those_of_the_official_client() -> None:
    definition = _official("definition_pb2")
    for code in Code:
        assert definition.Code.Value(code.name) == code


def _official(name: str) -> Any:
    importlib.import_module("stage.official_rocketmq")
    return importlib.import_module(f"rocketmq.grpc_protocol.{name}")
