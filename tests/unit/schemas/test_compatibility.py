from __future__ import annotations

import json
from itertools import product

import pytest
from google.protobuf import duration_pb2, timestamp_pb2

from milepost.errors import IncompatibleSchema
from milepost.schemas.compatibility import Strategy, check_compatible
from milepost.schemas.key_value import KeyValueEncodingType, join_infos
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.types import SchemaInfo, SchemaType

DIRECTIONS = [
    Strategy.BACKWARD,
    Strategy.FORWARD,
    Strategy.FULL,
    Strategy.BACKWARD_TRANSITIVE,
    Strategy.FORWARD_TRANSITIVE,
    Strategy.FULL_TRANSITIVE,
]


def avro(*fields: str, kind: SchemaType = SchemaType.AVRO) -> SchemaInfo:
    """Fields by name; one with a question mark has a default."""
    described = [
        {"name": name.rstrip("?"), "type": "int", **({"default": 0} if "?" in name else {})}
        for name in fields
    ]
    data = json.dumps({"type": "record", "name": "R", "fields": described}).encode()
    return SchemaInfo("s", kind, data)


def is_allowed(old: SchemaInfo, new: SchemaInfo, strategy: Strategy) -> bool:
    try:
        check_compatible([old], new, strategy)
    except IncompatibleSchema:
        return False
    return True


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF])
@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"),
    [
        (("a",), ("a", "b"), False, True),  # a field that old data has not
        (("a",), ("a", "b?"), True, True),
        (("a", "b"), ("a",), True, False),  # a field that the old schema asks for
        (("a", "b?"), ("a",), True, True),
        (("a",), ("b",), False, False),
    ],
)
def test_directions(
    kind: SchemaType, old: tuple[str, ...], new: tuple[str, ...], backward: bool, forward: bool
) -> None:
    for strategy in DIRECTIONS:
        expected = {
            "BACKWARD": backward,
            "FORWARD": forward,
            "FULL": backward and forward,
        }[strategy.removesuffix("_TRANSITIVE")]
        assert is_allowed(avro(*old, kind=kind), avro(*new, kind=kind), strategy) is expected


@pytest.mark.parametrize("strategy", [Strategy.ALWAYS_INCOMPATIBLE, Strategy.UNDEFINED])
def test_nothing_at_all(strategy: Strategy) -> None:
    assert not is_allowed(avro("a"), avro("a"), strategy)
    check_compatible([], avro("a"), strategy)
    string = SchemaInfo("s", SchemaType.STRING, b"")
    assert is_allowed(string, string, strategy) is (strategy is Strategy.UNDEFINED)


def test_anything_at_all() -> None:
    string = SchemaInfo("s", SchemaType.STRING, b"")
    assert is_allowed(avro("a"), string, Strategy.ALWAYS_COMPATIBLE)
    assert is_allowed(avro("a"), avro("b"), Strategy.ALWAYS_COMPATIBLE)


def test_another_type() -> None:
    kinds = [SchemaType.STRING, SchemaType.INT8, SchemaType.BOOLEAN]
    for old, new in product(kinds, kinds):
        infos = SchemaInfo("", old, b""), SchemaInfo("", new, b"")
        assert is_allowed(*infos, Strategy.FULL) is (old is new)
    assert not is_allowed(avro("a"), avro("a", kind=SchemaType.JSON), Strategy.BACKWARD)


def test_every_version_counts_that_is_given() -> None:
    olds = [avro("a"), avro("a", "b")]
    check_compatible(olds, avro("a"), Strategy.BACKWARD_TRANSITIVE)
    with pytest.raises(IncompatibleSchema, match="b: a field that was not written"):
        check_compatible(olds, avro("a", "b"), Strategy.BACKWARD_TRANSITIVE)


def test_protobuf_messages_keep_their_name() -> None:
    one = ProtobufNativeSchema(timestamp_pb2.Timestamp).schema_info()
    other = ProtobufNativeSchema(duration_pb2.Duration).schema_info()
    for strategy in DIRECTIONS:
        assert is_allowed(one, one, strategy)
        assert not is_allowed(one, other, strategy)
    assert is_allowed(one, other, Strategy.ALWAYS_COMPATIBLE)
    assert not is_allowed(one, one, Strategy.ALWAYS_INCOMPATIBLE)


def test_key_values_by_their_parts() -> None:
    def pair(key: SchemaInfo, value: SchemaInfo) -> SchemaInfo:
        return join_infos(key, value, KeyValueEncodingType.INLINE)

    string = SchemaInfo("", SchemaType.STRING, b"")
    old = pair(string, avro("a"))
    assert is_allowed(old, pair(string, avro("a", "b?")), Strategy.FULL)
    for new, part in [
        (pair(string, avro("a", "b")), "value: AVRO schema under FULL"),
        (pair(string, string), "value: the topic has a AVRO"),
        (pair(avro("a"), avro("a")), "key: the topic has a STRING"),
    ]:
        with pytest.raises(IncompatibleSchema, match=part):
            check_compatible([old], new, Strategy.FULL)
    check_compatible([old], pair(avro("x"), string), Strategy.ALWAYS_COMPATIBLE)


def test_what_others_keep() -> None:
    external = SchemaInfo("", SchemaType.EXTERNAL, b"x")
    assert is_allowed(external, external, Strategy.ALWAYS_INCOMPATIBLE)
    assert not is_allowed(external, avro("a"), Strategy.FULL)
