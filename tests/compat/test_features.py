"""What a message carries, and the ways of sending and receiving it."""

from __future__ import annotations

import queue
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import (
    RECEIVE_MS,
    batching,
    drain,
    id_tuple,
    payloads,
    receive,
    send_all,
    send_batch,
    silent,
)
from pulsar import BatchingType, CompressionType, ConsumerType, InitialPosition
from pulsar.schema import JsonSchema, Record, String
from stage.official_table import official_table


@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize(
    "compression",
    [
        CompressionType.NONE,
        CompressionType.LZ4,
        CompressionType.ZLib,
        CompressionType.ZSTD,
        CompressionType.SNAPPY,
    ],
    ids=lambda c: c.name,
)
def test_compression(
    client: pulsar.Client, topic: str, compression: CompressionType, is_batched: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, compression_type=compression, batching_enabled=is_batched
    )
    sent = [b"%d " % number * 500 for number in range(20)]
    send_all(producer, sent)
    assert payloads(receive(consumer, 20)) == sent


@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
def test_everything_that_a_message_carries_arrives(
    client: pulsar.Client, topic: str, is_batched: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me", batching_enabled=is_batched)
    before_ms = int(time.time() * 1000)
    message_id = producer.send(
        b"payload",
        properties={"a": "1", "b": "zwei", "empty": ""},
        partition_key="the key",
        ordering_key="the order",
        event_timestamp=1234567890123,
    )
    message = consumer.receive(RECEIVE_MS)
    assert message.data() == b"payload"
    assert message.properties() == {"a": "1", "b": "zwei", "empty": ""}
    assert message.partition_key() == "the key"
    assert message.ordering_key() == "the order"
    assert message.event_timestamp() == 1234567890123
    assert before_ms <= message.publish_timestamp() <= int(time.time() * 1000)
    assert message.topic_name() == topic
    assert message.producer_name() == "me"
    assert message.message_id() == message_id
    assert id_tuple(message.message_id())[3] == -1


def test_empty_and_large_messages(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    sent = [b"", b"x", b"y" * 100_000, b"z" * (4 * 1024 * 1024)]
    send_all(client.create_producer(topic), sent)
    assert payloads(receive(consumer, 4)) == sent


def test_ids_of_sending_and_receiving_are_equal_and_grow(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    single, batched = client.create_producer(topic), batching(client, topic)
    ids: list[Any] = []
    for number in range(5):
        ids += send_all(single, [b"single %d" % number])
        ids += send_batch(batched, [b"%d/%d" % (number, item) for item in range(7)])
    received = [message.message_id() for message in receive(consumer, 40)]
    assert [id_tuple(i) for i in received] == [id_tuple(i) for i in ids]
    assert sorted(received) == received
    assert all(pulsar.MessageId.deserialize(one.serialize()) == one for one in (*ids, *received))


def test_batches_by_key_hold_one_key_each(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic, batching_type=BatchingType.KeyBased)
    for number in range(40):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 4}")
    producer.flush()
    entries: dict[tuple[int, int], set[str]] = {}
    for message in receive(consumer, 40):
        ledger, entry, _, _ = id_tuple(message.message_id())
        entries.setdefault((ledger, entry), set()).add(message.partition_key())
    assert sorted(sorted(keys) for keys in entries.values()) == [["k0"], ["k1"], ["k2"], ["k3"]]


# -- topics in parts, and many of them -------------------------------------------------------------


def test_a_partitioned_topic(broker: BrokerProcess, client: pulsar.Client, topic: str) -> None:
    broker.create_partitioned_topic(topic, 4)
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{n}" for n in range(4)]
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    producer = client.create_producer(topic)
    sent = {producer.send(b"%d" % number).partition(): number for number in range(40)}
    assert sorted(sent) == [0, 1, 2, 3]
    seen = {}
    for message in receive(consumer, 40):
        partition = message.message_id().partition()
        assert message.topic_name() == f"{topic}-partition-{partition}"
        seen[message.data()] = partition
        consumer.acknowledge(message)
    assert sorted(map(int, seen)) == list(range(40))
    consumer.close()
    assert silent(client.subscribe(topic, "s", consumer_type=ConsumerType.Shared))


def test_a_key_goes_to_one_partition(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 3)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(60):
        producer.send(b"%d" % number, partition_key=f"k{number % 10}")
    by_key: dict[str, list[tuple[int, int]]] = {}
    for message in receive(consumer, 60):
        by_key.setdefault(message.partition_key(), []).append(
            (message.message_id().partition(), int(message.data()))
        )
    for found in by_key.values():
        assert len({partition for partition, _ in found}) == 1
        assert [number for _, number in found] == sorted(number for _, number in found)
    assert len({found[0][0] for found in by_key.values()}) > 1


def test_one_partition_is_a_topic(broker: BrokerProcess, client: pulsar.Client, topic: str) -> None:
    broker.create_partitioned_topic(topic, 2)
    consumer = client.subscribe(f"{topic}-partition-1", "s")
    message_id = client.create_producer(f"{topic}-partition-1").send(b"one")
    # The client knows no partition of a topic it was given by its full name; the broker does.
    assert id_tuple(message_id)[3] == -1
    received = id_tuple(consumer.receive(RECEIVE_MS).message_id())
    assert received == (*id_tuple(message_id)[:3], 1)


def test_partitions_by_default(own_broker: Any, connect: Any, topic: str) -> None:
    broker = own_broker(allow_auto_topic_creation_type="partitioned", default_num_partitions=3)
    client = connect(broker)
    producer = client.create_producer(topic)
    assert len(client.get_topic_partitions(topic)) == 3
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    partitions = {producer.send(b"%d" % number).partition() for number in range(9)}
    assert partitions == {0, 1, 2}
    assert len(receive(consumer, 9)) == 9


def test_a_consumer_of_several_topics(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{letter}" for letter in "abc"]
    consumer = client.subscribe(topics, "s", consumer_type=ConsumerType.Shared)
    for name in topics:
        send_all(client.create_producer(name), [f"{name} {n}".encode() for n in range(10)])
    messages = receive(consumer, 30)
    assert {message.data().decode() for message in messages} == {
        f"{name} {n}" for name in topics for n in range(10)
    }
    for message in messages:
        assert message.data().decode().startswith(message.topic_name())
        consumer.acknowledge(message)
    consumer.close()
    assert silent(client.subscribe(topics, "s", consumer_type=ConsumerType.Shared))


def test_a_pattern_finds_the_topics_of_a_namespace(client: pulsar.Client, topic: str) -> None:
    names = [f"{topic}-{letter}" for letter in "abz"]
    producers = [client.create_producer(name) for name in names]
    consumer = client.subscribe(
        re.compile(f"{topic}-[a-c]"), "s", initial_position=InitialPosition.Earliest
    )
    for producer in producers:
        producer.send(producer.topic().encode())
    assert sorted(payloads(receive(consumer, 2))) == [names[0].encode(), names[1].encode()]
    assert silent(consumer)


# -- ways of receiving -----------------------------------------------------------------------------


def test_a_message_listener(client: pulsar.Client, topic: str) -> None:
    heard: queue.Queue[bytes] = queue.Queue()

    def listener(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        heard.put(message.data())

    consumer = client.subscribe(topic, "s", message_listener=listener)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(100)])
    assert [heard.get(timeout=60) for _ in range(100)] == [b"%d" % n for n in range(100)]
    consumer.close()
    assert silent(client.subscribe(topic, "s"))


@pytest.mark.parametrize(
    "consumer_type", [ConsumerType.Exclusive, ConsumerType.Shared], ids=lambda t: t.name
)
def test_a_consumer_without_a_queue(
    client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    """It asks for one message at a time; the broker gives no more than that."""
    lazy = client.subscribe(topic, "s", consumer_type=consumer_type, receiver_queue_size=0)
    send_all(client.create_producer(topic), [b"%d" % number for number in range(5)])
    first = lazy.receive()
    assert first.data() == b"0"
    if consumer_type == ConsumerType.Shared:
        other = client.subscribe(topic, "s", consumer_type=consumer_type)
        assert payloads(receive(other, 4)) == [b"1", b"2", b"3", b"4"]
    else:
        assert [lazy.receive().data() for _ in range(4)] == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_small_queue_goes_on(client: pulsar.Client, topic: str, size: int) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=size)
    sent = [b"%d" % number for number in range(60)]
    send_all(client.create_producer(topic), sent[:30])
    send_all(batching(client, topic), sent[30:])
    assert payloads(receive(consumer, 60)) == sent


def test_batch_receive(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(10, -1, 5000)
    )
    send_all(client.create_producer(topic), [b"%d" % number for number in range(30)])
    found: list[bytes] = []
    while len(found) < 30:
        messages = consumer.batch_receive()
        assert 0 < len(messages) <= 10
        found += payloads(messages)
    assert found == [b"%d" % number for number in range(30)]


def test_a_table_view(client: pulsar.Client, broker: BrokerProcess, topic: str) -> None:
    producer = client.create_producer(topic)
    for number in range(6):
        producer.send(b"%d" % number, partition_key=f"k{number % 3}")
    assert official_table(broker.url, topic) == {"k0": b"3", "k1": b"4", "k2": b"5"}


# -- where a subscription begins and ends ----------------------------------------------------------


def test_the_initial_position(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send_all(producer, [b"0", b"1"])
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=InitialPosition.Earliest)
    producer.send(b"2")
    assert payloads(drain(latest)) == [b"2"]
    assert payloads(drain(earliest)) == [b"0", b"1", b"2"]


def test_a_subscription_keeps_its_place(client: pulsar.Client, topic: str) -> None:
    """The initial position is for the first time only."""
    producer = client.create_producer(topic)
    client.subscribe(topic, "s").close()
    send_all(producer, [b"0", b"1", b"2"])
    for expected in ([b"0", b"1", b"2"], [b"1", b"2"], [b"2"], []):
        consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Latest)
        messages = drain(consumer)
        assert payloads(messages) == expected
        if messages:
            consumer.acknowledge(messages[0])
        consumer.close()


def test_unsubscribing_forgets_the_place(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"0")
    consumer.receive(RECEIVE_MS)
    consumer.unsubscribe()
    again = client.subscribe(topic, "s")
    assert silent(again)
    producer.send(b"1")
    assert again.receive(RECEIVE_MS).data() == b"1"


def test_closing_and_opening_again(client: pulsar.Client, topic: str) -> None:
    for number in range(10):
        producer = client.create_producer(topic, producer_name="same")
        consumer = client.subscribe(topic, "s", consumer_name="same")
        producer.send(b"%d" % number)
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == b"%d" % number
        consumer.acknowledge(message)
        producer.close()
        consumer.close()


# -- what the broker only passes on ----------------------------------------------------------------


def test_encryption_is_the_clients_own(client: pulsar.Client, topic: str, tmp_path: Path) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    for command in (
        ["openssl", "genrsa", "-out", str(private), "2048"],
        ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    keys = pulsar.CryptoKeyReader(str(public), str(private))
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    blind = client.create_reader(
        topic,
        pulsar.MessageId.earliest,
        crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME,
    )
    for is_batched in (False, True):
        producer = client.create_producer(
            topic, encryption_key="key", crypto_key_reader=keys, batching_enabled=is_batched
        )
        producer.send(b"secret")
        assert consumer.receive(RECEIVE_MS).data() == b"secret"
        assert b"secret" not in blind.read_next(RECEIVE_MS).data()


class Person(Record):  # type: ignore[misc]
    name = String()


def test_a_schema_of_the_clients(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=JsonSchema(Person))
    client.create_producer(topic, schema=JsonSchema(Person)).send(Person(name="Ada"))
    assert consumer.receive(RECEIVE_MS).value().name == "Ada"
