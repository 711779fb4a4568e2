"""Failover: one consumer has everything in order, and hands over without loss or repetition."""

from __future__ import annotations

import time
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, subscribe
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, send_all, send_batch, silent
from pulsar import ConsumerType

from milepost.wire import pulsar_pb2 as pb


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def join(client: pulsar.Client, topic: str, name: str, **options: Any) -> pulsar.Consumer:
    return client.subscribe(
        topic, "s", consumer_type=ConsumerType.Failover, consumer_name=name, **options
    )


def test_only_one_is_active(client: pulsar.Client, topic: str) -> None:
    consumers = [join(client, topic, name) for name in "abc"]
    send_all(client.create_producer(topic), numbered(0, 30))
    found = [payloads(drain(consumer, 400)) for consumer in consumers]
    assert sorted(found) == [[], [], numbered(0, 30)]


def test_the_next_one_goes_on_where_the_acks_end(client: pulsar.Client, topic: str) -> None:
    consumers = {name: join(client, topic, name) for name in "ab"}
    producer = client.create_producer(topic)
    send_all(producer, numbered(0, 20))
    active, first = find_active(consumers)
    messages = [first, *receive(consumers[active], 19)]
    assert payloads(messages) == numbered(0, 20)
    for message in messages[:10]:
        consumers[active].acknowledge(message)
    consumers[active].acknowledge(messages[15])
    consumers.pop(active).close()
    (successor,) = consumers.values()
    assert payloads(drain(successor)) == [*numbered(10, 15), *numbered(16, 20)]
    send_all(producer, numbered(20, 25))
    assert payloads(receive(successor, 5)) == numbered(20, 25)


def find_active(consumers: dict[str, pulsar.Consumer]) -> tuple[str, pulsar.Message]:
    """Who gets the messages, and the first of them."""
    deadline = time.monotonic() + RECEIVE_MS / 1000
    while time.monotonic() < deadline:
        for name, consumer in consumers.items():
            try:
                return name, consumer.receive(20)
            except pulsar.Timeout:
                continue
    raise AssertionError(f"none of {list(consumers)} is active")


@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
def test_hand_over_after_hand_over(client: pulsar.Client, topic: str, is_batched: bool) -> None:
    """The active consumer receives ahead, acks a little and leaves, again and again: what is acked
    altogether is each message once, in order."""
    consumers = {
        name: join(client, topic, name, batch_index_ack_enabled=True) for name in "abcdefghijkl"
    }
    if is_batched:
        producer = batching(client, topic)
        for first in range(0, 120, 8):
            send_batch(producer, numbered(first, first + 8))
    else:
        send_all(client.create_producer(topic), numbered(0, 120))
    acked: list[bytes] = []
    while consumers:
        active, first = find_active(consumers)
        consumer = consumers.pop(active)
        for message in (first, *receive(consumer, 9)):
            consumer.acknowledge(message)
            acked.append(message.data())
        consumer.close()
    assert acked == numbered(0, 120)
    assert silent(join(client, topic, "last"))


@pytest.mark.parametrize("is_crash", [False, True], ids=["connection", "broker"])
def test_the_active_one_vanishes(own_broker: Any, connect: Any, topic: str, is_crash: bool) -> None:
    """Without a word, alone or with the broker: what it acked stays acked, the rest is handed over."""
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    producer = client.create_producer(topic)
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", pb.CommandSubscribe.Failover, consumer_name="a", permits=1000)
        assert raw.expect(pb.CommandActiveConsumerChange).is_active
        send_all(producer, numbered(0, 10))
        deliveries = raw.deliveries(10)
        acks = [pb.MessageIdData(ledgerId=d.ledger_id, entryId=d.entry_id) for d in deliveries]
        raw.request(
            pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Cumulative, message_id=[acks[3]])
        )
        raw.request(
            pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[acks[7]])
        )
        standby = join(client, topic, "b")
        if is_crash:
            broker.kill()
    if is_crash:
        broker.start()
    handed_over = [b"4", b"5", b"6", b"8", b"9"]
    assert payloads(receive(standby, 5)) == handed_over
    send_all(producer, numbered(10, 15))
    # The client may reconnect once more, and then what it has not acked comes again.
    new: list[bytes] = []
    while len(new) < 5:
        payload = standby.receive(RECEIVE_MS).data()
        if payload not in handed_over and payload not in new:
            new.append(payload)
    assert new == numbered(10, 15)


def test_everyone_is_told_who_is_active(broker: BrokerProcess, topic: str) -> None:
    """By name on a topic without partitions, and told on every change."""
    raws = [RawClient(broker.port_of(topic)) for _ in range(3)]
    try:
        states: list[bool | None] = [None, None, None]
        for number, raw in enumerate(raws):
            subscribe(raw, topic, "s", pb.CommandSubscribe.Failover, consumer_name=f"c{number}")
            for position, other in enumerate(raws[: number + 1]):
                for change in other.heard_of(pb.CommandActiveConsumerChange):
                    states[position] = change.is_active
            assert states[: number + 1].count(True) == 1, states
    finally:
        for raw in raws:
            raw.close()


def test_partitions_are_shared_out(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 4)
    consumers = [join(client, topic, name) for name in "ab"]
    producer = client.create_producer(topic)
    for number in range(40):
        producer.send(b"%d" % number)
    shares = [drain(consumer, 500) for consumer in consumers]
    for share in shares:
        assert len({message.message_id().partition() for message in share}) == 2
    found = [payload for share in shares for payload in payloads(share)]
    assert sorted(found, key=int) == numbered(0, 40)
