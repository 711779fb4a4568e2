"""Seeks: exact, final, durable, and obeyed by everyone who shares the cursor."""

from __future__ import annotations

import time
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, stats, subscribe
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, send_all, send_batch, silent
from pulsar import ConsumerType, InitialPosition

from milepost.wire import pulsar_pb2 as pb

TYPES = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def next_millisecond() -> int:
    """A time that is later than all that was, and not later than all that will be."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now + 1:
        pass
    return now + 1


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_a_seek_to_an_id(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType, inclusive: bool
) -> None:
    consumer = client.subscribe(
        topic, "s", consumer_type=consumer_type, start_message_id_inclusive=inclusive
    )
    ids = send_all(client.create_producer(topic), numbered(0, 20))
    for message in receive(consumer, 20):
        consumer.acknowledge(message)
    for target in (12, 3, 19, 0, 3):
        consumer.seek(ids[target])
        first = target if inclusive else target + 1
        assert payloads(receive(consumer, 20 - first)) == numbered(first, 20), target


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_a_seek_into_a_batch(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=inclusive)
    producer = batching(client, topic)
    ids = [*send_batch(producer, numbered(0, 10)), *send_batch(producer, numbered(10, 20))]
    receive(consumer, 20)
    for target in (13, 4, 9, 10, 0, 19):
        consumer.seek(ids[target])
        first = target if inclusive else target + 1
        assert payloads(receive(consumer, 20 - first)) == numbered(first, 20), target


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_a_seek_to_either_end(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    producer = client.create_producer(topic)
    send_all(producer, numbered(0, 10))
    receive(consumer, 5)
    consumer.seek(pulsar.MessageId.latest)
    assert silent(consumer)
    producer.send(b"10")
    assert payloads(drain(consumer)) == [b"10"]
    consumer.seek(pulsar.MessageId.earliest)
    assert payloads(receive(consumer, 11)) == numbered(0, 11)


def test_a_seek_to_a_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer, batched = client.create_producer(topic), batching(client, topic)
    times = [next_millisecond()]
    for first in range(0, 30, 10):
        send_all(producer, numbered(first, first + 5))
        send_batch(batched, numbered(first + 5, first + 10))
        times.append(next_millisecond())
    receive(consumer, 30)
    for target, expected in ((1, 10), (0, 0), (2, 20), (1, 10)):
        consumer.seek(times[target])
        assert payloads(receive(consumer, 30 - expected)) == numbered(expected, 30)
    consumer.seek(times[3])
    assert silent(consumer)
    consumer.seek(0)
    assert consumer.receive(RECEIVE_MS).data() == b"0"
    consumer.seek(times[3] + 3_600_000)
    assert silent(consumer)
    producer.send(b"30")
    assert consumer.receive(RECEIVE_MS).data() == b"30"


def test_a_seek_to_an_id_that_is_not_there(client: pulsar.Client, topic: str) -> None:
    """Beyond the end is the end; a ledger that never was is what came after it."""
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = client.create_producer(topic)
    ids = send_all(producer, numbered(0, 5))
    ledger_id = ids[0].ledger_id()
    receive(consumer, 5)
    consumer.seek(pulsar.MessageId(-1, ledger_id, 1000, -1))
    assert silent(consumer)
    consumer.seek(pulsar.MessageId(-1, ledger_id - 1 if ledger_id else 0, 0, -1))
    assert consumer.receive(RECEIVE_MS).data() == b"0"
    consumer.seek(pulsar.MessageId(-1, ledger_id + 1000, 0, -1))
    assert silent(consumer)


def test_acks_behind_a_seek_do_not_undo_it(client: pulsar.Client, topic: str) -> None:
    """Trap 11: what was received before the seek and is acked around it stays to be delivered."""
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), numbered(0, 50))
    for kind in range(20):
        held = receive(consumer, 50)
        if kind % 2:
            for message in held:
                consumer.acknowledge(message)
        else:
            consumer.acknowledge_cumulative(held[-1])
        consumer.seek(pulsar.MessageId.earliest)
    assert payloads(receive(consumer, 50)) == numbered(0, 50)
    consumer.close()
    assert payloads(drain(client.subscribe(topic, "s"))) == numbered(0, 50)


def test_a_late_ack_changes_nothing_and_is_answered(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """The same on the wire: an ack that comes back for a delivery of before the seek."""
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", pb.CommandSubscribe.Exclusive, permits=10)
        send_all(client.create_producer(topic), numbered(0, 10))
        ids = [
            pb.MessageIdData(ledgerId=one.ledger_id, entryId=one.entry_id)
            for one in raw.deliveries(10)
        ]
        earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
        raw.request(pb.CommandSeek(consumer_id=0, message_id=earliest))
        raw.expect(pb.CommandCloseConsumer)
        subscribe(raw, topic, "s", pb.CommandSubscribe.Exclusive)
        for ack_type in (pb.CommandAck.Individual, pb.CommandAck.Cumulative):
            raw.request(pb.CommandAck(consumer_id=0, ack_type=ack_type, message_id=[ids[7]]))
        assert stats(raw).msgBacklog == 10
        raw.say(pb.CommandFlow(consumer_id=0, messagePermits=8))
        raw.deliveries(8)
        raw.request(
            pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Cumulative, message_id=[ids[7]])
        )
        assert stats(raw).msgBacklog == 2


def test_a_late_ack_of_the_entry_before_the_one_read_changes_nothing(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """A reader that reads the first message of an entry acks the entry before it: one that it was
    never given, after a seek. Such an ack on its way may not move the next seek's position."""
    ids = send_all(client.create_producer(topic), numbered(0, 10))
    positions = [pb.MessageIdData(ledgerId=one.ledger_id(), entryId=one.entry_id()) for one in ids]
    reader = {"durable": False, "start_message_id": positions[0]}
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "reader", pb.CommandSubscribe.Exclusive, **reader)
        raw.request(pb.CommandSeek(consumer_id=0, message_id=positions[7]))
        raw.expect(pb.CommandCloseConsumer)
        subscribe(raw, topic, "reader", pb.CommandSubscribe.Exclusive, permits=1, **reader)
        assert raw.deliveries(1)[0].entry_id == ids[7].entry_id()
        raw.request(pb.CommandSeek(consumer_id=0, message_id=positions[2]))
        raw.expect(pb.CommandCloseConsumer)
        subscribe(raw, topic, "reader", pb.CommandSubscribe.Exclusive, **reader)
        raw.request(pb.CommandAck(consumer_id=0, ack_type="Cumulative", message_id=[positions[6]]))
        raw.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
        came = [one.entry_id for one in raw.deliveries(8)]
        assert came == [one.entry_id() for one in ids[2:]]
        raw.request(pb.CommandAck(consumer_id=0, ack_type="Cumulative", message_id=[positions[6]]))
        assert stats(raw).msgBacklog == 3


