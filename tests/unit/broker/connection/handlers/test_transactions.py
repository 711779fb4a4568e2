"""Transactions: refused in words, on a connection that stays."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from stage.stage import TOPIC, Stage
from stage.talk import error_of, request, text_of

from milepost.wire import pulsar_pb2 as pb


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandTcClientConnectRequest(request_id=7, tc_id=0),
        pb.CommandNewTxn(request_id=7),
        pb.CommandAddPartitionToTxn(request_id=7),
        pb.CommandAddSubscriptionToTxn(request_id=7),
        pb.CommandEndTxn(request_id=7),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_client_is_told_and_keeps_its_connection(stage: Stage, command: Message) -> None:
    client = stage.client()
    reply = request(stage, client, command)
    assert error_of(reply) == "NotAllowedError"
    assert text_of(reply) == "transactions are not supported"
    after = request(stage, client, pb.CommandLookupTopic(topic=TOPIC, request_id=8))
    assert isinstance(after, pb.CommandLookupTopicResponse)
