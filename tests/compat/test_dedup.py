"""Deduplication by sequence ids: through reconnects, restarts and crashes."""

from __future__ import annotations

import threading
from typing import Any

import _pulsar
import pulsar
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, silent
from pulsar import InitialPosition

from milepost.wire import pulsar_pb2 as pb

SETTINGS = {"deduplication": True}


def test_a_sequence_id_is_stored_once(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me")
    assert producer.last_sequence_id() == -1
    for number in range(10):
        producer.send(b"%d" % number)
    assert producer.last_sequence_id() == 9
    for number in (3, 9, 1, 7, 9):  # 0 means "number it yourself" to the official client
        producer.send(b"again %d" % number, sequence_id=number)
    producer.send(b"10", sequence_id=10)
    assert payloads(drain(consumer)) == [b"%d" % number for number in range(11)]
    producer.close()
    again = client.create_producer(topic, producer_name="me")
    assert again.last_sequence_id() == 10
    again.send(b"once more", sequence_id=10)
    again.send(b"11")
    assert payloads(drain(consumer)) == [b"11"]


def test_producers_are_told_apart_by_name(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    for name in ("one", "other"):
        producer = client.create_producer(topic, producer_name=name)
        assert producer.last_sequence_id() == -1
        producer.send(name.encode(), sequence_id=5)
    assert payloads(receive(consumer, 2)) == [b"one", b"other"]


def test_ids_may_have_gaps(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me", initial_sequence_id=99)
    for number in (100, 200, 150, 200, 201, 1000):
        producer.send(b"%d" % number, sequence_id=number)
    assert payloads(drain(consumer)) == [b"100", b"200", b"201", b"1000"]


def test_a_batch_sent_again_is_one(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic, producer_name="me")
    for _ in range(2):
        for number in range(1, 6):
            producer.send_async(b"%d" % number, None, sequence_id=number)
        producer.flush()
    assert payloads(drain(consumer)) == [b"%d" % number for number in range(1, 6)]


def test_ids_are_remembered_through_a_crash(own_broker: Any, connect: Any, topic: str) -> None:
    broker: BrokerProcess = own_broker(**SETTINGS)
    client = connect(broker)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me")
    for number in range(10):
        producer.send(b"%d" % number)
    for kill in (True, False):
        broker.restart(kill=kill)
        # The same client, reconnected; and the application sends what it is not sure of.
        for number in (9, 8, 1):
            producer.send(b"again %d" % number, sequence_id=number)
    other = connect(broker)
    producer.close()
    fresh = other.create_producer(topic, producer_name="me")
    assert fresh.last_sequence_id() == 9
    fresh.send(b"10")
    assert payloads(receive(consumer, 11)) == [b"%d" % number for number in range(11)]
    assert silent(consumer)


def test_a_producer_that_never_stops_while_the_broker_is_killed(
    own_broker: Any, connect: Any, topic: str
) -> None:
    """Each message once and in order, whatever was on its way when the broker died."""
    broker: BrokerProcess = own_broker(**SETTINGS)
    client = connect(broker)
    producer = client.create_producer(
        topic, producer_name="me", block_if_queue_full=True, max_pending_messages=200
    )
    count, receipts, failed = 6000, threading.Semaphore(0), []

    def receipt(result: Any, message_id: Any) -> None:
        if result != _pulsar.Result.Ok:
            failed.append(result)
        receipts.release()

    def publish() -> None:
        for number in range(count):
            producer.send_async(b"%d" % number, receipt)

    publishing = threading.Thread(target=publish)
    publishing.start()
    seen = 0
    for milestone in (1000, 3000):
        while seen < milestone:
            assert receipts.acquire(timeout=RECEIVE_MS / 1000)
            seen += 1
        broker.restart()
    while seen < count:
        assert receipts.acquire(timeout=RECEIVE_MS / 1000)
        seen += 1
    publishing.join()
    assert not failed
    consumer = connect(broker).subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    assert payloads(receive(consumer, count)) == [b"%d" % number for number in range(count)]
    assert silent(consumer)


def test_a_duplicate_is_answered_in_its_turn(broker: BrokerProcess, topic: str) -> None:
    """Receipts leave in the order of the sends, though a duplicate is known before the others are
    on disk."""
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))
        raw.send(1, message_metadata(0), b"0")
        for sequence_id in (1, 0, 2, 1, 3):
            raw.send_only(1, message_metadata(sequence_id), b"x")
        answers = []
        for _ in range(5):
            answer = raw.next_answer()
            answers.append((answer.sequence_id, getattr(answer, "entry_id", "error")))
        # 1 was on its way when it came again, or stored by then: whichever the broker could say.
        assert answers in (
            [(1, 1), (0, -1), (2, 2), (1, "error"), (3, 3)],
            [(1, 1), (0, -1), (2, 2), (1, -1), (3, 3)],
        )


def test_deduplication_is_off_by_default(own_broker: Any, connect: Any, topic: str) -> None:
    client = connect(own_broker())
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me")
    for number in (5, 5, 3):
        producer.send(b"%d" % number, sequence_id=number)
    assert payloads(drain(consumer)) == [b"5", b"5", b"3"]
    producer.close()
    assert client.create_producer(topic, producer_name="me").last_sequence_id() == -1


def test_a_batch_is_known_by_its_first_id(client: pulsar.Client, topic: str) -> None:
    """The official client says no more of it."""
    consumer = client.subscribe(topic, "s")
    producer = batching(client, topic, producer_name="me")
    for number in range(1, 11):
        producer.send_async(b"%d" % number, None, sequence_id=number)
    producer.flush()
    assert len(receive(consumer, 10)) == 10
    producer.close()
    again = client.create_producer(topic, producer_name="me")
    again.send(b"not new", sequence_id=1)
    assert silent(consumer)
    again.send(b"new", sequence_id=11)
    assert consumer.receive(RECEIVE_MS).data() == b"new"