def test_a_seek_survives_a_crash(own_broker: Any, connect: Any, topic: str) -> None:
    """Promise 3: answered means on disk. Both ways, with and without acks behind it."""
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    back, ahead, into = (
        client.subscribe(topic, name, start_message_id_inclusive=True)
        for name in ("back", "ahead", "into")
    )
    ids = send_all(client.create_producer(topic), numbered(0, 20))
    batch = send_batch(batching(client, topic), numbered(20, 30))
    for consumer in (back, ahead, into):
        for message in receive(consumer, 30)[:15]:
            consumer.acknowledge(message)
    back.seek(ids[5])
    ahead.seek(ids[18])
    into.seek(batch[7])
    broker.kill()
    client.shutdown()
    broker.start()
    client = connect(broker)
    assert payloads(drain(client.subscribe(topic, "back"))) == numbered(5, 30)
    assert payloads(drain(client.subscribe(topic, "ahead"))) == numbered(18, 30)
    # The official client names the entry and filters by itself: the broker was told no more.
    assert payloads(drain(client.subscribe(topic, "into"))) == numbered(20, 30)


def test_an_ack_after_a_crash_is_for_the_delivery_before_it(
    own_broker: Any, connect: Any, topic: str
) -> None:
    """A message that was delivered again since a seek is not stale: its ack counts, though the broker
    was killed in between and has not delivered it once more."""
    broker: BrokerProcess = own_broker()
    send_all(connect(broker).create_producer(topic), numbered(0, 3))
    earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", pb.CommandSubscribe.Exclusive, initialPosition="Earliest")
        raw.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
        raw.deliveries(3)
        raw.request(pb.CommandSeek(consumer_id=0, message_id=earliest))
        raw.expect(pb.CommandCloseConsumer)
        subscribe(raw, topic, "s", pb.CommandSubscribe.Exclusive, permits=2)
        again = raw.deliveries(2)
        broker.kill()
    broker.start()
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", pb.CommandSubscribe.Exclusive)
        ids = [pb.MessageIdData(ledgerId=one.ledger_id, entryId=one.entry_id) for one in again]
        raw.request(pb.CommandAck(consumer_id=0, ack_type="Individual", message_id=ids))
        assert stats(raw).msgBacklog == 1
        broker.kill()
    broker.start()
    assert payloads(drain(connect(broker).subscribe(topic, "s"))) == [b"2"]


