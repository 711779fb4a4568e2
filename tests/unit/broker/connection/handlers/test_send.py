"""SEND: for whom it is heard, for whom it is dropped, and when it ends the connection."""

from __future__ import annotations

import pytest
from stage.frames import message, metadata
from stage.heard import answers
from stage.stage import Stage
from stage.talk import produce, request
from stage.transactions import add_topics, new, within

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.replies import reply
from milepost.wire.scanners.encode import send_frame


def test_a_send_for_a_producer_that_never_was_closes_the_connection(stage: Stage) -> None:
    client = stage.client()
    client.say(message(0))
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused == {"unknown_producer": 1}


@pytest.mark.parametrize("reads", [1, 2])
def test_nothing_behind_such_a_send_is_obeyed(stage: Stage, reads: int) -> None:
    """The message would be missing in the transaction that is committed behind it."""
    client = stage.client()
    produce(stage, client)
    txn = new(stage, client)
    add_topics(stage, client, txn)
    client.say(message(0, **within(txn)))
    stage.turn()
    meta = metadata(0, **within(txn)).SerializeToString()
    lost = b"".join(send_frame(1, 0, meta, b"lost", txn_id=txn))  # of another producer
    commit = pb.CommandEndTxn(
        request_id=9, txnid_least_bits=txn.least, txnid_most_bits=txn.most, txn_action=pb.COMMIT
    )
    behind = [reply(commit), reply(pb.CommandNewTxn(request_id=10, txn_ttl_millis=60_000))]
    for part in [b"".join([lost, *behind])] if reads == 1 else [lost, b"".join(behind)]:
        client.say(part)
    stage.turn()
    assert client.is_lost
    coordinator = stage.broker.transactions.coordinator
    assert coordinator.outcome_of(txn) is None
    assert list(coordinator.open) == [txn.least]


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
