"""Dead-letter topics: the client's feature, built on the broker's redelivery counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pulsar
import pytest
from compat.administer import stats, until
from compat.broker_process import BrokerProcess
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, send_all, send_batch, silent
from pulsar import ConsumerDeadLetterPolicy, ConsumerType, InitialPosition

TYPES = [ConsumerType.Shared, ConsumerType.KeyShared]


def failing_consumer(
    client: pulsar.Client, topic: str, policy: ConsumerDeadLetterPolicy, **options: Any
) -> pulsar.Consumer:
    options.setdefault("consumer_type", ConsumerType.Shared)
    return client.subscribe(
        topic,
        "s",
        negative_ack_redelivery_delay_ms=50,
        dead_letter_policy=policy,
        **options,
    )


def backlog(broker: BrokerProcess, topic: str) -> int:
    """In messages, of the subscription."""
    found: int = stats(broker, topic)["subscriptions"]["s"]["messagesBacklog"]
    return found


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_a_message_that_fails_again_and_again_is_put_aside(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    """Delivered once and redelivered as often as allowed, then found in the other topic, complete, on
    the subscription that the policy asked for."""
    dead = f"{topic}-dead"
    policy = ConsumerDeadLetterPolicy(3, dead, "morgue")
    consumer = failing_consumer(client, topic, policy, consumer_type=consumer_type)
    producer = client.create_producer(topic)
    send_all(producer, [b"good 0", b"bad", b"good 1"], properties={"a": "b"}, partition_key="k")
    seen: list[int] = []
    for _ in range(2 + 4):
        message = consumer.receive(RECEIVE_MS)
        if message.data() == b"bad":
            seen.append(message.redelivery_count())
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert seen == [0, 1, 2, 3]
    morgue = client.subscribe(dead, "morgue")
    message = morgue.receive(RECEIVE_MS)
    assert (message.data(), message.partition_key()) == (b"bad", "k")
    assert message.properties()["a"] == "b"
    morgue.acknowledge(message)
    assert silent(morgue)
    assert silent(consumer)
    consumer.close()
    assert silent(client.subscribe(topic, "s", consumer_type=consumer_type))


def test_the_first_subscription_is_there_before_the_first_message(
    client: pulsar.Client, topic: str
) -> None:
    """Nobody has to subscribe in time: it is made with the producer, at the earliest message."""
    dead = f"{topic}-dead"
    consumer = failing_consumer(client, topic, ConsumerDeadLetterPolicy(1, dead, "morgue"))
    producer = client.create_producer(topic)
    for number in range(5):
        producer.send(b"%d" % number)
    for _ in range(5 * 2):
        consumer.negative_acknowledge(consumer.receive(RECEIVE_MS))
    morgue = client.subscribe(dead, "morgue", initial_position=InitialPosition.Latest)
    assert sorted(payloads(receive(morgue, 5))) == [b"%d" % number for number in range(5)]


def test_the_topic_has_a_name_of_its_own_unless_given(client: pulsar.Client, topic: str) -> None:
    consumer = failing_consumer(client, topic, ConsumerDeadLetterPolicy(1))
    client.create_producer(topic).send(b"bad")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(RECEIVE_MS))
    reader = client.create_reader(f"{topic}-s-DLQ", pulsar.MessageId.earliest)
    assert reader.read_next(RECEIVE_MS).data() == b"bad"


def test_what_was_acked_of_a_batch_is_not_put_aside(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """The broker shows none of them again and counts for the others on. (The official client, when it
    gives a batch up, copies all of it to the dead-letter topic, acked or not: that is its own.)"""
    dead = f"{topic}-dead"
    consumer = failing_consumer(
        client, topic, ConsumerDeadLetterPolicy(2, dead, "morgue"), batch_index_ack_enabled=True
    )
    send_batch(batching(client, topic), [b"%d" % number for number in range(6)])
    bad = {b"1", b"4"}
    first = receive(consumer, 6)
    for message in first:
        if message.data() not in bad:
            consumer.acknowledge(message)
    # The client sends acks after a while, and asks for the whole batch again: not before they are in.
    until(lambda: backlog(broker, topic) == 2, "four of six are acked")
    for message in first:
        if message.data() in bad:
            consumer.negative_acknowledge(message)
    seen = payloads(first)
    for _ in range(2 + 2):
        message = consumer.receive(RECEIVE_MS)
        seen.append(message.data())
        consumer.negative_acknowledge(message)
    assert Counter(seen) == {b"%d" % n: 3 if b"%d" % n in bad else 1 for n in range(6)}
    morgue = client.subscribe(dead, "morgue")
    assert set(payloads(drain(morgue, 1000))) >= bad
    assert silent(consumer)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert silent(again)


def test_a_crash_does_not_put_messages_aside(own_broker: Any, connect: Any, topic: str) -> None:
    """Counts may be lost with a broker, never invented: a consumer that comes back is no failure."""
    broker = own_broker()
    client = connect(broker)
    dead = f"{topic}-dead"
    consumer = failing_consumer(client, topic, ConsumerDeadLetterPolicy(2, dead, "morgue"))
    send_all(client.create_producer(topic), [b"0", b"1"])
    receive(consumer, 2)
    broker.restart()
    messages = receive(consumer, 2)
    assert sorted(payloads(messages)) == [b"0", b"1"]
    assert {message.redelivery_count() for message in messages} == {0}
