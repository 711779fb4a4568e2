"""GET_SCHEMA and GET_OR_CREATE_SCHEMA: no topic has a schema yet, and clients are told so."""

from __future__ import annotations

import pytest
from stage.stage import TOPIC, Stage
from stage.talk import error_of, request

from milepost.wire import pulsar_pb2 as pb

SCHEMA = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)


@pytest.mark.parametrize(
    ("command", "reply_type"),
    [
        (pb.CommandGetSchema(request_id=0, topic=TOPIC), pb.CommandGetSchemaResponse),
        (
            pb.CommandGetOrCreateSchema(request_id=0, topic=TOPIC, schema=SCHEMA),
            pb.CommandGetOrCreateSchemaResponse,
        ),
    ],
)
def test_there_is_none(stage: Stage, command: object, reply_type: type) -> None:
    reply = request(stage, stage.client(), command)
    assert isinstance(reply, reply_type)
    assert error_of(reply) == "TopicNotFound"