def test_a_seek_inside_a_batch_that_names_the_message(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """Java says where inside the batch, as a set of what is to come: then it is exact for everyone."""
    client.subscribe(topic, "s").close()
    batch = send_batch(batching(client, topic), numbered(0, 10))
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", pb.CommandSubscribe.Exclusive)
        raw.request(
            pb.CommandSeek(
                consumer_id=0,
                message_id=pb.MessageIdData(
                    ledgerId=batch[0].ledger_id(),
                    entryId=batch[0].entry_id(),
                    ack_set=[0b1111000000],
                ),
            )
        )
        raw.expect(pb.CommandCloseConsumer)
    assert payloads(drain(client.subscribe(topic, "s"))) == numbered(6, 10)


@pytest.mark.parametrize(
    "consumer_type", [ConsumerType.Shared, ConsumerType.KeyShared], ids=lambda t: t.name
)
def test_a_seek_is_obeyed_by_everyone_who_shares(
    client: pulsar.Client, connect: Any, broker: BrokerProcess, topic: str, consumer_type: Any
) -> None:
    others = connect(broker)
    one = client.subscribe(topic, "s", consumer_type=consumer_type)
    two = others.subscribe(topic, "s", consumer_type=consumer_type)
    send_all(client.create_producer(topic), numbered(0, 100))
    first_share = drain(one)
    for message in first_share:
        one.acknowledge(message)
    assert 0 < len(first_share) < 100
    one.seek(pulsar.MessageId.earliest)
    found: list[bytes] = []
    while len(found) < 100:
        # The consumer that came back first may hold a slot that is the other's now: the next of it waits
        # for acks.
        for consumer in (one, two):
            for message in drain(consumer):
                consumer.acknowledge(message)
                found.append(message.data())
    assert sorted(found) == sorted(numbered(0, 100))


def test_a_seek_of_a_standby_consumer(client: pulsar.Client, topic: str) -> None:
    """Failover: whoever of the group seeks, the cursor moves. Both come back in any order; who was there
    first may have begun when the other takes over."""
    consumers = [
        client.subscribe(topic, "s", consumer_type=ConsumerType.Failover, consumer_name=name)
        for name in ("a", "b")
    ]
    send_all(client.create_producer(topic), numbered(0, 10))
    shares = [drain(consumer) for consumer in consumers]
    active = 0 if shares[0] else 1
    assert len(shares[active]) == 10
    assert not shares[1 - active]
    for message in shares[active]:
        consumers[active].acknowledge(message)
    consumers[1 - active].seek(pulsar.MessageId.earliest)
    found = [payloads(drain(consumer, 600)) for consumer in consumers]
    assert numbered(0, 10) in found
    assert all(share == numbered(0, len(share)) for share in found)


def test_a_consumer_of_several_topics_seeks_them_all(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{letter}" for letter in "ab"]
    consumer = client.subscribe(topics, "s")
    for name in topics:
        send_all(client.create_producer(name), numbered(0, 10))
    receive(consumer, 20)
    consumer.seek(0)
    assert sorted(payloads(receive(consumer, 20))) == sorted(numbered(0, 10) * 2)


def test_a_partitioned_consumer_seeks(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 2)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for payload in numbered(0, 10):
        producer.send(payload)
    middle = next_millisecond()
    for payload in numbered(10, 20):
        producer.send(payload)
    receive(consumer, 20)
    consumer.seek(middle)
    assert sorted(payloads(receive(consumer, 10))) == numbered(10, 20)
    assert silent(consumer)
    consumer.seek(pulsar.MessageId.earliest)
    assert sorted(payloads(receive(consumer, 20))) == sorted(numbered(0, 20))


def test_ids_are_good_across_ledgers(own_broker: Any, connect: Any, topic: str) -> None:
    client = connect(own_broker(ledger_entries_max=7))
    consumer = client.subscribe(
        topic, "s", initial_position=InitialPosition.Earliest, start_message_id_inclusive=True
    )
    producer = client.create_producer(topic)
    ids = [producer.send(payload) for payload in numbered(0, 40)]
    assert len({one.ledger_id() for one in ids}) > 3
    received = receive(consumer, 40)
    assert payloads(received) == numbered(0, 40)
    assert [message.message_id() for message in received] == ids
    for target in (6, 7, 13, 14, 0, 39, 20):
        consumer.seek(ids[target])
        assert payloads(receive(consumer, 40 - target)) == numbered(target, 40)
