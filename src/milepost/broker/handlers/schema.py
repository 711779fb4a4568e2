"""GET_SCHEMA and GET_OR_CREATE_SCHEMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.handlers.registry import Work, handles
from milepost.errors import TopicNotFound
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.session import Session


@handles(Kind.GET_SCHEMA, needs=Operation.LOOK_UP)
def get_schema(session: Session, command: pb.CommandGetSchema) -> Work:
    """No topic has a schema yet: every question is answered `TopicNotFound`, which clients take for
    "no schema"."""
    raise TopicNotFound(f"topic {command.topic} has no schema")


@handles(Kind.GET_OR_CREATE_SCHEMA, needs=Operation.PRODUCE)
def get_or_create_schema(session: Session, command: pb.CommandGetOrCreateSchema) -> Work:
    """As GET_SCHEMA: schemas are not kept yet."""
    raise TopicNotFound(f"topic {command.topic} has no schema")
