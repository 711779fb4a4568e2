"""FLOW: whose permits count."""

from __future__ import annotations

from stage.stage import Stage
from stage.talk import flow, opened

from milepost.wire import pulsar_pb2 as pb


def test_a_flow_of_nothing_is_nothing(stage: Stage) -> None:
    client = opened(stage)
    permits = client.session.consumers[0].permits
    flow(stage, client, 0)
    assert client.session.consumers[0].permits == permits
    assert not client.is_closing


def test_a_flow_for_a_stranger_is_dropped(stage: Stage) -> None:
    client = opened(stage)
    client.say(pb.CommandFlow(consumer_id=9, messagePermits=1))
    stage.turn()
    assert client.take() == []
    assert not client.is_closing
