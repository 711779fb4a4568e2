"""CLOSE_PRODUCER and CLOSE_CONSUMER: behind what was sent before, and never an error for who is gone."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import message
from stage.heard import answers, got
from stage.stage import Stage
from stage.talk import (
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    produce,
    producer_command,
    request,
    subscribe,
    subscribe_command,
    wire_id,
)

from milepost.wire import pulsar_pb2 as pb


def close_producer(producer_id: int = 0) -> pb.CommandCloseProducer:
    return pb.CommandCloseProducer(producer_id=producer_id, request_id=0)


def close_consumer(consumer_id: int = 0) -> pb.CommandCloseConsumer:
    return pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=0)


@pytest.mark.parametrize("command", [close_producer(9), close_consumer(9)])
def test_who_is_not_there_was_closed_already(stage: Stage, command: Any) -> None:
    assert isinstance(request(stage, stage.client(), command), pb.CommandSuccess)


def test_a_producers_receipts_come_before_its_end(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    client.say(message(0))
    request_id = ask(client, close_producer())
    stage.turn()
    assert client.take() == []
    stage.engine.holds_journal = False
    stage.turn()
    receipt, success = client.take()
    assert receipt.sequence_id == 0
    assert success == pb.CommandSuccess(request_id=request_id)
    assert stage.topic().producers == {}


def test_a_producer_is_closed_also_when_its_sends_were_refused(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    client.say(message(0))
    request_id = ask(client, close_producer())
    stage.files.faults.fail("sync")
    stage.engine.holds_journal = False
    stage.turn()
    assert isinstance(answer(client, request_id), pb.CommandSuccess)
    assert answers(client) == ["0 PersistenceError"]
    assert stage.topic().producers == {}


def test_a_consumers_messages_are_free_at_once_and_its_acks_durable(stage: Stage) -> None:
    client, other = stage.client(), stage.client()
    produce(stage, client)
    subscribe(stage, client, sub_type=SHARED, permits=10)
    client.say(*[message(number) for number in range(3)])
    stage.turn()
    subscribe(stage, other, sub_type=SHARED, permits=10)
    client.take()
    stage.engine.holds_journal = True
    client.say(ack_command(wire_id(1, 1)))
    request_id = ask(client, close_consumer())
    stage.turn()
    assert got(other) == ["0", "2"]
    assert answer(client, request_id) is None
    stage.engine.holds_journal = False
    stage.turn()
    assert isinstance(answer(client, request_id), pb.CommandSuccess)
    assert stage.restarted().topic().subscriptions["s"].cursor.counts() == (2, 0, 0, 1)


def test_a_consumer_whose_acks_are_refused_is_told_so(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=10)
    client.say(message(0))
    stage.turn()
    stage.files.faults.fail("sync")
    client.say(ack_command(wire_id(1, 0)))
    reply = request(stage, client, close_consumer())
    assert error_of(reply) == "PersistenceError"
    assert client.session.consumers == {}


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_closed_while_it_is_being_opened_it_never_comes(stage: Stage, kind: str) -> None:
    client = stage.client()
    stage.engine.holds_catalog = True
    opening = ask(client, producer_command() if kind == "producer" else subscribe_command())
    closing = ask(client, close_producer() if kind == "producer" else close_consumer())
    stage.turn()
    assert isinstance(answer(client, closing), pb.CommandSuccess)
    stage.engine.holds_catalog = False
    stage.turn()
    topic = stage.topic()
    assert answer(client, opening) is None
    assert topic.producers == {}
    assert client.session.producers == client.session.consumers == client.session.opening == {}
    assert all(not one.consumers for one in topic.subscriptions.values())


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_opened_again_before_the_first_was_open_the_second_counts(stage: Stage, kind: str) -> None:
    """What the official client does when an answer takes long."""
    client = stage.client()
    stage.engine.holds_catalog = True
    command, close = (
        (producer_command, close_producer)
        if kind == "producer"
        else (lambda: subscribe_command(sub_type=SHARED), close_consumer)
    )
    first = ask(client, command())
    ask(client, close())
    second = ask(client, command())
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert answer(client, first) is None
    assert error_of(answer(client, second)) == ""
    topic = stage.topic()
    held = topic.producers if kind == "producer" else topic.subscriptions["s"].consumers
    assert len(held) == 1
    client.hang_up()
    assert topic.producers == {}
    assert all(not one.consumers for one in topic.subscriptions.values())
