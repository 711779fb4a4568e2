"""GET_SCHEMA and GET_OR_CREATE_SCHEMA, and the schemas that PRODUCER and SUBSCRIBE bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.workers import calls
from milepost.errors import IncompatibleSchema, SchemaNotFound
from milepost.positions.names import TopicName
from milepost.schemas.types import SchemaInfo, SchemaType, version_bytes, version_number
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session

Opening = pb.CommandProducer | pb.CommandSubscribe | pb.CommandGetOrCreateSchema


@handles(Kind.GET_SCHEMA, needs=Operation.LOOK_UP)
async def get_schema(session: Session, command: pb.CommandGetSchema) -> None:
    """The topic's latest schema, or that of a `schema_version`. A topic without one, and a version that
    is unknown or deleted, is `TopicNotFound`, which clients take for "no schema"; an empty version is
    `IncompatibleSchema`. Partitions share the schema of their topic."""
    name = TopicName.parse(command.topic)
    wanted: int | None = None
    if command.HasField("schema_version"):
        if not command.schema_version:
            raise IncompatibleSchema(f"an empty schema version of {name}")
        wanted = version_number(command.schema_version)
        if wanted is None:
            raise SchemaNotFound(f"{name} has no schema, or no such version of it")
    answer, number = await calls.schema(session.broker, name, wanted)
    session.write((replies.schema(command.request_id, answer, version_bytes(number)),))


@handles(Kind.GET_OR_CREATE_SCHEMA, needs=Operation.PRODUCE)
async def get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> None:
    """The version of a schema on a topic that exists, registered by the rules for producers if it is
    new. An empty version answers a request without one."""
    topic = await session.broker.topic(TopicName.parse(command.topic), create=False)
    version = await session.broker.schemas.admit_producer(topic.name, schema_of(command))
    session.write((replies.schema_version(command.request_id, version or b""),))


def schema_of(command: Opening) -> SchemaInfo | None:
    """The schema that a command carries. Bytes have one too, of type NONE, if a client says so: Go's
    does, and asks for it when it reads."""
    if not command.HasField("schema"):
        return None
    said = command.schema
    kind = SchemaType(said.type)
    properties = {item.key: item.value for item in said.properties}
    return SchemaInfo(said.name, kind, said.schema_data, properties)


def reads_any(command: pb.CommandSubscribe) -> bool:
    return command.HasField("schema") and command.schema.type == pb.Schema.AutoConsume
