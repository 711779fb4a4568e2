"""Negative acks, ack timeouts, and what a consumer may hold without acking."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, stats, subscribe
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, send_all, send_batch, silent
from pulsar import ConsumerType

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

COUNTED = [ConsumerType.Shared, ConsumerType.KeyShared]
NOT_COUNTED = [ConsumerType.Exclusive, ConsumerType.Failover]


@pytest.mark.parametrize("consumer_type", COUNTED, ids=lambda t: t.name)
def test_a_negative_ack_brings_the_message_back_and_counts(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=consumer_type, negative_ack_redelivery_delay_ms=50
    )
    send_all(client.create_producer(topic), [b"%d" % number for number in range(5)])
    messages = receive(consumer, 5)
    for message in messages:
        if message.data() != b"3":
            consumer.acknowledge(message)
    bad = messages[3]
    for count in range(1, 4):
        consumer.negative_acknowledge(bad)
        bad = consumer.receive(RECEIVE_MS)
        assert (bad.data(), bad.redelivery_count()) == (b"3", count)
    consumer.acknowledge(bad)
    consumer.close()
    assert silent(client.subscribe(topic, "s", consumer_type=consumer_type))


@pytest.mark.parametrize("consumer_type", NOT_COUNTED, ids=lambda t: t.name)
def test_a_negative_ack_on_an_ordered_type_brings_back_all_that_is_not_acked(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    # The client keeps acks for 100 ms; those below are to arrive first.
    consumer = client.subscribe(
        topic, "s", consumer_type=consumer_type, negative_ack_redelivery_delay_ms=1000
    )
    send_all(client.create_producer(topic), [b"%d" % number for number in range(6)])
    messages = receive(consumer, 6)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[4])
    consumer.negative_acknowledge(messages[2])
    again = receive(consumer, 4)
    assert payloads(again) == [b"1", b"2", b"3", b"5"]
    assert {message.redelivery_count() for message in again} == {0}
    assert silent(consumer)


@pytest.mark.parametrize("consumer_type", [*COUNTED, *NOT_COUNTED], ids=lambda t: t.name)
def test_redelivering_everything(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    sent = [b"%d" % number for number in range(10)]
    send_all(client.create_producer(topic), sent)
    receive(consumer, 10)
    consumer.redeliver_unacknowledged_messages()
    again = receive(consumer, 10)
    assert sorted(payloads(again)) == sent
    expected = {1} if consumer_type in COUNTED else {0}
    assert {message.redelivery_count() for message in again} == expected


def test_a_negative_ack_leaves_what_was_acked_of_its_batch(
    client: pulsar.Client, topic: str
) -> None:
    """And an ack of one message leaves the redelivery counts of its siblings (trap 9)."""
    consumer = client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
        batch_index_ack_enabled=True,
    )
    send_batch(batching(client, topic), [b"%d" % number for number in range(6)])
    messages = receive(consumer, 6)
    left = [b"%d" % number for number in range(6)]
    for count in range(1, 4):
        consumer.acknowledge(messages.pop(0))
        left.pop(0)
        consumer.negative_acknowledge(messages[0])
        messages = receive(consumer, len(left))
        assert payloads(messages) == left
        assert {message.redelivery_count() for message in messages} == {count}


@pytest.mark.slow
def test_the_ack_timeout(client: pulsar.Client, topic: str) -> None:
    """Ten seconds is the least that the client takes."""
    consumer = client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, unacked_messages_timeout_ms=10_000
    )
    send_all(client.create_producer(topic), [b"0", b"1", b"2"])
    for message in receive(consumer, 3)[:2]:
        consumer.acknowledge(message)
    again = consumer.receive(25_000)
    assert (again.data(), again.redelivery_count()) == (b"2", 1)


# -- limits ----------------------------------------------------------------------------------------


def test_a_consumer_that_holds_too_many_gets_no_more(
    own_broker: Any, connect: Any, topic: str
) -> None:
    broker: BrokerProcess = own_broker(max_unacked_messages_per_consumer=10)
    client = connect(broker)
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    ordered = client.subscribe(topic, "ordered")
    send_all(client.create_producer(topic), [b"%d" % number for number in range(40)])
    held = drain(consumer)
    assert payloads(held) == [b"%d" % number for number in range(10)]
    for message in held[:4]:
        consumer.acknowledge(message)
    assert silent(consumer)  # six are held, more than half of the limit
    consumer.acknowledge(held[4])
    more = drain(consumer)
    assert payloads(more) == [b"%d" % number for number in range(10, 15)]
    for message in (*held[5:], *more):
        consumer.acknowledge(message)
    found: list[bytes] = []
    while len(found) < 25:
        message = consumer.receive(RECEIVE_MS)
        consumer.acknowledge(message)
        found.append(message.data())
    assert found == [b"%d" % number for number in range(15, 40)]
    assert len(receive(ordered, 40)) == 40, "an Exclusive subscription has no such limit"


def test_a_subscription_whose_consumers_hold_too_many_gets_no_more(
    own_broker: Any, connect: Any, topic: str
) -> None:
    client = connect(own_broker(max_unacked_messages_per_subscription=10))
    consumers = [
        client.subscribe(topic, "s", consumer_type=ConsumerType.Shared, receiver_queue_size=4)
        for _ in range(4)
    ]
    send_all(client.create_producer(topic), [b"%d" % number for number in range(40)])
    shares = [drain(consumer) for consumer in consumers]
    held = sum(map(len, shares))
    # Entries go out a few at a time: the limit is noticed behind the one that reaches it.
    assert 10 <= held < 20
    for consumer, share in zip(consumers, shares, strict=True):
        for message in share:
            consumer.acknowledge(message)
    seen = {message.data() for share in shares for message in share}
    while len(seen) < 40:
        for consumer in consumers:
            for message in drain(consumer, 50):
                seen.add(message.data())
                consumer.acknowledge(message)
    assert len(seen) == 40


def test_the_numbers_of_a_consumer(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """Permits, unacked messages and backlog, through every verb, as CONSUMER_STATS tells them."""
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=7, consumer_name="me")
        producer = client.create_producer(topic)

        def numbers() -> tuple[int, int, int]:
            found = stats(raw)
            return found.availablePermits, found.unackedMessages, found.msgBacklog

        assert numbers() == (7, 0, 0)
        send_all(producer, [b"%d" % number for number in range(10)])
        deliveries = raw.deliveries(7)
        assert numbers() == (0, 7, 10)
        ids = [pb.MessageIdData(ledgerId=one.ledger_id, entryId=one.entry_id) for one in deliveries]
        raw.request(
            pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=ids[:3])
        )
        assert numbers() == (0, 4, 7)
        raw.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[ids[5]]))
        assert numbers() == (0, 3, 7)
        raw.say(pb.CommandFlow(consumer_id=0, messagePermits=2))
        again = raw.expect(Delivery)
        assert (again.entry_id, again.redelivery_count) == (5, 1)
        assert raw.expect(Delivery).entry_id == 7
        found = stats(raw)
        assert (found.availablePermits, found.unackedMessages, found.msgBacklog) == (0, 5, 7)
        assert (found.consumerName, found.type) == ("me", "Shared")
        assert not found.blockedConsumerOnUnackedMsgs
