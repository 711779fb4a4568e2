"""Schemas on the wire: GET_SCHEMA, GET_OR_CREATE_SCHEMA, and those of PRODUCER and SUBSCRIBE."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import message
from stage.stage import TOPIC, Stage
from stage.talk import error_of, produce, request, subscribe, text_of

from milepost.schemas.types import version_bytes
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]
STRING = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
AUTO = pb.Schema(name="s", schema_data=b"", type=pb.Schema.AutoConsume)


def avro(*fields: str, kind: Any = pb.Schema.Avro) -> pb.Schema:
    described = [
        {"name": name.rstrip("?"), "type": "int", **({"default": 0} if "?" in name else {})}
        for name in fields
    ]
    data = json.dumps({"type": "record", "name": "R", "fields": described}).encode()
    return pb.Schema(
        name="r", schema_data=data, type=kind, properties=[pb.KeyValue(key="a", value="b")]
    )


def get(stage: Stage, version: bytes | None = None, topic: str = TOPIC) -> Any:
    command = pb.CommandGetSchema(request_id=0, topic=topic)
    if version is not None:
        command.schema_version = version
    return request(stage, stage.client(), command)


def get_or_create(stage: Stage, schema: pb.Schema, topic: str = TOPIC) -> Any:
    command = pb.CommandGetOrCreateSchema(request_id=0, topic=topic, schema=schema)
    return request(stage, stage.client(), command)


# -- asking --------------------------------------------------------------------------------------------


def test_there_is_none(stage: Stage) -> None:
    for reply in (get(stage), get(stage, bytes(8)), get_or_create(stage, STRING)):
        assert error_of(reply) == "TopicNotFound"
    assert isinstance(get(stage), pb.CommandGetSchemaResponse)
    assert isinstance(get_or_create(stage, STRING), pb.CommandGetOrCreateSchemaResponse)


def test_a_producers_schema_is_registered_and_found(stage: Stage) -> None:
    made = produce(stage, stage.client(), schema=avro("a"))
    assert made.schema_version == bytes(8)
    for reply in (get(stage), get(stage, bytes(8))):
        assert reply.schema_version == bytes(8)
        assert reply.schema.name == "public/default/t"
        assert reply.schema.schema_data == avro("a").schema_data
        assert reply.schema.type == pb.Schema.Avro
        assert [(item.key, item.value) for item in reply.schema.properties] == [("a", "b")]


@pytest.mark.parametrize("version", [version_bytes(1), b"\xff" * 8, b"x", bytes(9)])
def test_versions_that_are_none(stage: Stage, version: bytes) -> None:
    produce(stage, stage.client(), schema=STRING)
    assert error_of(get(stage, version)) == "TopicNotFound"


def test_an_empty_version_and_a_bad_name(stage: Stage) -> None:
    assert error_of(get(stage, b"")) == "IncompatibleSchema"
    assert error_of(get(stage, topic="bad://x")) == "InvalidTopicName"


def test_partitions_share_the_schema_of_their_topic(stage: Stage) -> None:
    part = f"{TOPIC}-partition-0"
    produce(stage, stage.client(), topic=part, schema=STRING)
    for topic in (TOPIC, part, f"{TOPIC}-partition-5"):
        assert get(stage, topic=topic).schema.type == pb.Schema.String


# -- producers -----------------------------------------------------------------------------------------


def test_versions_grow_and_known_schemas_keep_theirs(stage: Stage) -> None:
    client = stage.client()
    versions = [
        produce(stage, client, number, f"p{number}", schema=schema).schema_version
        for number, schema in enumerate([avro("a"), avro("a", "b?"), avro("a"), avro("a", "b?")])
    ]
    assert versions == [version_bytes(number) for number in (0, 1, 0, 1)]
    assert get(stage).schema_version == version_bytes(1)
    assert stage.broker.counters.schemas_registered == 2


def test_what_is_not_compatible_is_refused_for_good(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, 0, "p0", schema=avro("a"))
    for schema in (avro("a", "b"), STRING, avro("a", kind=pb.Schema.Json)):
        reply = produce(stage, client, 1, "p1", schema=schema)
        assert isinstance(reply, pb.CommandError)
        assert error_of(reply) == "IncompatibleSchema"
    assert "p1" not in stage.topic().producers
    assert stage.broker.counters.schemas_incompatible == 3
    assert error_of(produce(stage, client, 1, "p1", schema=avro("a"))) == ""


@pytest.mark.parametrize(
    "schema",
    [
        pb.Schema(name="s", schema_data=b"{", type=pb.Schema.Avro),
        pb.Schema(name="s", schema_data=b"x", type=pb.Schema.Int8),
        pb.Schema(name="s", schema_data=b"", type=pb.Schema.KeyValue_),
        AUTO,
    ],
)
def test_what_cannot_be_read_is_refused(stage: Stage, schema: pb.Schema) -> None:
    reply = produce(stage, stage.client(), schema=schema)
    assert error_of(reply) == "IncompatibleSchema"
    assert error_of(get_or_create(stage, schema)) == "IncompatibleSchema"
    assert error_of(get(stage)) == "TopicNotFound"
    assert stage.broker.counters.schemas_invalid == 2


BYTES = pb.Schema(name="Bytes", schema_data=b"", type=pb.Schema.None_)


def test_no_schema_is_no_schema(stage: Stage) -> None:
    client = stage.client()
    assert not produce(stage, client, 0, "p").HasField("schema_version")
    # Bytes are what such a topic holds; who says that it reads them is let in, and changes nothing.
    assert error_of(subscribe(stage, client, consumer_id=1, schema=BYTES)) == ""
    assert error_of(get(stage)) == "TopicNotFound"


def test_bytes_are_a_schema_for_whom_says_so(stage: Stage) -> None:
    """As upstream has it, for Go's client: it asks for the schema of bytes when it reads them."""
    client = stage.client()
    reply = produce(stage, client, 0, "p", schema=BYTES)
    assert reply.schema_version == bytes(8)
    assert get_or_create(stage, BYTES).schema_version == bytes(8)
    assert get(stage).schema.type == pb.Schema.None_
    assert error_of(subscribe(stage, client, consumer_id=1, schema=BYTES)) == ""
    assert error_of(produce(stage, client, 2, "other", schema=STRING)) == "IncompatibleSchema"


