"""Asks the broker for the schemas of topics.

The reader's schema is asked for once, when a query is planned, and goes with its tasks. A writer's is asked
for when a task meets a message of its version; most tasks meet none but the reader's.

    found = reader_schema(options)                  # of all topics, which must agree
    writers = Writers(connection, topic, found)
    writers.schema(message_version)                 # None: the broker does not know it
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.client.connection.endpoint import Endpoint
from milepost.client.schemas import schema_info
from milepost.errors import InvalidOption, NotFound
from milepost.positions.names import TopicName
from milepost.schemas.types import SchemaInfo, SchemaType, version_bytes
from milepost.spark.options import ReadOptions
from milepost.spark.reading.link import Link
from milepost.spark.reading.survey import Survey
from milepost.spark.retries import patiently
from milepost.wire import pulsar_pb2 as pb

# What `decode` demands; `schema` takes whatever there is.
_DEMANDED = {
    "avro": SchemaType.AVRO,
    "json": SchemaType.JSON,
    "protobuf": SchemaType.PROTOBUF_NATIVE,
}
NO_SCHEMA = SchemaInfo("", SchemaType.NONE, b"")


class TopicSchema(NamedTuple):
    info: SchemaInfo
    version: bytes
    """As messages carry it; empty where there is no schema."""


def reader_schema(options: ReadOptions) -> TopicSchema:
    """The schema that a query reads by: the newest, or the pinned version."""
    survey = Survey(options)
    try:
        names = [TopicName.parse(topic).base.text for topic in survey.topics()]
    finally:
        survey.close()
    pinned = options.schema_version
    version = None if pinned is None else version_bytes(pinned)
    first, *others = dict.fromkeys(names)
    found = schema_of(options.connection, first, version)
    if found is None and pinned is not None:
        raise InvalidOption(f"option schemaVersion is {pinned}; {first} has no such version")
    demanded = _DEMANDED.get(options.decode)
    for topic in others:
        other = schema_of(options.connection, topic, version)
        if (other and other.info) != (found and found.info):
            raise InvalidOption(
                f"{first} and {topic} have different schemas: read them one by one, or with decode=raw"
            )
    if demanded is not None and (found is None or found.info.type is not demanded):
        has = "no schema" if found is None else f"a schema of type {found.info.type.name}"
        hint = " or give option valueSchema" if options.decode == "json" else ""
        raise InvalidOption(
            f"option decode is {options.decode}; {first} has {has}: use decode=schema or raw{hint}"
        )
    return found or TopicSchema(NO_SCHEMA, b"")


def schema_of(connection: Endpoint, topic: str, version: bytes | None) -> TopicSchema | None:
    """The newest schema of a topic, or that of a version; None if there is none."""

    def attempt() -> TopicSchema | None:
        with Link.open(connection) as link:
            command = pb.CommandGetSchema(topic=topic)
            if version is not None:
                command.schema_version = version
            try:
                answer = link.ask(command)
            except NotFound:
                return None
        return TopicSchema(schema_info(answer.schema), bytes(answer.schema_version))

    return patiently(connection.timeout_s, attempt)


class Writers:
    """The schemas that wrote the messages of one partition, each asked for once."""

    def __init__(self, connection: Endpoint, topic: str, reader: TopicSchema) -> None:
        self._connection = connection
        self._topic = TopicName.parse(topic).base.text
        # Messages without a version were written with no schema, or with the first: by the reader's then.
        self._known: dict[bytes, SchemaInfo | None] = {
            reader.version: reader.info,
            b"": reader.info,
        }

    def schema(self, version: bytes) -> SchemaInfo | None:
        if version not in self._known:
            found = schema_of(self._connection, self._topic, version)
            self._known[version] = None if found is None else found.info
        return self._known[version]
