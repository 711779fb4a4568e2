"""SEND: for whom it is heard, for whom it is dropped, and when it ends the connection."""

from __future__ import annotations

from stage.frames import message
from stage.heard import answers
from stage.stage import Stage
from stage.talk import produce, request

from milepost.wire import pulsar_pb2 as pb


def test_a_send_for_a_producer_that_never_was_closes_the_connection(stage: Stage) -> None:
    client = stage.client()
    client.say(message(0))
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused == {"unknown_producer": 1}


def test_sends_for_a_producer_that_was_closed_are_dropped(stage: Stage) -> None:
    """They were on their way: clients share connections, and the others would pay."""
    client = stage.client()
    produce(stage, client)
    request(stage, client, pb.CommandCloseProducer(producer_id=0, request_id=0))
    client.say(message(0))
    stage.turn()
    assert not client.is_closing
    assert answers(client) == []
    assert stage.topic().log.end_index == 0


def test_a_producer_opened_again_under_its_id_is_heard_again(stage: Stage) -> None:
    client = stage.client()
    for sequence_id in range(2):
        produce(stage, client)
        client.say(message(sequence_id))
        stage.turn()
        request(stage, client, pb.CommandCloseProducer(producer_id=0, request_id=0))
    assert stage.topic().log.end_index == 2
