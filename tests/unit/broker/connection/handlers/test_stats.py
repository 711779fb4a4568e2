"""CONSUMER_STATS."""

from __future__ import annotations

from collections.abc import Callable

from stage.frames import batch, message
from stage.stage import Stage
from stage.talk import SHARED, ack_command, error_of, produce, request, subscribe, wire_id

from milepost.wire import pulsar_pb2 as pb


def stats(stage: Stage, client: object, consumer_id: int = 0) -> pb.CommandConsumerStatsResponse:
    reply = request(stage, client, pb.CommandConsumerStats(request_id=0, consumer_id=consumer_id))
    assert isinstance(reply, pb.CommandConsumerStatsResponse)
    return reply


def test_it_counts_messages(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=5)
    client = stage.client(address="there:5")
    produce(stage, client)
    subscribe(stage, client, sub_type=SHARED, permits=6, consumer_name="me")
    client.say(message(0), batch(1, 3), message(2), message(3))
    stage.turn()
    client.say(ack_command(wire_id(1, 1, ack_set=[0b101])))
    stage.turn()
    stage.clock.advance(2)
    found = stats(stage, client)
    assert (found.consumerName, found.type, found.address) == ("me", "Shared", "there:5")
    assert (found.availablePermits, found.unackedMessages, found.msgBacklog) == (1, 4, 5)
    assert found.blockedConsumerOnUnackedMsgs
    assert (found.msgRateOut, found.messageAckRate) == (2.5, 0.5)
    assert found.connectedSince == "2023-11-14T22:13:20.000+00:00"


def test_permits_below_zero_are_none(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=1)
    client.say(batch(0, 10))
    stage.turn()
    assert client.session.consumers[0].permits == -9
    assert stats(stage, client).availablePermits == 0


def test_a_stranger_is_refused_in_the_reply_of_its_kind(stage: Stage) -> None:
    assert error_of(stats(stage, stage.client())) == "MetadataError"
