"""Schemas with the official client: round trips, evolution accepted and refused, and what survives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, Refused, subscribe
from compat.talk import RECEIVE_MS
from google.protobuf import timestamp_pb2
from pulsar import schema as official

from milepost import schemas as ours
from milepost.errors import SchemaMismatch
from milepost.schemas.types import SchemaInfo, SchemaType, version_bytes
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.metadata import split_entry

EARLIEST = pulsar.InitialPosition.Earliest


class Inner(official.Record):  # type: ignore[misc]
    x = official.Integer()


class Reading(official.Record):  # type: ignore[misc]
    sensor = official.String()
    celsius = official.Double()
    inner = Inner()
    tags = official.Array(official.String())


def version(package: Any, *fields: str) -> Any:
    """Successive forms of one record: a field with a default is `b?`."""
    members = {
        name.rstrip("?"): package.Integer(
            required=True, default=7 if "?" in name else None, required_default="?" in name
        )
        for name in fields
    }
    return type("Evolving", (package.Record,), members)


def path(topic: str) -> str:
    return "/admin/v2/schemas/" + topic.removeprefix("persistent://")


VALUES = [
    (official.StringSchema(), "größer", "STRING"),
    (
        official.JsonSchema(Reading),
        Reading(sensor="a", celsius=21.5, inner=Inner(x=1), tags=["p"]),
        "JSON",
    ),
    (
        official.AvroSchema(Reading),
        Reading(sensor="a", celsius=21.5, inner=Inner(x=1), tags=["p"]),
        "AVRO",
    ),
    (
        official.ProtobufNativeSchema(timestamp_pb2.Timestamp),
        timestamp_pb2.Timestamp(seconds=5),
        "PROTOBUF_NATIVE",
    ),
]


@pytest.mark.parametrize(("schema", "value", "kind"), VALUES, ids=[kind for *_, kind in VALUES])
@pytest.mark.parametrize("is_batched", [False, True])
def test_round_trips(
    broker: BrokerProcess,
    client: pulsar.Client,
    topic: str,
    schema: Any,
    value: Any,
    kind: str,
    is_batched: bool,
) -> None:
    consumer = client.subscribe(topic, "s", schema=schema)
    producer = client.create_producer(topic, schema=schema, batching_enabled=is_batched)
    producer.send(value)
    message = consumer.receive(RECEIVE_MS)
    assert message.value() == value
    assert message.schema_version().encode() == bytes(8)
    status, answer = broker.rest("GET", f"{path(topic)}/schema")
    assert (status, answer["type"], answer["version"]) == (200, kind, 0)
    assert answer["data"] == schema.schema_info().schema()


def test_a_reader_with_a_schema(client: pulsar.Client, topic: str) -> None:
    schema = official.JsonSchema(Reading)
    client.create_producer(topic, schema=schema).send(Reading(sensor="a"))
    reader = client.create_reader(topic, pulsar.MessageId.earliest, schema=schema)
    assert reader.read_next(5000).value().sensor == "a"


def test_bytes_register_nothing(broker: BrokerProcess, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).send(b"x")
    client.create_producer(topic, schema=official.BytesSchema()).send(b"y")
    assert broker.rest("GET", f"{path(topic)}/schema")[0] == 404


def test_partitions_share_one_schema(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 3)
    schema = official.AvroSchema(version(official, "a"))
    consumer = client.subscribe(topic, "s", schema=schema)
    producer = client.create_producer(topic, schema=schema)
    for number in range(6):
        producer.send(schema._record_cls(a=number))
    found = sorted(consumer.receive(RECEIVE_MS).value().a for _ in range(6))
    assert found == list(range(6))
    _, answer = broker.rest("GET", f"{path(topic)}/schemas")
    assert len(answer["getSchemaResponses"]) == 1


def test_evolution_is_accepted_and_old_messages_are_read(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    old, new = version(official, "a"), version(official, "a", "b?")
    client.create_producer(topic, schema=official.AvroSchema(old)).send(old(a=1))
    client.create_producer(topic, schema=official.AvroSchema(new)).send(new(a=2, b=3))
    consumer = client.subscribe(
        topic, "s", schema=official.AvroSchema(new), initial_position=EARLIEST
    )
    first, second = consumer.receive(RECEIVE_MS), consumer.receive(RECEIVE_MS)
    versions = [message.schema_version().encode() for message in (first, second)]
    assert versions == [version_bytes(0), version_bytes(1)]
    # The client fetches version 0 to read the first one.
    assert (first.value().a, first.value().b) == (1, 7)
    assert (second.value().a, second.value().b) == (2, 3)
    _, answer = broker.rest("GET", f"{path(topic)}/schemas")
    assert [one["version"] for one in answer["getSchemaResponses"]] == [0, 1]


@pytest.mark.parametrize("name", ["AvroSchema", "JsonSchema"])
def test_evolution_is_refused(client: pulsar.Client, topic: str, name: str) -> None:
    def make(*fields: str) -> Any:
        return getattr(official, name)(version(official, *fields))

    client.create_producer(topic, schema=make("a"))
    for wrong in (make("a", "b"), make("b"), official.StringSchema()):
        with pytest.raises(pulsar.IncompatibleSchema):
            client.create_producer(topic, schema=wrong)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "s", schema=make("b"))
    # The connection is as good as before.
    consumer = client.subscribe(topic, "s", schema=make("a", "c?"))
    producer = client.create_producer(topic, schema=make("a"))
    producer.send(producer._schema._record_cls(a=5))
    assert consumer.receive(RECEIVE_MS).value().a == 5


def test_a_topic_in_use_takes_no_schema_from_a_consumer(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).send(b"bytes")
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "s", schema=official.StringSchema())


@pytest.mark.parametrize("kill", [True, False])
def test_schemas_survive(
    own_broker: Callable[..., BrokerProcess],
    connect: Callable[..., pulsar.Client],
    topic: str,
    kill: bool,
) -> None:
    broker = own_broker()
    old, new = version(official, "a"), version(official, "a", "b?")
    client = connect(broker)
    client.create_producer(topic, schema=official.AvroSchema(old)).send(old(a=1))
    client.create_producer(topic, schema=official.AvroSchema(new)).send(new(a=2, b=3))
    _, before = broker.rest("GET", f"{path(topic)}/schemas")
    broker.restart(kill=kill)
    _, after = broker.rest("GET", f"{path(topic)}/schemas")
    assert after == before
    client = connect(broker)
    consumer = client.subscribe(
        topic, "s", schema=official.AvroSchema(new), initial_position=EARLIEST
    )
    values = [consumer.receive(RECEIVE_MS).value() for _ in range(2)]
    assert [(value.a, value.b) for value in values] == [(1, 7), (2, 3)]
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=official.StringSchema())


def test_deleted_schemas_are_no_more(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    client.create_producer(topic, schema=official.StringSchema())
    assert broker.rest("DELETE", f"{path(topic)}/schema") == (200, {"version": 1})
    schema = official.AvroSchema(version(official, "a"))
    client.create_producer(topic, schema=schema)
    _, answer = broker.rest("GET", f"{path(topic)}/schema")
    assert (answer["version"], answer["type"]) == (2, "AVRO")


# -- what the official package has no class for ------------------------------------------------------


def wire_schema(info: SchemaInfo) -> pb.Schema:
    return pb.Schema(
        name=info.name,
        schema_data=info.data,
        type=int(info.type),  # type: ignore[arg-type]
        properties=[pb.KeyValue(key=key, value=value) for key, value in info.properties.items()],
    )


def test_auto_consume_reads_what_the_official_client_wrote(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    auto = ours.AutoConsumeSchema()
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=10, schema=wire_schema(auto.schema_info()))
        # It counts for nobody: the topic takes the schema of whoever comes.
        schema = official.AvroSchema(version(official, "a"))
        producer = client.create_producer(topic, schema=schema, batching_enabled=False)
        producer.send(schema._record_cls(a=5))
        parts = split_entry(raw.expect(Delivery).entry)
        found = raw.request(
            pb.CommandGetSchema(
                request_id=0, topic=topic, schema_version=parts.metadata.schema_version
            )
        )
        writer = SchemaInfo(
            found.schema.name, SchemaType(found.schema.type), found.schema.schema_data
        )
        assert auto.decode(parts.payload, writer) == {"a": 5}


def test_auto_produce_sends_bytes_of_the_topics_schema(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    schema = official.AvroSchema(version(official, "a"))
    consumer = client.subscribe(topic, "s", schema=schema)
    with RawClient(broker.port_of(topic)) as raw:
        found = raw.request(pb.CommandGetSchema(request_id=0, topic=topic))
        info = SchemaInfo(
            found.schema.name, SchemaType(found.schema.type), found.schema.schema_data
        )
        auto = ours.AutoProduceSchema(info)
        made = raw.request(
            pb.CommandProducer(
                topic=topic, producer_id=1, request_id=0, schema=wire_schema(auto.schema_info())
            )
        )
        head = pb.MessageMetadata(
            producer_name=made.producer_name,
            sequence_id=0,
            publish_time=1,
            schema_version=made.schema_version,
        )
        raw.send(1, head, auto.encode(schema.encode(schema._record_cls(a=5))))
        with pytest.raises(SchemaMismatch):
            auto.encode(b"\xff\xff\xff")
    assert consumer.receive(RECEIVE_MS).value().a == 5


def test_a_key_value_schema_of_ours(broker: BrokerProcess, topic: str) -> None:
    record = version(ours, "a")
    schema = ours.KeyValueSchema(ours.StringSchema(), ours.AvroSchema(record))
    with RawClient(broker.port_of(topic)) as raw:
        made = raw.request(
            pb.CommandProducer(
                topic=topic, producer_id=1, request_id=0, schema=wire_schema(schema.schema_info())
            )
        )
        assert made.schema_version == bytes(8)
        found = raw.request(pb.CommandGetSchema(request_id=0, topic=topic)).schema
        properties = {item.key: item.value for item in found.properties}
        info = SchemaInfo(found.name, SchemaType(found.type), found.schema_data, properties)
        generic = ours.schema_of(info)
        pair = generic.decode(schema.encode(ours.KeyValue("k", record(a=5))))
        assert pair == ours.KeyValue("k", {"a": 5})
        wrong = ours.KeyValueSchema(ours.StringSchema(), ours.StringSchema()).schema_info()
        with pytest.raises(Refused, match="value: the topic has a AVRO"):
            raw.request(
                pb.CommandProducer(
                    topic=topic, producer_id=2, request_id=0, schema=wire_schema(wrong)
                )
            )


@pytest.mark.parametrize(
    "schema",
    [
        pb.Schema(name="s", schema_data=b"{", type=pb.Schema.Avro),
        pb.Schema(name="s", schema_data=b"[" * 100_000, type=pb.Schema.Json),
        pb.Schema(name="s", schema_data=b"\xff" * 100, type=pb.Schema.ProtobufNative),
        pb.Schema(name="s", schema_data=b"\x7f\xff\xff\xff", type=pb.Schema.KeyValue_),
        pb.Schema(name="s", schema_data=b"x" * (600 << 10), type=pb.Schema.External),
        pb.Schema(name="s", schema_data=b"", type=pb.Schema.AutoConsume),
    ],
)
def test_a_schema_that_cannot_be_read_costs_the_stranger_an_error(
    broker: BrokerProcess, topic: str, schema: pb.Schema
) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, request_id=0))
        for command in (
            pb.CommandProducer(topic=topic, producer_id=2, request_id=0, schema=schema),
            pb.CommandGetOrCreateSchema(topic=topic, request_id=0, schema=schema),
        ):
            with pytest.raises(Refused) as refused:
                raw.request(command)
            assert refused.value.code == pb.IncompatibleSchema
        raw.send(1, pb.MessageMetadata(producer_name="x", sequence_id=0, publish_time=1), b"x")
    assert broker.rest("GET", f"{path(topic)}/schema")[0] == 404
