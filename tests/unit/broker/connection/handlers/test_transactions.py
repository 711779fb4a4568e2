"""Commands of transactions that make no sense: refused in words, on a connection that stays."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from stage.stage import TOPIC, Stage
from stage.talk import error_of, request

from milepost.wire import pulsar_pb2 as pb


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (pb.CommandTcClientConnectRequest(tc_id=9), "TransactionCoordinatorNotFound"),
        (pb.CommandTcClientConnectRequest(tc_id=2**64 - 1), "TransactionCoordinatorNotFound"),
        (pb.CommandNewTxn(), "NotAllowedError"),
        (pb.CommandNewTxn(tc_id=5, txn_ttl_millis=5), "TransactionCoordinatorNotFound"),
        (pb.CommandNewTxn(txn_ttl_millis=2**64 - 1), "NotAllowedError"),
        (pb.CommandAddPartitionToTxn(), "TransactionNotFound"),
        (pb.CommandAddPartitionToTxn(partitions=["no://topic"]), "InvalidTopicName"),
        (pb.CommandAddSubscriptionToTxn(txnid_least_bits=2**64 - 1), "TransactionNotFound"),
        (pb.CommandEndTxn(), "NotAllowedError"),
        (pb.CommandEndTxn(txn_action=pb.ABORT), "TransactionNotFound"),
        (
            pb.CommandEndTxn(txn_action=pb.ABORT, txnid_most_bits=2**63),
            "TransactionCoordinatorNotFound",
        ),
    ],
)
def test_a_client_is_told_and_keeps_its_connection(
    stage: Stage, command: Message, error: str
) -> None:
    client = stage.client()
    assert error_of(request(stage, client, command)) == error
    after = request(stage, client, pb.CommandLookupTopic(topic=TOPIC, request_id=8))
    assert isinstance(after, pb.CommandLookupTopicResponse)
