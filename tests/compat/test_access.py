"""Producers that want a topic for themselves: the four access modes, waiting, and fencing."""

from __future__ import annotations

import queue
import threading
from typing import Any

import _pulsar
import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import RECEIVE_MS, drain, payloads
from pulsar import ProducerAccessMode

Shared = ProducerAccessMode.Shared
Exclusive = ProducerAccessMode.Exclusive
WaitForExclusive = ProducerAccessMode.WaitForExclusive
ExclusiveWithFencing = ProducerAccessMode.ExclusiveWithFencing


def test_many_may_share(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producers = [client.create_producer(topic) for _ in range(5)]
    names = {producer.producer_name() for producer in producers}
    assert len(names) == 5
    for producer in producers:
        producer.send(producer.producer_name().encode())
    assert {consumer.receive(RECEIVE_MS).producer_name() for _ in range(5)} == names


def test_nobody_joins_an_exclusive_producer(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, access_mode=Exclusive)
    first.send(b"0")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    first.send(b"1")
    first.close()
    client.create_producer(topic, access_mode=Exclusive).send(b"2")


def test_nobody_is_exclusive_among_others(client: pulsar.Client, topic: str) -> None:
    shared = client.create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=Exclusive)
    shared.send(b"0")


class Waiting(threading.Thread):
    """Asks for a producer and waits until it is given, or refused."""

    def __init__(self, client: pulsar.Client, topic: str, name: str) -> None:
        super().__init__(daemon=True)
        self._arguments = (client, topic, name)
        self.outcome: queue.Queue[Any] = queue.Queue()
        self.start()

    def run(self) -> None:
        client, topic, name = self._arguments
        try:
            self.outcome.put(
                client.create_producer(topic, producer_name=name, access_mode=WaitForExclusive)
            )
        except pulsar.PulsarException as error:
            self.outcome.put(error)

    def is_waiting(self) -> bool:
        try:
            self.outcome.put(self.outcome.get(timeout=0.3))
        except queue.Empty:
            return True
        return False


def test_waiting_for_a_turn(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic)
    one = Waiting(client, topic, "one")
    assert one.is_waiting()
    other = Waiting(client, topic, "other")
    assert other.is_waiting()
    # Somebody is in line: nobody new gets in before.
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    first.send(b"0")
    first.close()
    producer = one.outcome.get(timeout=RECEIVE_MS / 1000)
    producer.send(b"1")
    assert other.is_waiting()
    producer.close()
    other.outcome.get(timeout=RECEIVE_MS / 1000).send(b"2")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(3)] == [b"0", b"1", b"2"]


def test_whoever_fences_has_the_topic(
    client: pulsar.Client, connect: Any, broker: Any, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    first = client.create_producer(topic, access_mode=Exclusive)
    first.send(b"0")
    other = connect(broker)
    second = other.create_producer(topic, access_mode=ExclusiveWithFencing)
    second.send(b"1")
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        first.send(b"from the grave")
    second.send(b"2")
    third = client.create_producer(topic, access_mode=ExclusiveWithFencing)
    third.send(b"3")
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        second.send(b"from the grave")
    assert payloads(drain(consumer)) == [b"0", b"1", b"2", b"3"]


def test_fencing_puts_out_those_who_share_or_wait(client: pulsar.Client, topic: str) -> None:
    shared = client.create_producer(topic)
    waiting = Waiting(client, topic, "waiting")
    assert waiting.is_waiting()
    alone = client.create_producer(topic, access_mode=ExclusiveWithFencing)
    assert isinstance(waiting.outcome.get(timeout=RECEIVE_MS / 1000), pulsar.ProducerFenced)
    alone.send(b"0")
    result: queue.Queue[Any] = queue.Queue()
    shared.send_async(b"1", lambda outcome, _: result.put(outcome))
    # One that shared is not fenced for ever: its client waits for the topic to be free again.
    alone.close()
    assert result.get(timeout=60) == _pulsar.Result.Ok


def test_an_exclusive_producer_goes_on_after_a_crash(
    own_broker: Any, connect: Any, topic: str
) -> None:
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, access_mode=Exclusive)
    producer.send(b"0")
    broker.restart()
    producer.send(b"1")
    with pytest.raises(pulsar.ProducerFenced):
        connect(broker).create_producer(topic, access_mode=Exclusive)
    assert payloads(drain(consumer, 1000)) == [b"0", b"1"]


def test_who_was_fenced_stays_out_after_a_crash(own_broker: Any, connect: Any, topic: str) -> None:
    """The epoch is on disk before anybody is told: a restart does not let the old one in again."""
    broker: BrokerProcess = own_broker()
    old_client, new_client = connect(broker), connect(broker)
    old = old_client.create_producer(topic, access_mode=Exclusive)
    old.send(b"0")
    new = new_client.create_producer(topic, access_mode=ExclusiveWithFencing)
    new.send(b"1")
    broker.restart()
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        old.send(b"from the grave")
    new.send(b"2")
    reader = new_client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(3)] == [b"0", b"1", b"2"]
    assert not reader.has_message_available()
