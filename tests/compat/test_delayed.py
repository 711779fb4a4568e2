"""Delayed delivery with the official client: exact, also through restarts."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pulsar
import pytest
from compat.administer import make_topic, set_policy, stats, until
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata
from compat.talk import RECEIVE_MS, payloads, receive, silent
from pulsar import ConsumerType, InitialPosition

from milepost.wire import pulsar_pb2 as pb

TYPES = [ConsumerType.Shared, ConsumerType.KeyShared]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def subscribe(client: pulsar.Client, topic: str, kind: Any = ConsumerType.Shared) -> Any:
    return client.subscribe(
        topic, "s", consumer_type=kind, initial_position=InitialPosition.Earliest
    )


@pytest.mark.parametrize("kind", TYPES, ids=["shared", "key-shared"])
def test_messages_come_at_their_time(client: pulsar.Client, topic: str, kind: Any) -> None:
    consumer = subscribe(client, topic, kind)
    producer = client.create_producer(topic)
    began = now_ms()
    producer.send(b"later", deliver_at=began + 900)
    producer.send(b"soon", deliver_after=timedelta(milliseconds=400))
    producer.send(b"now")
    assert consumer.receive(RECEIVE_MS).data() == b"now"
    arrivals = []
    for _ in range(2):
        message = consumer.receive(RECEIVE_MS)
        arrivals.append((message.data(), now_ms() - began))
    (soon, soon_ms), (later, later_ms) = arrivals
    assert (soon, later) == (b"soon", b"later")
    # Never before; and soon after, as far as a busy machine allows.
    assert 400 <= soon_ms < 900 + 2000
    assert 900 <= later_ms < 900 + 2000


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Failover])
def test_other_types_deliver_at_once(client: pulsar.Client, topic: str, kind: Any) -> None:
    consumer = subscribe(client, topic, kind)
    client.create_producer(topic).send(b"x", deliver_after=timedelta(hours=1))
    assert consumer.receive(RECEIVE_MS).data() == b"x"


@pytest.mark.parametrize("kill", [True, False])
def test_a_restart_changes_no_time(own_broker: Any, connect: Any, topic: str, kill: bool) -> None:
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    producer = client.create_producer(topic)
    due_ms = now_ms() + 6000
    producer.send(b"delayed", deliver_at=due_ms)
    producer.send(b"now")
    consumer = subscribe(client, topic)
    consumer.acknowledge(consumer.receive(RECEIVE_MS))
    until(lambda: _delayed(broker, topic) == 1, "one message waits")
    broker.restart(kill=kill)
    message = consumer.receive(RECEIVE_MS + 6000)
    while message.data() != b"delayed":  # its ack may have been on its way
        message = consumer.receive(RECEIVE_MS + 6000)
    # How much later is the client's matter: it may take seconds to come back.
    assert now_ms() >= due_ms


def _delayed(broker: BrokerProcess, topic: str) -> int:
    return int(stats(broker, topic)["subscriptions"]["s"]["msgDelayed"])


def test_delayed_messages_are_counted_and_skipped_with_the_backlog(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    consumer = subscribe(client, topic)
    producer = client.create_producer(topic)
    for number in range(5):
        producer.send(b"%d" % number, deliver_after=timedelta(hours=1))
    until(lambda: _delayed(broker, topic) == 5, "five messages wait")
    found = stats(broker, topic)["subscriptions"]["s"]
    assert found["msgBacklog"] == 5
    assert silent(consumer)


def test_the_policy_lets_them_go(client: pulsar.Client, broker: BrokerProcess, topic: str) -> None:
    consumer = subscribe(client, topic)
    producer = client.create_producer(topic)
    producer.send(b"x", deliver_after=timedelta(hours=1))
    until(lambda: _delayed(broker, topic) == 1, "one message waits")
    set_policy(broker, topic, "delayedDelivery", {"active": False, "tickTime": 1000})
    assert payloads(receive(consumer, 1)) == [b"x"]


def test_too_long_a_delay_is_refused(broker: BrokerProcess, topic: str) -> None:
    """Said by hand: the official client sends again what is refused so, until it gives up."""
    make_topic(broker, topic)
    limit = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 1000}
    set_policy(broker, topic, "delayedDelivery", limit)
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))
        raw.send_only(1, message_metadata(0, deliver_at_time=now_ms() + 60_000), b"x")
        assert raw.next_answer().error == pb.NotAllowedError
        raw.send(1, message_metadata(1), b"x")
