"""The official package's documentation shows how it is used; the same programs, with our import.

Each is a program as that documentation has it: produce, consume, read, listen, several topics, schemas,
delays, policies. What cannot be shown (OAuth 2, functions) is listed in docs/client.md.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import milepost as pulsar
import milepost.testing
from client.harness import PULSAR_URL
from milepost.aio import Client
from milepost.schemas import AvroSchema, Integer, JsonSchema, Record, String, StringSchema


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A broker of their own, for their topics have names of their own; or a fresh Apache Pulsar."""
    if PULSAR_URL is not None:
        yield PULSAR_URL
        return
    with milepost.testing.broker() as running:
        yield running.url


def test_a_producer(url: str) -> None:
    client = pulsar.Client(url)
    producer = client.create_producer("my-topic")
    for number in range(10):
        producer.send(f"Hello-{number}".encode())
    client.close()


def test_a_consumer(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe("my-topic-2", "my-subscription")
    producer = client.create_producer("my-topic-2")
    for number in range(10):
        producer.send(f"Hello-{number}".encode())
    seen = 0
    while seen < 10:
        msg = consumer.receive()
        try:
            assert msg.data() == f"Hello-{seen}".encode()
            assert msg.message_id() is not None
            consumer.acknowledge(msg)
        except Exception:
            consumer.negative_acknowledge(msg)
            raise
        seen += 1
    client.close()


def test_asynchronous_sends(url: str) -> None:
    client = pulsar.Client(url)
    producer = client.create_producer(
        "my-topic-3",
        block_if_queue_full=True,
        batching_enabled=True,
        batching_max_publish_delay_ms=10,
    )
    sent: queue.Queue[Any] = queue.Queue()

    def send_callback(res: Any, msg_id: Any) -> None:
        sent.put((res, msg_id))

    for number in range(10):
        producer.send_async(f"Hello-{number}".encode(), send_callback)
    producer.flush()
    results = [sent.get(timeout=10) for _ in range(10)]
    assert {res for res, _ in results} == {pulsar.Result.Ok}
    client.close()


def test_a_reader(url: str) -> None:
    client = pulsar.Client(url)
    producer = client.create_producer("my-topic-4")
    for number in range(5):
        producer.send(b"%d" % number)
    reader = client.create_reader("my-topic-4", pulsar.MessageId.earliest)
    while reader.has_message_available():
        msg = reader.read_next()
    kept = msg.message_id().serialize()
    again = client.create_reader(
        "my-topic-4", pulsar.MessageId.deserialize(kept), start_message_id_inclusive=True
    )
    assert again.read_next().data() == b"4"
    client.close()


def test_listeners(url: str) -> None:
    heard: queue.Queue[bytes] = queue.Queue()

    def my_listener(consumer: Any, message: Any) -> None:
        heard.put(message.data())
        consumer.acknowledge(message)

    client = pulsar.Client(url)
    client.subscribe("my-topic-5", "my-subscription", message_listener=my_listener)
    client.create_reader(
        "my-topic-5",
        pulsar.MessageId.earliest,
        reader_listener=lambda reader, message: heard.put(message.data()),
    )
    client.create_producer("my-topic-5").send(b"hello")
    assert [heard.get(timeout=10), heard.get(timeout=10)] == [b"hello", b"hello"]
    client.close()


def test_several_topics(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe(["topic-a-1", "topic-a-2", "topic-a-3"], "my-subscription")
    for number in (1, 2, 3):
        client.create_producer(f"topic-a-{number}").send(b"%d" % number)
    assert {consumer.receive(10_000).data() for _ in range(3)} == {b"1", b"2", b"3"}
    matching = client.subscribe(
        re.compile("persistent://public/default/topic-a-*"),
        "by-pattern",
        consumer_type=pulsar.ConsumerType.Shared,
    )
    matching.close()
    client.close()


class Example(Record):
    a = String()
    b = Integer()


@pytest.mark.parametrize("schema_class", [AvroSchema, JsonSchema])
def test_schemas(url: str, schema_class: Any) -> None:
    name = schema_class.__name__
    client = pulsar.Client(url)
    consumer = client.subscribe(f"my-{name}", "my-subscription", schema=schema_class(Example))
    producer = client.create_producer(f"my-{name}", schema=schema_class(Example))
    producer.send(Example(a="Hello", b=1))
    msg = consumer.receive(10_000)
    ex = msg.value()
    assert (ex.a, ex.b) == ("Hello", 1)
    consumer.acknowledge(msg)
    with pytest.raises(pulsar.PulsarException):
        producer.send("not an example")
    client.close()


def test_text(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe("my-text", "s", schema=StringSchema())
    client.create_producer("my-text", schema=pulsar.schema.StringSchema()).send("grüß Gott")
    assert consumer.receive(10_000).value() == "grüß Gott"
    client.close()


def test_a_seek(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe("my-topic-6", "my-subscription")
    producer = client.create_producer("my-topic-6")
    ids = [producer.send(b"%d" % number) for number in range(5)]
    consumer.seek(ids[2])
    assert consumer.receive(10_000).data() == b"3"
    consumer.seek(pulsar.MessageId.earliest)
    msg = consumer.receive(10_000)
    assert msg.data() == b"0"
    consumer.seek(msg.publish_timestamp())
    assert consumer.receive(10_000).data() == b"0"
    assert consumer.get_last_message_id() == ids[4]
    client.close()


def test_batches_received_by_policy(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe(
        "my-topic-7",
        "my-subscription",
        batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(3, -1, 5000),
    )
    producer = client.create_producer("my-topic-7")
    for number in range(6):
        producer.send(b"%d" % number)
    messages = consumer.batch_receive()
    assert len(messages) == 3
    for msg in messages:
        consumer.acknowledge(msg)
    client.close()


def test_delays(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe("my-topic-8", "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer("my-topic-8")
    producer.send(b"later", deliver_after=timedelta(milliseconds=1))
    assert consumer.receive(10_000).data() == b"later"
    client.close()


def test_policies(url: str) -> None:
    client = pulsar.Client(url)
    client.subscribe(
        "my-topic-9",
        "my-subscription",
        consumer_type=pulsar.ConsumerType.KeyShared,
        key_shared_policy=pulsar.ConsumerKeySharedPolicy(
            key_shared_mode=pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 100), (200, 65535)]
        ),
    )
    client.subscribe(
        "my-topic-10",
        "my-subscription",
        consumer_type=pulsar.ConsumerType.Shared,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(max_redeliver_count=3),
        negative_ack_redelivery_delay_ms=100,
        properties={"color": "blue"},
    )
    client.close()


def test_loggers_and_options(url: str) -> None:
    for logger in (
        pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        logging.getLogger("pulsar"),
        None,
    ):
        client = pulsar.Client(
            url,
            logger=logger,
            io_threads=2,
            operation_timeout_seconds=30,
            connection_timeout_ms=5000,
        )
        client.create_producer("my-topic-11").send(b"x")
        client.close()
    logging.getLogger("milepost.client").setLevel(logging.NOTSET)


def test_a_table_view(url: str) -> None:
    client = pulsar.Client(url)
    table_view = client.create_table_view("my-table", schema=pulsar.schema.StringSchema())
    producer = client.create_producer("my-table", schema=pulsar.schema.StringSchema())
    heard: queue.Queue[Any] = queue.Queue()
    table_view.for_each_and_listen(lambda key, value: heard.put((key, value)))
    producer.send("value-1", partition_key="key")
    assert heard.get(timeout=30) == ("key", "value-1")
    assert (table_view.get("key"), len(table_view)) == ("value-1", 1)
    client.close()


def test_arguments_by_their_places(url: str) -> None:
    client = pulsar.Client(url, None, 30)
    text = pulsar.schema.StringSchema()
    consumer = client.subscribe("my-places", "s", pulsar.ConsumerType.Shared, text)
    producer = client.create_producer("my-places", "my-name", text)
    producer.send("hello", {"color": "blue"}, "my-key")
    producer.send_async("again", None, {"color": "red"}, "my-key")
    producer.flush()
    for words, color in (("hello", "blue"), ("again", "red")):
        msg = consumer.receive(10_000)
        assert (msg.value(), msg.properties(), msg.partition_key()) == (
            words,
            {"color": color},
            "my-key",
        )
        assert msg.producer_name() == "my-name"
    client.close()


def test_errors_by_their_names(url: str) -> None:
    client = pulsar.Client(url)
    consumer = client.subscribe("my-topic-12", "my-subscription")
    with pytest.raises(pulsar.Timeout):
        consumer.receive(timeout_millis=1)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe("my-topic-12", "my-subscription")
    client.close()
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive()


def test_asyncio(url: str) -> None:
    async def main() -> None:
        client = Client(url)
        producer = await client.create_producer("my-topic-13")
        consumer = await client.subscribe("my-topic-13", "s")
        await producer.send(b"hello")
        msg = await consumer.receive()
        await consumer.acknowledge(msg)
        await producer.send(b"again")
        await consumer.negative_acknowledge(await consumer.receive())
        await client.close()

    asyncio.run(main())
