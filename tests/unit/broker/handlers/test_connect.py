"""CONNECT and AUTH_RESPONSE."""

from __future__ import annotations

from collections.abc import Callable

from stage.stage import Stage
from stage.talk import produce

from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb


def test_connected_says_what_may_be_sent(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(max_message_size=123_456)
    client = stage.loop.do(lambda: Loopback(stage.broker, protocol_version=13))
    stage.turn()
    (connected,) = client.take()
    assert isinstance(connected, pb.CommandConnected)
    assert connected.max_message_size == 123_456
    assert connected.protocol_version == 13
    assert connected.server_version.startswith("Milepost")
    assert connected.feature_flags.supports_get_partitioned_metadata_without_auto_creation


def test_a_second_connect_closes_the_connection(stage: Stage) -> None:
    client = stage.client()
    client.say(pb.CommandConnect(client_version="again"))
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused == {"second_connect": 1}


def test_an_answer_to_a_challenge_that_never_was_changes_nothing(stage: Stage) -> None:
    client = stage.client()
    client.say(pb.CommandAuthResponse(client_version="x"))
    stage.turn()
    assert client.take() == []
    assert produce(stage, client).producer_name == "p"
