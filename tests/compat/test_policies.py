"""Policies seen to act by the official client, on connections that are open, and after a restart."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.administer import make_topic, path_of, set_policy, stats, until
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata
from compat.talk import drain, payloads, receive, send_all, silent
from pulsar import ConsumerType, InitialPosition

from milepost.wire import pulsar_pb2 as pb

SHARED = {"consumer_type": ConsumerType.Shared}


def test_producers_past_the_limit_are_refused(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    first = client.create_producer(topic)
    set_policy(broker, topic, "maxProducers", 1)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    first.send(b"still here")
    set_policy(broker, topic, "maxProducers", None)
    client.create_producer(topic).send(b"and here")


def test_consumers_and_subscriptions_past_the_limit_are_refused(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    client.subscribe(topic, "s", **SHARED)
    set_policy(broker, topic, "maxConsumersPerSubscription", 1)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", **SHARED)
    set_policy(broker, topic, "maxConsumersPerSubscription", None)
    set_policy(broker, topic, "maxSubscriptionsPerTopic", 1)
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "other", **SHARED)
    client.subscribe(topic, "s", **SHARED)


def test_a_namespace_says_it_for_its_topics_and_a_topic_for_itself(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    namespace = "/admin/v2/namespaces/public/strict"
    assert broker.rest("PUT", namespace)[0] in (204, 409)
    assert broker.rest("POST", f"{namespace}/maxProducersPerTopic", 1)[0] == 204
    strict = topic.replace("/default/", "/strict/")
    first = client.create_producer(strict)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(strict)
    set_policy(broker, strict, "maxProducers", 2)
    client.create_producer(strict).send(b"x")
    assert broker.rest("GET", f"{path_of(strict)}/maxProducers?applied=true") == (200, 2)
    first.send(b"y")


def test_unacked_messages_are_limited_while_connected(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", **SHARED)
    set_policy(broker, topic, "maxUnackedMessagesOnConsumer", 5)
    producer = client.create_producer(topic)
    send_all(producer, [b"%d" % number for number in range(20)])
    held = receive(consumer, 5)
    assert silent(consumer)
    for message in held:
        consumer.acknowledge(message)
    assert len(receive(consumer, 5)) == 5
    set_policy(broker, topic, "maxUnackedMessagesOnConsumer", None)
    assert len(receive(consumer, 10)) == 10


def test_large_messages_are_refused(broker: BrokerProcess, topic: str) -> None:
    """Said by hand: the official client sends again what is refused so, until it gives up."""
    make_topic(broker, topic)
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))
        raw.send(1, message_metadata(0), b"x" * 5000)
        set_policy(broker, topic, "maxMessageSize", 1000)
        raw.send_only(1, message_metadata(1), b"x" * 5000)
        assert raw.next_answer().error == pb.NotAllowedError
        raw.send(1, message_metadata(2), b"x" * 500)


def test_a_publish_rate_slows_down_and_loses_nothing(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"first")
    rate = {"publishThrottlingRateInMsg": 200, "publishThrottlingRateInByte": -1}
    set_policy(broker, topic, "publishRate", rate)
    sent = [b"%d" % number for number in range(500)]
    began = time.monotonic()
    for payload in sent:
        producer.send(payload)
    # One second's worth goes at once, the rest at the rate.
    assert time.monotonic() - began >= 1.3
    assert payloads(receive(consumer, 501)) == [b"first", *sent]
    set_policy(broker, topic, "publishRate", None)
    began = time.monotonic()
    send_all(producer, sent)
    assert payloads(receive(consumer, 500)) == sent


def test_a_held_producer_is_let_go_when_the_policy_is_removed(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"first")
    rate = {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": -1}
    set_policy(broker, topic, "publishRate", rate)
    for number in range(100):
        producer.send_async(b"%d" % number, None)
    until(lambda: stats(broker, topic)["msgInCounter"] >= 2, "something came")
    set_policy(broker, topic, "publishRate", None)
    producer.flush()  # at one a second it would take more than a minute
    assert stats(broker, topic)["msgInCounter"] == 101


def test_a_dispatch_rate_slows_consumers_down(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    make_topic(broker, topic)
    rate = {"dispatchThrottlingRateInMsg": 100, "dispatchThrottlingRateInByte": -1}
    set_policy(broker, topic, "subscriptionDispatchRate", rate)
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    sent = [b"%d" % number for number in range(250)]
    began = time.monotonic()
    send_all(client.create_producer(topic), sent)
    assert payloads(receive(consumer, 250)) == sent
    assert time.monotonic() - began >= 1.3


def test_a_consumer_that_comes_too_often_is_refused(
    client: pulsar.Client, connect: Any, broker: BrokerProcess, topic: str
) -> None:
    make_topic(broker, topic)
    rate = {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 60}
    set_policy(broker, topic, "subscribeRate", rate)
    client.subscribe(topic, "s", consumer_name="me").close()
    with pytest.raises(pulsar.PulsarException):
        connect(broker).subscribe(topic, "s", consumer_name="me")
    set_policy(broker, topic, "subscribeRate", None)
    connect(broker).subscribe(topic, "s", consumer_name="me")


def test_deduplication_is_switched_under_a_producer(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    """What is sent behind the answer is judged by it."""
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me")
    producer.send(b"0", sequence_id=5)
    producer.send(b"1", sequence_id=5)
    set_policy(broker, topic, "deduplicationEnabled", True)
    producer.send(b"2", sequence_id=6)
    producer.send(b"again", sequence_id=6)
    producer.send(b"3", sequence_id=7)
    assert payloads(drain(consumer)) == [b"0", b"1", b"2", b"3"]
    set_policy(broker, topic, "deduplicationEnabled", False)
    producer.send(b"4", sequence_id=7)
    assert payloads(receive(consumer, 1)) == [b"4"]


def test_types_and_automatic_creation_can_be_forbidden(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    make_topic(broker, topic)
    set_policy(broker, topic, "subscriptionTypesEnabled", ["Shared"])
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "s")
    client.subscribe(topic, "s", **SHARED)
    set_policy(broker, topic, "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "other", **SHARED)


@pytest.mark.parametrize("kill", [True, False])
def test_policies_outlive_the_broker(own_broker: Any, connect: Any, topic: str, kill: bool) -> None:
    broker: BrokerProcess = own_broker()
    make_topic(broker, topic)
    set_policy(broker, topic, "maxProducers", 1)
    broker.restart(kill=kill)
    assert broker.rest("GET", f"{path_of(topic)}/maxProducers") == (200, 1)
    client = connect(broker)
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic)
    producer.send(b"x")


def test_where_encryption_is_required_plain_producers_are_kept_out(
    broker: BrokerProcess, connect: Callable[..., pulsar.Client], tmp_path: Path
) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    for command in (
        ["openssl", "genrsa", "-out", str(private), "2048"],
        ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    keys = pulsar.CryptoKeyReader(str(public), str(private))
    namespace, topic = "/admin/v2/namespaces/public/sealed", "persistent://public/sealed/t"
    assert broker.rest("PUT", namespace)[0] == 204
    # A client takes the refusal for one that may pass, and asks again as long as it may.
    client = connect(broker, operation_timeout_seconds=2)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    client.create_producer(topic).send(b"plain")
    assert broker.rest("POST", f"{namespace}/encryptionRequired", True)[0] == 204
    until(lambda: not stats(broker, topic)["publishers"], "the plain producer is closed")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    client.create_producer(topic, encryption_key="key", crypto_key_reader=keys).send(b"sealed")
    assert payloads(receive(consumer, 2)) == [b"plain", b"sealed"]
