"""PIP-54: single messages of a batch are acked, and stay acked through everything."""

from __future__ import annotations

from typing import Any

import pulsar
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, stats, subscribe
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, send_all, send_batch, silent
from pulsar import ConsumerType

from milepost.positions.ackset import AckSet
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

TYPES = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]
TEN = [b"%d" % number for number in range(10)]
EIGHT = [b"%d" % number for number in range(10) if number not in (3, 7)]


def subscribe_exactly(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Consumer:
    return client.subscribe(topic, "s", batch_index_ack_enabled=True, **options)


def test_acks_of_two_of_ten_survive_a_new_consumer_and_a_crash(
    own_broker: Any, connect: Any, topic: str
) -> None:
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    topics = {consumer_type: f"{topic}-{consumer_type.name}" for consumer_type in TYPES}
    for consumer_type, name in topics.items():
        consumer = subscribe_exactly(client, name, consumer_type=consumer_type)
        send_batch(batching(client, name), TEN)
        messages = receive(consumer, 10)
        consumer.acknowledge(messages[3])
        consumer.acknowledge(messages[7])
        consumer.close()
        restarted = subscribe_exactly(client, name, consumer_type=consumer_type)
        assert payloads(drain(restarted)) == EIGHT, consumer_type
        restarted.close()
    broker.restart()
    client = connect(broker)
    more = [b"%d" % number for number in range(10, 40)]
    for consumer_type, name in topics.items():
        # With room for one message: if the permits were wrong by those not shown, it would stop.
        after = subscribe_exactly(client, name, consumer_type=consumer_type, receiver_queue_size=1)
        send_all(client.create_producer(name), more)
        found = receive(after, 38)
        assert payloads(found) == EIGHT + more, consumer_type
        for message in found:
            after.acknowledge(message)
        after.close()
    broker.restart()
    client = connect(broker)
    for consumer_type, name in topics.items():
        assert silent(subscribe_exactly(client, name, consumer_type=consumer_type)), consumer_type


def test_an_answered_ack_is_on_disk(own_broker: Any, connect: Any, topic: str) -> None:
    """Promise 2, to the letter: killed in the moment of the answer, nothing closed, nothing flushed."""
    broker: BrokerProcess = own_broker()
    producer = batching(connect(broker), topic)
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=100)
        send_batch(producer, TEN)
        delivery = raw.expect(Delivery)
        for acked in (3, 7):
            raw.request(batch_ack(delivery, acked))
        broker.kill()
    broker.start()
    assert payloads(drain(subscribe_exactly(connect(broker), topic))) == EIGHT


def batch_ack(delivery: Delivery, *acked: int, count: int = 10) -> pb.CommandAck:
    """An ack of some messages of a batch, as Java sends it."""
    pending = AckSet(((1 << count) - 1) & ~sum(1 << index for index in acked), count)
    return pb.CommandAck(
        consumer_id=delivery.consumer_id,
        ack_type=pb.CommandAck.Individual,
        message_id=[
            pb.MessageIdData(
                ledgerId=delivery.ledger_id,
                entryId=delivery.entry_id,
                ack_set=pending.to_message_words(),
            )
        ],
    )


def test_what_is_shown_and_what_is_debited(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """The ack set of a redelivered batch, and permits counted by what the client will see."""
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=10)
        send_batch(batching(client, topic), TEN)
        delivery = raw.expect(Delivery)
        assert delivery.ack_set == ()
        assert (stats(raw).availablePermits, stats(raw).unackedMessages) == (0, 10)
        raw.request(batch_ack(delivery, 3, 7))
        raw.request(batch_ack(delivery, 3))  # once more, and less: sets are ANDed
        assert (stats(raw).unackedMessages, stats(raw).msgBacklog) == (8, 8)
        raw.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
        raw.say(pb.CommandFlow(consumer_id=0, messagePermits=20))
        again = raw.expect(Delivery)
        assert again.ack_set == (0b1101110111,)
        assert again.redelivery_count == 1
        assert (stats(raw).availablePermits, stats(raw).unackedMessages) == (12, 8)
        raw.request(batch_ack(again, 0, 1, 2, 4, 5, 6, 8, 9))
        assert (stats(raw).unackedMessages, stats(raw).msgBacklog) == (0, 0)


