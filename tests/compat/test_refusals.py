"""Strangers and mistakes get a clear no, soon, and everyone else is served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, Refused, message_metadata, subscribe
from compat.talk import RECEIVE_MS, send_all
from pulsar import ConsumerType

from milepost.wire import pulsar_pb2 as pb


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """A refusal is an answer: nobody waits for a timeout to hear it."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 25, "the client gives up after 30 s"


@pytest.mark.parametrize("name", ["persistent://public/nowhere/t", "persistent://nobody/default/t"])
def test_a_namespace_that_does_not_exist(client: pulsar.Client, name: str) -> None:
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(name)
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(name, "s")
    with pytest.raises(pulsar.TopicNotFound):
        client.create_reader(name, pulsar.MessageId.earliest)


@pytest.mark.parametrize("name", ["persistent://public/t", "bad://a/b/c", "persistent://a//c"])
def test_a_name_that_is_none(client: pulsar.Client, name: str) -> None:
    with pytest.raises(pulsar.InvalidTopicName):
        client.create_producer(name)
    with pytest.raises(pulsar.InvalidTopicName):
        client.subscribe(name, "s")


@pytest.mark.parametrize("name", ["a\nb", "..", "persistent://a/cluster/b/c", "-partition-0"])
def test_a_name_that_only_the_client_takes_for_one(client: pulsar.Client, name: str) -> None:
    """`InvalidTopicName` from a broker it takes for passing trouble; this it does not."""
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(name)
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(name, "s")


@pytest.mark.parametrize(
    "name",
    ["", "persistent://public/t", "bad://a/b/c", "persistent://a//c", "persistent://a/cluster/b/c"],
)
def test_a_name_that_is_none_is_refused_by_the_broker(broker: BrokerProcess, name: str) -> None:
    with RawClient(broker.port) as raw:
        for command in (
            pb.CommandPartitionedTopicMetadata(topic=name),
            pb.CommandLookupTopic(topic=name),
            pb.CommandProducer(topic=name, producer_id=1),
            pb.CommandSubscribe(topic=name, subscription="s", subType="Shared", consumer_id=1),
        ):
            with pytest.raises(Refused) as refused:
                raw.request(command)
            assert refused.value.code == pb.InvalidTopicName


def test_a_topic_that_may_not_be_made(own_broker: Any, connect: Any, topic: str) -> None:
    client = connect(own_broker(allow_auto_topic_creation=False))
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(topic)
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(topic, "s")


def test_a_subscription_that_may_not_be_made(own_broker: Any, connect: Any, topic: str) -> None:
    broker: BrokerProcess = own_broker(allow_auto_subscription_creation=False)
    client = connect(broker)
    client.create_producer(topic)
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(topic, "s")
    with RawClient(broker.port_of(topic)) as raw, pytest.raises(Refused) as refused:
        subscribe(raw, topic, "s")
    assert refused.value.code == pb.SubscriptionNotFound
    client.create_reader(topic, pulsar.MessageId.earliest)


def test_a_message_that_is_too_big(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(b"x" * (5 * 1024 * 1024 + 1))
    producer.send(b"small")
    assert consumer.receive(RECEIVE_MS).data() == b"small"


def test_a_producer_name_that_is_taken(client: pulsar.Client, topic: str) -> None:
    first = client.create_producer(topic, producer_name="me")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, producer_name="me")
    first.send(b"still here")
    first.close()
    client.create_producer(topic, producer_name="me").send(b"mine now")


def test_unsubscribing_while_others_are_connected(client: pulsar.Client, topic: str) -> None:
    first, second = (
        client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(2)
    )
    with pytest.raises(pulsar.BrokerMetadataError):
        first.unsubscribe()
    client.create_producer(topic).send(b"0")
    second.close()
    assert first.receive(RECEIVE_MS).data() == b"0"
    first.unsubscribe()


def test_unsubscribing_by_force(broker: BrokerProcess, topic: str) -> None:
    """The official Python client cannot say it; Java and the admin tools can."""
    with RawClient(broker.port_of(topic)) as raw, RawClient(broker.port_of(topic)) as other:
        subscribe(raw, topic, "s")
        subscribe(other, topic, "s", consumer_id=5)
        raw.request(pb.CommandUnsubscribe(consumer_id=0, force=True))
        assert other.expect(pb.CommandCloseConsumer).consumer_id == 5


def test_commands_for_a_consumer_that_is_not_there(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        for command in (
            pb.CommandSeek(consumer_id=9, message_publish_time=0),
            pb.CommandUnsubscribe(consumer_id=9),
            pb.CommandGetLastMessageId(consumer_id=9),
            pb.CommandConsumerStats(consumer_id=9),
        ):
            with pytest.raises(Refused) as refused:
                raw.request(command)
            assert refused.value.code in (pb.MetadataError, pb.ConsumerNotFound)
        raw.say(pb.CommandFlow(consumer_id=9, messagePermits=1))
        raw.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=9))
        raw.say(pb.CommandAck(consumer_id=9, ack_type=pb.CommandAck.Individual))
        raw.request(
            pb.CommandCloseConsumer(consumer_id=9)
        )  # closed already, as far as anyone knows
        raw.request(pb.CommandCloseProducer(producer_id=9))


def test_a_send_whose_checksum_is_wrong(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """Only that message is refused; ids and connection are as before."""
    consumer = client.subscribe(topic, "s")
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))
        raw.send(1, message_metadata(0), b"good")
        raw.corrupt_next = True
        raw.send_only(1, message_metadata(1), b"evil")
        failed = raw.expect(pb.CommandSendError)
        assert (failed.error, failed.sequence_id) == (pb.ChecksumError, 1)
        receipt = raw.send(1, message_metadata(2), b"good again")
        assert receipt.entry_id == 1
    assert consumer.receive(RECEIVE_MS).data() == b"good"
    assert consumer.receive(RECEIVE_MS).data() == b"good again"


def test_an_empty_subscription_name(client: pulsar.Client, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "")


def test_a_bad_client_does_not_disturb_a_good_one(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\0\0\0\4\0\0\0\0", b""):
        with RawClient(broker.port_of(topic)) as raw:
            raw.say_bytes(garbage)
    send_all(producer, [b"0"])
    assert consumer.receive(RECEIVE_MS).data() == b"0"
