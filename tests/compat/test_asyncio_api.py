"""The official client's asyncio interface."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pulsar
import pulsar.asyncio
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import id_tuple
from pulsar import ConsumerType, InitialPosition

TIMEOUT_S = 60


def run(broker: BrokerProcess, story: Callable[[pulsar.asyncio.Client], Awaitable[None]]) -> None:
    """Run a story with a client of its own."""

    async def told() -> None:
        client = pulsar.asyncio.Client(
            broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(client)
        finally:
            await client.close()

    asyncio.run(told())


def test_send_receive_ack(broker: BrokerProcess, topic: str) -> None:
    async def story(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        producer = await client.create_producer(topic)
        ids = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(20)))
        for number in range(20):
            message = await consumer.receive()
            assert message.data() == b"%d" % number
            assert id_tuple(message.message_id()) == id_tuple(ids[number])
            await consumer.acknowledge(message)
        await consumer.close()
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        await producer.send(b"next")
        assert (await again.receive()).data() == b"next"

    run(broker, story)


def test_batches_and_cumulative_acks(broker: BrokerProcess, topic: str) -> None:
    async def story(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s", batch_index_ack_enabled=True)
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        sends = [asyncio.ensure_future(producer.send(b"%d" % number)) for number in range(10)]
        await asyncio.sleep(0)
        await producer.flush()
        ids = await asyncio.gather(*sends)
        assert [one.batch_index() for one in ids] == list(range(10))
        messages = [await consumer.receive() for _ in range(10)]
        await consumer.acknowledge_cumulative(messages[5])
        await consumer.acknowledge(messages[8])
        await consumer.close()
        again = await client.subscribe(topic, "s")
        left = [(await again.receive()).data() for _ in range(3)]
        assert left == [b"6", b"7", b"9"]

    run(broker, story)


def test_seek_and_last_id(broker: BrokerProcess, topic: str) -> None:
    async def story(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        ids = [await producer.send(b"%d" % number) for number in range(5)]
        for _ in range(5):
            await consumer.acknowledge(await consumer.receive())
        assert id_tuple(await consumer.get_last_message_id()) == id_tuple(ids[4])
        await consumer.seek(ids[1])
        assert [(await consumer.receive()).data() for _ in range(3)] == [b"2", b"3", b"4"]
        await consumer.seek(0)
        assert (await consumer.receive()).data() == b"0"

    run(broker, story)


def test_a_reader(broker: BrokerProcess, topic: str) -> None:
    async def story(client: pulsar.asyncio.Client) -> None:
        producer = await client.create_producer(topic)
        reader = await client.create_reader(topic, pulsar.MessageId.earliest)
        assert not await reader.has_message_available()
        for number in range(5):
            await producer.send(b"%d" % number)
        found = []
        while await reader.has_message_available():
            found.append((await reader.read_next()).data())
        assert found == [b"%d" % number for number in range(5)]
        await reader.seek(pulsar.MessageId.wrap(pulsar.MessageId.earliest))
        assert (await reader.read_next()).data() == b"0"
        await reader.close()

    run(broker, story)


def test_negative_acks_and_unsubscribing(broker: BrokerProcess, topic: str) -> None:
    async def story(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(
            topic, "s", consumer_type=ConsumerType.Shared, negative_ack_redelivery_delay_ms=50
        )
        producer = await client.create_producer(topic)
        await producer.send(b"0")
        await consumer.negative_acknowledge(await consumer.receive())
        again = await consumer.receive()
        assert (again.data(), again.redelivery_count()) == (b"0", 1)
        await consumer.unsubscribe()
        fresh = await client.subscribe(topic, "s", initial_position=InitialPosition.Latest)
        await producer.send(b"1")
        assert (await fresh.receive()).data() == b"1"

    run(broker, story)


def test_partitions_and_several_topics(broker: BrokerProcess, topic: str) -> None:
    broker.create_partitioned_topic(topic, 2)

    async def story(client: pulsar.asyncio.Client) -> None:
        assert len(await client.get_topic_partitions(topic)) == 2
        consumer = await client.subscribe([topic, f"{topic}-other"], "s")
        for name in (topic, f"{topic}-other"):
            producer = await client.create_producer(name)
            for number in range(4):
                await producer.send(b"%d" % number)
        found = [(await consumer.receive()).data() for _ in range(8)]
        assert sorted(found) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]

    run(broker, story)


def test_errors(broker: BrokerProcess, topic: str) -> None:
    async def story(client: pulsar.asyncio.Client) -> None:
        with pytest.raises(pulsar.asyncio.PulsarException) as refused:
            await client.create_producer("persistent://public/nowhere/t")
        assert refused.value.error() == pulsar.Result.TopicNotFound
        first = await client.subscribe(topic, "s")
        with pytest.raises(pulsar.asyncio.PulsarException) as refused:
            await client.subscribe(topic, "s")
        assert refused.value.error() == pulsar.Result.ConsumerBusy
        await first.close()
        await client.subscribe(topic, "s")

    run(broker, story)
