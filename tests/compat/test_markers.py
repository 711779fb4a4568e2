"""Markers: entries of a server's own. Stored and numbered, never delivered, never the last message."""

from __future__ import annotations

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata, position, stats, subscribe
from compat.talk import RECEIVE_MS, batching, drain, id_tuple, payloads, receive, send_batch
from pulsar import ConsumerType

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.metadata import split_broker_entry

# A snapshot request of a replicated subscription.
MARKER_TYPE = 10


def open_producer(raw: RawClient, topic: str) -> None:
    raw.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))


def send_marker(raw: RawClient, sequence_id: int) -> int:
    metadata = message_metadata(sequence_id, marker_type=MARKER_TYPE)
    return raw.send(1, metadata, b"marker").entry_id


def send_message(raw: RawClient, sequence_id: int, payload: bytes) -> int:
    return raw.send(1, message_metadata(sequence_id), payload).entry_id


@pytest.mark.parametrize(
    "consumer_type",
    [ConsumerType.Exclusive, ConsumerType.Shared, ConsumerType.Failover, ConsumerType.KeyShared],
    ids=lambda t: t.name,
)
def test_a_marker_reaches_no_consumer_and_stops_none(
    broker: BrokerProcess, client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type, receiver_queue_size=1)
    with RawClient(broker.port_of(topic)) as raw:
        open_producer(raw, topic)
        entries = [
            send_marker(raw, 0),
            send_message(raw, 1, b"0"),
            send_marker(raw, 2),
            send_marker(raw, 3),
            send_message(raw, 4, b"1"),
            send_marker(raw, 5),
        ]
        assert entries == [0, 1, 2, 3, 4, 5]
    messages = receive(consumer, 2)
    assert payloads(messages) == [b"0", b"1"]
    assert [message.message_id().entry_id() for message in messages] == [1, 4]
    for message in messages:
        consumer.acknowledge(message)
    consumer.close()
    assert drain(client.subscribe(topic, "s", consumer_type=consumer_type)) == []


def test_a_marker_takes_an_index(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=10)
        open_producer(raw, topic)
        send_message(raw, 0, b"0")
        send_marker(raw, 1)
        send_message(raw, 2, b"2")
        indexes = []
        for delivery in raw.deliveries(2):
            broker_entry, _ = split_broker_entry(delivery.entry)
            assert broker_entry is not None
            indexes.append(broker_entry.index)
        assert indexes == [0, 2]
        assert stats(raw).msgBacklog == 2


def test_the_last_id_is_of_a_message(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        open_producer(raw, topic)
        consumer = client.subscribe(topic, "s")
        assert id_tuple(consumer.get_last_message_id())[:2] == (-1, -1)
        send_marker(raw, 0)
        assert id_tuple(consumer.get_last_message_id())[:2] == (-1, -1)
        batch = send_batch(batching(client, topic), [b"0", b"1", b"2"])
        send_marker(raw, 1)
        send_marker(raw, 2)
        last = consumer.get_last_message_id()
        assert id_tuple(last) == id_tuple(batch[-1])


def test_a_reader_comes_to_its_end_behind_a_marker(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        open_producer(raw, topic)
        send_message(raw, 0, b"0")
        send_marker(raw, 1)
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert reader.has_message_available()
        assert reader.read_next(RECEIVE_MS).data() == b"0"
        assert not reader.has_message_available()


def test_the_mark_delete_position_passes_markers(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=10)
        open_producer(raw, topic)
        for number in range(4):
            if number % 2:
                send_marker(raw, number)
            else:
                send_message(raw, number, b"%d" % number)
        for delivery in (raw.expect(Delivery), raw.expect(Delivery)):
            raw.request(
                pb.CommandAck(
                    consumer_id=0,
                    ack_type=pb.CommandAck.Individual,
                    message_id=[
                        pb.MessageIdData(ledgerId=delivery.ledger_id, entryId=delivery.entry_id)
                    ],
                )
            )
        last = raw.request(pb.CommandGetLastMessageId(consumer_id=0))
        assert position(last.last_message_id)[1] == 2
        assert position(last.consumer_mark_delete_position)[1] == 3
        assert stats(raw).msgBacklog == 0


def test_markers_are_passed_over_again_behind_a_seek(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    with RawClient(broker.port_of(topic)) as raw:
        open_producer(raw, topic)
        send_marker(raw, 0)
        send_message(raw, 1, b"0")
        send_marker(raw, 2)
        send_message(raw, 3, b"1")
        send_marker(raw, 4)
    for _ in range(3):
        messages = receive(consumer, 2)
        assert payloads(messages) == [b"0", b"1"]
        for message in messages:
            consumer.acknowledge(message)
        consumer.seek(pulsar.MessageId.earliest)
