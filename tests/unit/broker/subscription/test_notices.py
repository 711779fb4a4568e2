"""Notices: only what the other side knows, and only while it is there."""

from __future__ import annotations

import pytest
from stage.stage import Stage
from stage.talk import FAILOVER, subscribe

from milepost.broker.subscription import notices
from milepost.wire import pulsar_pb2 as pb


def test_whoever_knows_the_command_is_told_whether_it_is_active(stage: Stage) -> None:
    for version, heard in ((21, ["CommandActiveConsumerChange"]), (11, [])):
        client = stage.client(protocol_version=version)
        subscribe(stage, client, f"s{version}", FAILOVER)
        assert [type(one).__name__ for one in client.take()] == heard


def test_a_consumer_that_is_gone_is_not_told(stage: Stage) -> None:
    client = stage.client()
    subscribe(stage, client, sub_type=FAILOVER)
    client.take()
    consumer = client.session.consumers[0]
    consumer.subscription.tell_active(consumer, True)
    stage.broker.remove_consumer(consumer)
    stage.turn()
    assert client.take() == []


def test_only_who_follows_is_told_of_a_seek(stage: Stage) -> None:
    client = stage.client()
    subscribe(stage, client, consumer_epoch=0)
    consumer = client.session.consumers[0]
    with pytest.raises(AssertionError):
        notices.tell_sought(consumer)
    consumer.metadata["milepost.reset"] = "in-place"
    notices.tell_sought(consumer)
    stage.turn()
    (told,) = client.take()
    assert isinstance(told, pb.CommandSeek)