def test_where_a_schema_is_needed(make_stage: MakeStage) -> None:
    stage = make_stage(schema_validation_enforced=True)
    client = stage.client()
    assert error_of(produce(stage, client, 0, "early")) == "", "the topic has none yet"
    produce(stage, client, 1, "with", schema=STRING)
    reply = produce(stage, client, 2, "without")
    assert error_of(reply) == "IncompatibleSchema"
    assert "schemaValidationEnforced" in text_of(reply)


def test_where_clients_may_not_update(make_stage: MakeStage) -> None:
    stage = make_stage(allow_auto_update_schema=False)
    reply = produce(stage, stage.client(), schema=STRING)
    assert error_of(reply) == "IncompatibleSchema"
    assert error_of(get_or_create(stage, STRING)) == "IncompatibleSchema"
    assert error_of(subscribe(stage, stage.client(), schema=STRING)) == "IncompatibleSchema"


def test_a_reconnected_producer_has_its_version(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, schema=avro("a"))
    again = produce(stage, client, schema=avro("a"))
    assert again.schema_version == bytes(8)


def test_get_or_create(stage: Stage) -> None:
    produce(stage, stage.client())
    assert get_or_create(stage, avro("a")).schema_version == bytes(8)
    assert get_or_create(stage, avro("a", "b?")).schema_version == version_bytes(1)
    assert get_or_create(stage, avro("a")).schema_version == bytes(8)
    assert error_of(get_or_create(stage, avro("c"))) == "IncompatibleSchema"


