from __future__ import annotations

import pytest

from milepost.errors import InvalidSchema
from milepost.schemas.types import SchemaInfo, SchemaType, version_bytes, version_number
from milepost.wire import pulsar_pb2 as pb


def test_the_numbers_are_those_of_the_protocol() -> None:
    def plain(name: str) -> str:
        return name.replace("_", "").lower().replace("boolean", "bool")

    ours = {plain(kind.name): int(kind) for kind in SchemaType if kind >= 0}
    assert ours == {plain(name): number for name, number in pb.Schema.Type.items()}


@pytest.mark.parametrize("number", [0, 1, 255, 256, 2**63 - 1])
def test_a_version_is_eight_bytes(number: int) -> None:
    assert len(version_bytes(number)) == 8
    assert version_number(version_bytes(number)) == number


def test_the_first_version_is_eight_zeroes() -> None:
    assert version_bytes(0) == bytes(8)


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(9), b"\xff" * 8, b"\x80" + bytes(7)])
def test_bytes_that_are_no_version(data: bytes) -> None:
    assert version_number(data) is None


def test_types_by_name() -> None:
    assert SchemaType.named("KEY_VALUE") is SchemaType.KEY_VALUE
    with pytest.raises(InvalidSchema, match="'NOPE'; known are"):
        SchemaType.named("NOPE")


def test_primitives_need_no_definition() -> None:
    assert [kind for kind in SchemaType if kind.is_primitive] == [
        *map(SchemaType, range(5, 15)),
        *map(SchemaType, range(16, 20)),
    ]


def test_names_and_properties_do_not_make_another_schema() -> None:
    one = SchemaInfo("a", SchemaType.STRING, b"", {"x": "y"})
    assert one.is_same(SchemaInfo("b", SchemaType.STRING, b""))
    assert not one.is_same(SchemaInfo("a", SchemaType.STRING, b"null"))
    assert not one.is_same(SchemaInfo("a", SchemaType.INT8, b""))
