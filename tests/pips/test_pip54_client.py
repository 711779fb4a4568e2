"""PIP-54: acknowledgement at batch index level. One test a sentence that promises something of the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from client.harness import check_backlog

from milepost.aio import Client
from milepost.client.policies import ConsumerType
from milepost.positions import MessageId

Connect = Callable[..., Client]
TYPES = list(ConsumerType)


async def published(client: Client, topic: str, count: int = 5) -> list[MessageId]:
    producer = await client.create_producer(topic)
    sent = [producer.send_nowait(b"%d" % number) for number in range(count)]
    return [await one for one in sent]


async def again(client: Client, topic: str, kind: ConsumerType, count: int) -> list[bytes]:
    consumer = await client.subscribe(topic, "s", kind)
    return [(await consumer.receive(10_000)).data() for _ in range(count)]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("form", ["message", "id", "bytes", "sent"])
async def test_one_message_of_a_batch_is_acked_on_the_wire(
    connect: Connect, topic: str, kind: ConsumerType, form: str
) -> None:
    """ "The client needs to send the batch index ack information to the broker so that the broker can
    maintain the batch index ack status." From the message, from its id, from bytes, from the producer."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", kind)
        sent = await published(client, topic)
        messages = [await consumer.receive(10_000) for _ in range(5)]
        for place in (1, 3):
            message = messages[place]
            named: Any = {
                "message": message,
                "id": message.message_id(),
                "bytes": MessageId.deserialize(message.message_id().serialize()),
                "sent": sent[place],
            }[form]
            await consumer.acknowledge(named)
        await check_backlog(consumer, 3)
        await consumer.close()
        assert await again(client, topic, kind, 3) == [b"0", b"2", b"4"]


@pytest.mark.parametrize("kind", TYPES)
async def test_the_client_filters_what_the_broker_says_is_acked(
    connect: Connect, topic: str, kind: ConsumerType
) -> None:
    """ "When the broker dispatch messages, it will carry the batch index that has been acked. The client
    will filter out the batch index that has been acked." And merges it: the rest completes the batch."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", kind)
        await published(client, topic)
        messages = [await consumer.receive(10_000) for _ in range(5)]
        await consumer.acknowledge(messages[:4])
        consumer.redeliver_unacknowledged_messages()
        last = await consumer.receive(10_000)
        assert last.data() == b"4"
        assert last.entry.pending == 0b10000
        await consumer.acknowledge(last)
        await check_backlog(consumer, 0)


async def test_permits_are_counted_alike_on_both_sides(connect: Connect, topic: str) -> None:
    """ "Be careful when calculating consumer permits because the client filter out the acked batch
    index ..." However often part of a batch comes again, neither side gains or loses a permit."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", ConsumerType.Shared, receiver_queue_size=10)
        await published(client, topic)
        messages = [await consumer.receive(10_000) for _ in range(5)]
        await consumer.acknowledge(messages[1:])
        for _ in range(30):
            consumer.redeliver_unacknowledged_messages()
            assert (await consumer.receive(10_000)).data() == b"0"
        permits = (await consumer.broker_stats()).availablePermits
        assert permits + consumer._inbox._freed == 10


async def test_it_is_on_by_default_and_may_be_switched_off(connect: Connect, topic: str) -> None:
    """The flag's other side: `batch_index_ack_enabled`. Off, a batch is acked when all of it is."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", batch_index_ack_enabled=False)
        await published(client, topic)
        messages = [await consumer.receive(10_000) for _ in range(5)]
        await consumer.acknowledge(messages[:4])
        await check_backlog(consumer, 5)
        await consumer.acknowledge(messages[4])
        await check_backlog(consumer, 0)


async def test_acking_twice_changes_nothing(connect: Connect, topic: str) -> None:
    """Sets are merged by AND: an ack repeated is no ack more."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        sent = await published(client, topic)
        messages = [await consumer.receive(10_000) for _ in range(5)]
        for _ in range(2):
            await consumer.acknowledge(messages[2])
            await consumer.acknowledge(sent[2])
        await check_backlog(consumer, 4)
