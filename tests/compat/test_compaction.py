"""Compaction: the last message of each key, for readers that ask for it."""

from __future__ import annotations

import time
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import batching
from stage.official_table import OfficialTable

DEADLINE_S = 30


def compact(broker: BrokerProcess, topic: str) -> None:
    path = f"/admin/v2/{topic.replace('://', '/')}/compaction"
    status, answer = broker.rest("PUT", path)
    assert status == 204, answer
    deadline = time.monotonic() + DEADLINE_S
    while (answer := broker.rest("GET", path)[1])["status"] == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.02)  # sleep: asks again until the deadline
    assert answer["status"] == "SUCCESS", answer


def publish(producer: pulsar.Producer, *messages: tuple[str, bytes]) -> None:
    for key, value in messages:
        producer.send_async(value, lambda *_: None, partition_key=key)
    producer.flush()


def read(client: pulsar.Client, topic: str, *, compacted: bool = True) -> list[tuple[str, bytes]]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=compacted)
    found = []
    while reader.has_message_available():
        message = reader.read_next(5000)
        found.append((message.partition_key(), message.data()))
    reader.close()
    return found


@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
def test_the_last_of_each_key_is_read(
    client: pulsar.Client, broker: BrokerProcess, topic: str, is_batched: bool
) -> None:
    producer = batching(client, topic) if is_batched else client.create_producer(topic)
    publish(producer, *[(f"k{number % 7}", b"%d" % number) for number in range(100)])
    publish(producer, ("k3", b""), ("gone", b""))
    compact(broker, topic)
    expected = {f"k{number % 7}": b"%d" % number for number in range(100) if number % 7 != 3}
    found = read(client, topic)
    assert dict(found) == expected
    assert len(found) == len(expected)
    assert len(read(client, topic, compacted=False)) == 102
    publish(producer, ("k1", b"new"))
    assert read(client, topic)[-1] == ("k1", b"new")
    compact(broker, topic)
    assert dict(read(client, topic)) == {**expected, "k1": b"new"}
    assert len(read(client, topic)) == len(expected)


def test_a_table_view_shows_the_last_of_each_key(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    producer = batching(client, topic)
    publish(producer, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("c", b""))
    compact(broker, topic)
    with OfficialTable(broker.url, topic) as table:
        assert table.content() == {"a": b"3", "b": b"2"}
        publish(producer, ("d", b"5"))
        deadline = time.monotonic() + DEADLINE_S
        while "d" not in table.content():
            assert time.monotonic() < deadline
            time.sleep(0.02)  # sleep: asks again until the deadline


def test_it_survives_a_kill(own_broker: Any, connect: Any, topic: str) -> None:
    broker = own_broker()
    client = connect(broker)
    producer = client.create_producer(topic)
    publish(producer, ("a", b"1"), ("b", b"2"), ("a", b"3"))
    compact(broker, topic)
    broker.restart()
    assert read(connect(broker), topic) == [("b", b"2"), ("a", b"3")]


def test_killed_in_the_middle_it_leaves_all_or_the_last_of_each_key(
    own_broker: Any, connect: Any, topic: str
) -> None:
    """Never a mixture: a reader gets the whole topic, or what compaction keeps of it."""
    broker = own_broker()
    producer = batching(connect(broker), topic)
    sent = [(f"k{number % 50}", b"%d" % number) for number in range(5000)]
    for first in range(0, len(sent), 500):  # what the producer's queue holds
        publish(producer, *sent[first : first + 500])
    status, answer = broker.rest("PUT", f"/admin/v2/{topic.replace('://', '/')}/compaction")
    assert status == 204, answer
    broker.restart()
    found = read(connect(broker), topic)
    assert found in (sent, sent[-50:])
    compact(broker, topic)
    assert read(connect(broker), topic) == sent[-50:]
