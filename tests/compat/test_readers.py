"""Readers: where they start, what they say is available, and where a seek takes them."""

from __future__ import annotations

import queue
import time
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, Refused, subscribe
from compat.talk import RECEIVE_MS, batching, id_tuple, send_all, send_batch

from milepost.wire import pulsar_pb2 as pb


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def read_all(reader: pulsar.Reader) -> list[bytes]:
    """Everything that the reader says is available."""
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(RECEIVE_MS).data())
    return found


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_a_reader_starts_at_an_id(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    ids = send_all(client.create_producer(topic), numbered(0, 10))
    ids += send_batch(batching(client, topic), numbered(10, 20))
    ids += send_all(client.create_producer(topic), numbered(20, 25))
    for target in (0, 4, 9, 10, 15, 19, 20, 24):
        reader = client.create_reader(topic, ids[target], start_message_id_inclusive=inclusive)
        first = target if inclusive else target + 1
        assert read_all(reader) == numbered(first, 25), target
        reader.close()


def test_a_reader_starts_at_either_end(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send_all(producer, numbered(0, 5))
    latest = client.create_reader(topic, pulsar.MessageId.latest)
    earliest = client.create_reader(topic, pulsar.MessageId.earliest)
    assert not latest.has_message_available()
    assert read_all(earliest) == numbered(0, 5)
    producer.send(b"5")
    assert read_all(latest) == [b"5"]
    assert read_all(earliest) == [b"5"]


def test_a_reader_at_the_latest_message_itself(client: pulsar.Client, topic: str) -> None:
    """Latest and inclusive: the last message there is, if there is one."""
    empty = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert not empty.has_message_available()
    send_all(client.create_producer(topic), numbered(0, 3))
    reader = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert read_all(reader) == [b"2"]
    send_batch(batching(client, topic), numbered(3, 6))
    reader = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert read_all(reader) == [b"5"]


def test_a_reader_of_an_empty_topic(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert not reader.has_message_available()
    with pytest.raises(pulsar.Timeout):
        reader.read_next(100)
    client.create_producer(topic).send(b"0")
    assert reader.has_message_available()
    assert reader.read_next(RECEIVE_MS).data() == b"0"
    assert not reader.has_message_available()


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_a_reader_seeks(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    ids = send_all(client.create_producer(topic), numbered(0, 10))
    ids += send_batch(batching(client, topic), numbered(10, 20))
    reader = client.create_reader(
        topic, pulsar.MessageId.earliest, start_message_id_inclusive=inclusive
    )
    assert read_all(reader) == numbered(0, 20)
    for target in (12, 3, 9, 0, 10, 19, 18):
        reader.seek(ids[target])
        first = target if inclusive else target + 1
        assert read_all(reader) == numbered(first, 20), target
    reader.seek(pulsar.MessageId.earliest)
    assert read_all(reader) == numbered(0, 20)
    reader.seek(pulsar.MessageId.latest)
    assert read_all(reader) == (numbered(19, 20) if inclusive else [])


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_a_reader_seeks_to_a_time(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    producer = client.create_producer(topic)
    send_all(producer, numbered(0, 5))
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now + 1:
        pass
    middle = now + 1
    send_batch(batching(client, topic), numbered(5, 10))
    reader = client.create_reader(
        topic, pulsar.MessageId.latest, start_message_id_inclusive=inclusive
    )
    for moment, first in ((middle, 5), (0, 0), (middle, 5), (middle + 3_600_000, 10)):
        reader.seek(moment)
        assert reader.has_message_available() == (first < 10)
        assert read_all(reader) == numbered(first, 10), moment - middle
    producer.send(b"10")
    assert read_all(reader) == [b"10"]


def test_reading_does_not_move_anybody_else(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), numbered(0, 5))
    one = client.create_reader(topic, pulsar.MessageId.earliest)
    other = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_all(one) == numbered(0, 5)
    assert read_all(other) == numbered(0, 5)
    assert [consumer.receive(RECEIVE_MS).data() for _ in range(5)] == numbered(0, 5)


def test_a_reader_goes_on_after_a_crash(own_broker: Any, connect: Any, topic: str) -> None:
    """Its subscription is gone with the broker; the client says where it was."""
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    send_all(producer, numbered(0, 10))
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(4)] == numbered(0, 4)
    broker.restart()
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(6)] == numbered(4, 10)
    producer.send(b"10")
    assert reader.read_next(RECEIVE_MS).data() == b"10"
    assert not reader.has_message_available()


def test_a_reader_leaves_nothing_behind(broker: BrokerProcess, topic: str) -> None:
    """The subscription of a reader is gone with it, and its name free for others."""
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "r", pb.CommandSubscribe.Exclusive, durable=False)
        with RawClient(broker.port_of(topic)) as other, pytest.raises(Refused) as refused:
            subscribe(other, topic, "r", pb.CommandSubscribe.Exclusive)
        assert refused.value.code == pb.NotAllowedError
        raw.request(pb.CommandCloseConsumer(consumer_id=0))
        subscribe(raw, topic, "r", pb.CommandSubscribe.Exclusive)


def test_the_last_message_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    assert id_tuple(consumer.get_last_message_id())[:2] == (-1, -1)
    one = client.create_producer(topic).send(b"0")
    assert consumer.get_last_message_id() == one
    batch = send_batch(batching(client, topic), numbered(1, 5))
    assert id_tuple(consumer.get_last_message_id()) == id_tuple(batch[-1])
    for _ in range(5):
        consumer.acknowledge(consumer.receive(RECEIVE_MS))
    assert id_tuple(consumer.get_last_message_id()) == id_tuple(batch[-1])


def test_the_last_message_id_of_a_partition(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 2)
    name = f"{topic}-partition-1"
    consumer = client.subscribe(name, "s")
    client.create_producer(name).send(b"0")
    last = consumer.get_last_message_id()
    assert last.partition() == 1
    assert last == consumer.receive(RECEIVE_MS).message_id()


def test_a_listening_reader(client: pulsar.Client, topic: str) -> None:
    heard: queue.Queue[bytes] = queue.Queue()
    send_all(client.create_producer(topic), numbered(0, 20))
    reader = client.create_reader(
        topic,
        pulsar.MessageId.earliest,
        reader_listener=lambda reader, message: heard.put(message.data()),
    )
    assert [heard.get(timeout=60) for _ in range(20)] == numbered(0, 20)
    reader.close()


def test_a_reader_of_a_partitioned_topic(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 3)
    producer = client.create_producer(topic)
    for payload in numbered(0, 12):
        producer.send(payload)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    # Counted, not asked for: while a message goes from a partition's queue to the common one, the
    # client says that there is none.
    for _ in range(2):
        found = [reader.read_next(RECEIVE_MS).data() for _ in range(12)]
        assert sorted(found) == sorted(numbered(0, 12))
        assert not reader.has_message_available()
        reader.seek(0)
