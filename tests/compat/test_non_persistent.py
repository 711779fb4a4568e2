"""Non-persistent topics: dispatch without storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import batching, payloads, receive, send_all, send_batch, silent
from pulsar import ConsumerType, InitialPosition

TYPES = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]


@pytest.fixture
def fleeting(topic: str) -> str:
    return topic.replace("persistent://", "non-persistent://")


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_who_is_there_gets_it(
    client: pulsar.Client, fleeting: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(fleeting, "s", consumer_type=consumer_type)
    send_all(client.create_producer(fleeting), [b"%d" % number for number in range(50)])
    send_batch(batching(client, fleeting), [b"a", b"b", b"c"])
    messages = receive(consumer, 53)
    assert payloads(messages) == [b"%d" % number for number in range(50)] + [b"a", b"b", b"c"]
    for message in messages:
        consumer.acknowledge(message)
    assert silent(consumer)


def test_who_comes_later_has_missed_it(client: pulsar.Client, fleeting: str) -> None:
    producer = client.create_producer(fleeting)
    producer.send(b"gone")
    consumer = client.subscribe(fleeting, "s", initial_position=InitialPosition.Earliest)
    assert silent(consumer)
    producer.send(b"here")
    assert payloads(receive(consumer, 1)) == [b"here"]


def test_what_was_not_acked_does_not_come_again(client: pulsar.Client, fleeting: str) -> None:
    consumer = client.subscribe(fleeting, "s")
    client.create_producer(fleeting).send(b"once")
    assert payloads(receive(consumer, 1)) == [b"once"]
    consumer.redeliver_unacknowledged_messages()
    consumer.close()
    assert silent(client.subscribe(fleeting, "s"))


def test_a_partitioned_one(client: pulsar.Client, broker: BrokerProcess, fleeting: str) -> None:
    broker.create_partitioned_topic(fleeting, 3)
    assert len(client.get_topic_partitions(fleeting)) == 3
    consumer = client.subscribe(fleeting, "s")
    sent = [b"%d" % number for number in range(30)]
    send_all(client.create_producer(fleeting), sent)
    assert sorted(payloads(receive(consumer, 30))) == sorted(sent)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_nothing_of_it_survives_a_restart(own_broker: Any, connect: Any, fleeting: str) -> None:
    broker = own_broker()
    client = connect(broker)
    consumer = client.subscribe(fleeting, "s")
    producer = client.create_producer(fleeting)
    producer.send(b"before")
    assert payloads(receive(consumer, 1)) == [b"before"]
    journal = broker.journal_of(fleeting)
    size = _size(journal)
    for _ in range(10):
        producer.send(b"x" * 10_000)
    assert payloads(receive(consumer, 10)) == [b"x" * 10_000] * 10
    assert _size(journal) == size
    broker.restart()
    late = connect(broker).subscribe(fleeting, "other", initial_position=InitialPosition.Earliest)
    assert silent(late)
