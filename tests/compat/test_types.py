"""The four subscription types, as an official client sees them."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import batching, drain, payloads, receive, send_all, silent
from pulsar import ConsumerType

TYPES = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
def test_every_message_comes_once_and_in_order(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType, is_batched: bool
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    producer = batching(client, topic) if is_batched else client.create_producer(topic)
    sent = [b"%d" % number for number in range(250)]
    ids = send_all(producer, sent)
    messages = receive(consumer, len(sent))
    assert payloads(messages) == sent
    assert [message.message_id() for message in messages] == ids
    assert all(message.redelivery_count() == 0 for message in messages)
    for message in messages:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=consumer_type)
    assert silent(again)


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_what_was_not_acked_comes_again(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(10)])
    messages = receive(consumer, 10)
    for message in messages[::2]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=consumer_type)
    assert payloads(receive(again, 5)) == [b"1", b"3", b"5", b"7", b"9"]
    assert silent(again)


@pytest.mark.parametrize(
    "consumer_type", [ConsumerType.Exclusive, ConsumerType.Failover], ids=lambda t: t.name
)
def test_a_cumulative_ack_covers_what_came_before(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(10)])
    messages = receive(consumer, 10)
    consumer.acknowledge_cumulative(messages[6])
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=consumer_type)
    assert payloads(receive(again, 3)) == [b"7", b"8", b"9"]
    assert silent(again)


@pytest.mark.parametrize(
    "consumer_type", [ConsumerType.Shared, ConsumerType.KeyShared], ids=lambda t: t.name
)
def test_a_cumulative_ack_is_not_for_shared_types(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    client.create_producer(topic).send(b"0")
    message = consumer.receive(8000)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(message)


def test_a_second_exclusive_consumer_is_refused(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    first.close()
    client.subscribe(topic, "s")


def test_another_type_is_refused_while_consumers_are_connected(
    client: pulsar.Client, topic: str
) -> None:
    shared = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    for other in (ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.KeyShared):
        with pytest.raises(pulsar.ConsumerBusy):
            client.subscribe(topic, "s", consumer_type=other)
    shared.close()
    client.subscribe(topic, "s", consumer_type=ConsumerType.Failover)


def test_shared_consumers_divide_the_messages(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(3)]
    sent = {b"%d" % number for number in range(300)}
    send_all(client.create_producer(topic), sorted(sent))
    shares = [payloads(drain(consumer)) for consumer in consumers]
    assert sorted(one for share in shares for one in share) == sorted(sent)
    assert all(shares), [len(share) for share in shares]


def test_what_a_leaving_shared_consumer_held_goes_to_the_others(
    client: pulsar.Client, topic: str
) -> None:
    one = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(100)])
    held = receive(one, 100)
    for message in held[:30]:
        one.acknowledge(message)
    other = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert silent(other)
    one.close()
    messages = receive(other, 70)
    assert payloads(messages) == payloads(held[30:])
    # As upstream: a consumer that left is no redelivery.
    assert {message.redelivery_count() for message in messages} == {0}


def test_every_subscription_gets_everything(client: pulsar.Client, topic: str) -> None:
    consumers = [
        client.subscribe(topic, consumer_type.name, consumer_type=consumer_type)
        for consumer_type in TYPES
    ]
    sent = [b"%d" % number for number in range(50)]
    send_all(client.create_producer(topic), sent)
    for consumer in consumers:
        assert payloads(receive(consumer, 50)) == sent


def test_all_types_survive_a_crash(own_broker: Any, connect: Any, topic: str) -> None:
    """What was received and acked with every type is not there after `kill -9`; the rest is."""
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    consumers = {
        consumer_type: client.subscribe(topic, consumer_type.name, consumer_type=consumer_type)
        for consumer_type in TYPES
    }
    send_all(client.create_producer(topic), [b"%d" % number for number in range(20)])
    for consumer in consumers.values():
        for message in receive(consumer, 20)[:15]:
            consumer.acknowledge(message)
        consumer.close()
    broker.kill()
    broker.start()
    client = connect(broker)
    for consumer_type in TYPES:
        again = client.subscribe(topic, consumer_type.name, consumer_type=consumer_type)
        assert payloads(drain(again)) == [b"15", b"16", b"17", b"18", b"19"], consumer_type