def test_versions_have_a_maximum(make_stage: MakeStage) -> None:
    stage = make_stage(
        max_schema_versions_per_topic=2, schema_compatibility_strategy="ALWAYS_COMPATIBLE"
    )
    client = stage.client()
    for number, fields in enumerate(["a", "b"]):
        assert error_of(produce(stage, client, number, fields, schema=avro(fields))) == ""
    assert error_of(produce(stage, client, 2, "c", schema=avro("c"))) == "TooManyRequests"
    assert error_of(produce(stage, client, 3, "d", schema=avro("a"))) == ""


def test_two_at_once_get_two_versions_or_one(stage: Stage) -> None:
    """Both decide on an empty topic; the catalog takes one first, and the other decides again."""
    one, other = stage.client(), stage.client()
    stage.topic()
    first = [
        one.say(pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=1, schema=avro("a"))),
        other.say(
            pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=1, schema=avro("a", "b?"))
        ),
    ]
    assert first == [None, None]
    stage.turn()
    versions = [
        reply.schema_version
        for client in (one, other)
        for reply in client.take_all(pb.CommandProducerSuccess)
    ]
    assert sorted(versions) == [version_bytes(0), version_bytes(1)]


def test_everything_survives_a_restart(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, 0, "p0", schema=avro("a"))
    produce(stage, client, 1, "p1", schema=avro("a", "b?"))
    stage = stage.restarted()
    assert get(stage).schema_version == version_bytes(1)
    assert get(stage, bytes(8)).schema.schema_data == avro("a").schema_data
    assert error_of(produce(stage, stage.client(), schema=STRING)) == "IncompatibleSchema"


# -- consumers -----------------------------------------------------------------------------------------


def test_an_idle_topic_takes_a_consumers_schema(stage: Stage) -> None:
    assert error_of(subscribe(stage, stage.client(), schema=avro("a"))) == ""
    assert get(stage).schema.schema_data == avro("a").schema_data


@pytest.mark.parametrize("user", ["producer", "consumer", "message"])
def test_a_topic_in_use_without_a_schema_takes_none(stage: Stage, user: str) -> None:
    client = stage.client()
    if user == "consumer":
        subscribe(stage, client, "other")
    else:
        produce(stage, client)
        if user == "message":
            stage.publish(stage.topic().producers["p"], message(0))
            client.hang_up()
    reply = subscribe(stage, stage.client(), schema=avro("a"))
    assert error_of(reply) == "IncompatibleSchema"
    assert "a topic in use that has none" in text_of(reply)
    assert stage.topic().subscriptions.keys() == ({"other"} if user == "consumer" else set())


def test_consumers_of_any_schema_do_not_count_and_are_let_in(stage: Stage) -> None:
    assert error_of(subscribe(stage, stage.client(), "auto", schema=AUTO)) == ""
    assert error_of(get(stage)) == "TopicNotFound"
    assert error_of(subscribe(stage, stage.client(), "s", schema=avro("a"))) == ""
    assert error_of(get(stage)) == ""
    assert error_of(subscribe(stage, stage.client(), "auto2", schema=AUTO)) == ""


def test_a_consumer_has_to_read_the_latest(stage: Stage) -> None:
    produce(stage, stage.client(), schema=avro("a", "b?"))
    assert error_of(subscribe(stage, stage.client(), "s1", schema=avro("a"))) == ""
    assert error_of(subscribe(stage, stage.client(), "s2", schema=avro("a", "c?"))) == ""
    assert error_of(subscribe(stage, stage.client(), "s3")) == "", "bytes are bytes"
    for wrong in (avro("a", "c"), STRING):
        reply = subscribe(stage, stage.client(), "s4", schema=wrong)
        assert error_of(reply) == "IncompatibleSchema"
    assert "s4" not in stage.topic().subscriptions
    assert get(stage).schema_version == bytes(8), "consumers add nothing to a schema that is there"