def test_a_consumer_with_little_room_goes_on(client: pulsar.Client, topic: str) -> None:
    """Batches with most of their messages acked, over and over, to a consumer with room for one."""
    first = subscribe_exactly(client, topic)
    producer = batching(client, topic)
    for number in range(20):
        send_batch(producer, [b"%d/%d" % (number, item) for item in range(10)])
    expected = []
    for number, message in enumerate(receive(first, 200)):
        if number % 10 == number // 10 % 10:
            expected.append(message.data())
        else:
            first.acknowledge(message)
    first.close()
    for _ in range(3):
        again = subscribe_exactly(client, topic, receiver_queue_size=1)
        assert payloads(receive(again, 20)) == expected
        assert silent(again)
        again.close()


def test_a_cumulative_ack_inside_a_batch_keeps_the_single_ones_above(
    client: pulsar.Client, topic: str
) -> None:
    """Trap 12: upstream replaces the set, and delivers them again."""
    consumer = subscribe_exactly(client, topic)
    send_batch(batching(client, topic), TEN)
    messages = receive(consumer, 10)
    consumer.acknowledge(messages[8])
    consumer.acknowledge_cumulative(messages[4])
    consumer.close()
    again = subscribe_exactly(client, topic)
    assert payloads(drain(again)) == [b"5", b"6", b"7", b"9"]


def test_a_cumulative_ack_in_the_first_batch_of_a_topic(client: pulsar.Client, topic: str) -> None:
    """A client without batch index acks names the entry before the batch: there is none."""
    consumer = client.subscribe(topic, "s")
    send_batch(batching(client, topic), TEN)
    consumer.acknowledge_cumulative(receive(consumer, 10)[4])
    consumer.close()
    assert payloads(drain(client.subscribe(topic, "s"))) == TEN


def test_without_batch_index_acks_a_batch_is_acked_whole(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send_batch(batching(client, topic), TEN)
    messages = receive(consumer, 10)
    for message in messages[:9]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s")
    messages = receive(again, 10)
    assert payloads(messages) == TEN
    for message in messages:
        again.acknowledge(message)
    again.close()
    assert silent(client.subscribe(topic, "s"))


def test_a_broker_told_to_forget_parts_of_batches(
    own_broker: Any, connect: Any, topic: str
) -> None:
    client = connect(own_broker(batch_index_ack=False))
    consumer = subscribe_exactly(client, topic)
    send_batch(batching(client, topic), TEN)
    messages = receive(consumer, 10)
    consumer.acknowledge(messages[3])
    consumer.close()
    again = subscribe_exactly(client, topic)
    messages = receive(again, 10)
    assert payloads(messages) == TEN
    for message in messages:
        again.acknowledge(message)
    again.close()
    assert silent(subscribe_exactly(client, topic))


def test_shared_consumers_ack_parts_of_different_batches(client: pulsar.Client, topic: str) -> None:
    consumers = [
        subscribe_exactly(client, topic, consumer_type=ConsumerType.Shared) for _ in range(2)
    ]
    producer = batching(client, topic)
    for number in range(40):
        send_batch(producer, [b"%d/%d" % (number, item) for item in range(5)])
    left = []
    for consumer in consumers:
        for message in drain(consumer):
            if message.message_id().batch_index() in (1, 4):
                left.append(message.data())
            else:
                consumer.acknowledge(message)
    assert len(left) == 80
    for consumer in consumers:
        consumer.close()
    again = subscribe_exactly(client, topic, consumer_type=ConsumerType.Shared)
    assert sorted(payloads(receive(again, 80))) == sorted(left)
    assert silent(again)


def test_a_batch_of_a_hundred_and_thirty(client: pulsar.Client, topic: str) -> None:
    """Three words of bits, with the borders of words in the middle of runs."""
    consumer = subscribe_exactly(client, topic)
    send_batch(batching(client, topic), [b"%d" % number for number in range(130)])
    acked = {0, 62, 63, 64, 65, 127, 128, 129, *range(70, 120)}
    for number, message in enumerate(receive(consumer, 130)):
        if number in acked:
            consumer.acknowledge(message)
    consumer.close()
    again = subscribe_exactly(client, topic)
    expected = [b"%d" % number for number in range(130) if number not in acked]
    assert payloads(receive(again, len(expected))) == expected
    assert silent(again)


def test_the_last_of_a_batch_can_be_acked_alone(client: pulsar.Client, topic: str) -> None:
    """The client's own set starts full again after a redelivery; only the AND completes the batch."""
    consumer = subscribe_exactly(client, topic)
    send_batch(batching(client, topic), TEN)
    for message in receive(consumer, 10)[:9]:
        consumer.acknowledge(message)
    consumer.close()
    again = subscribe_exactly(client, topic)
    last = again.receive(RECEIVE_MS)
    assert last.data() == b"9"
    again.acknowledge(last)
    again.close()
    assert silent(subscribe_exactly(client, topic))
