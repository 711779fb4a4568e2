from __future__ import annotations

import json

import pytest

from milepost.errors import IncompatibleSchema, InvalidSchema
from milepost.schemas.compatibility import Strategy
from milepost.schemas.history import History, Version
from milepost.schemas.types import NO_VERSION, SchemaInfo, SchemaType

STRING = SchemaInfo("s", SchemaType.STRING, b"")


def avro(*fields: str, **more: object) -> SchemaInfo:
    described = [
        {"name": name.rstrip("?"), "type": "int", **({"default": 0} if "?" in name else {})}
        for name in fields
    ]
    made = {"type": "record", "name": "R", "fields": described, **more}
    return SchemaInfo("s", SchemaType.AVRO, json.dumps(made).encode())


def history(*infos: SchemaInfo | None) -> History:
    return History([Version(number, info, number * 10) for number, info in enumerate(infos)])


def test_an_empty_one_takes_any_schema() -> None:
    empty = History()
    assert empty.latest is None
    assert empty.next_number == 0
    for strategy in Strategy:
        assert empty.register(avro("a"), strategy) is None
    with pytest.raises(InvalidSchema):
        empty.register(SchemaInfo("s", SchemaType.AVRO, b"{"), Strategy.ALWAYS_COMPATIBLE)


def test_what_says_the_same_is_the_same_version() -> None:
    made = history(avro("a"), avro("a", "b?"))
    assert made.register(avro("a"), Strategy.ALWAYS_INCOMPATIBLE) == 0
    assert made.register(avro("a", "b?", doc="other words"), Strategy.FULL) == 1
    assert made.find_exact(avro("a", "b?", doc="other words")) == NO_VERSION
    assert made.find_exact(avro("a", "b?")) == 1
    assert made.find(STRING) is None
    json_type = avro("a")._replace(type=SchemaType.JSON)
    assert made.find(json_type) is None, "another type is another schema"


def test_the_latest_or_all() -> None:
    """Fields that come and go: readable by the one after, not by the one after that."""
    made = history(avro("a"), avro("a", "b?"))
    made.register(avro("a", "b"), Strategy.BACKWARD)
    with pytest.raises(IncompatibleSchema):
        made.register(avro("a", "b"), Strategy.BACKWARD_TRANSITIVE)
    with pytest.raises(IncompatibleSchema):
        made.register(avro("a", "c"), Strategy.BACKWARD)


def test_without_updates_only_known_schemas_pass() -> None:
    made = history(avro("a"))
    assert made.register(avro("a"), Strategy.FULL, may_update=False) == 0
    with pytest.raises(IncompatibleSchema, match="not updated by clients"):
        made.register(avro("a", "b?"), Strategy.FULL, may_update=False)
    with pytest.raises(IncompatibleSchema, match="not updated by clients"):
        History().register(avro("a"), Strategy.FULL, may_update=False)


def test_deletion_hides_what_was_before_and_numbers_go_on() -> None:
    made = history(avro("a"), None)
    assert made.latest is None
    assert made.live == []
    assert made.version(0) is None
    assert made.next_number == 2
    assert made.register(STRING, Strategy.FULL) is None
    made.add(Version(2, STRING, 20))
    made.add(Version(3, STRING._replace(data=b"null"), 30))
    assert [one.number for one in made.live] == [2, 3]
    assert made.version(1) is None
    found = made.version(2)
    assert found is not None
    assert (found.info, found.time_ms) == (STRING, 20)


def test_numbers_never_repeat() -> None:
    made = history(STRING)
    with pytest.raises(AssertionError):
        made.add(Version(0, STRING, 0))
    made.add(Version(5, STRING._replace(data=b"null"), 0))
    assert made.next_number == 6


def test_consumers_have_to_read_the_latest() -> None:
    made = history(avro("a"), avro("a", "b?"))
    for strategy in (
        Strategy.BACKWARD,
        Strategy.FORWARD,
        Strategy.FORWARD_TRANSITIVE,
        Strategy.FULL,
    ):
        made.check_consumer(avro("b"), strategy)
        with pytest.raises(IncompatibleSchema, match="under BACKWARD"):
            made.check_consumer(avro("c"), strategy)
    with pytest.raises(IncompatibleSchema):
        made.check_consumer(avro("b"), Strategy.BACKWARD_TRANSITIVE)
    with pytest.raises(IncompatibleSchema):
        made.check_consumer(avro("a", "b?"), Strategy.ALWAYS_INCOMPATIBLE)
    made.check_consumer(avro("c"), Strategy.ALWAYS_COMPATIBLE)
    with pytest.raises(IncompatibleSchema, match="the topic has a AVRO schema, not STRING"):
        made.check_consumer(STRING, Strategy.FULL)


def test_consumers_of_a_topic_without_a_schema() -> None:
    with pytest.raises(
        IncompatibleSchema, match="a STRING schema for a topic in use that has none"
    ):
        History().check_consumer(STRING, Strategy.FULL)
    History().check_consumer(STRING, Strategy.ALWAYS_COMPATIBLE)
