"""PIP-194: an epoch in the seek command. One test a sentence that promises something of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from client.harness import AnyBroker, any_broker, check_backlog, port_of
from client.stub import scripted

from milepost.admin.aio import AsyncAdmin
from milepost.aio import Client
from milepost.client.policies import ConsumerType, InitialPosition
from milepost.positions import MessageId
from milepost.testing.proxy import Proxy

Connect = Callable[..., Client]
TYPES = list(ConsumerType)


async def published(client: Client, topic: str, count: int = 10) -> list[MessageId]:
    producer = await client.create_producer(topic, batching_enabled=False)
    sent = [producer.send_nowait(b"%d" % number) for number in range(count)]
    return [await one for one in sent]


@pytest.mark.parametrize("kind", TYPES)
async def test_the_epoch_grows_by_one_and_goes_with_the_seek(
    connect: Connect, topic: str, kind: ConsumerType
) -> None:
    """ "After client reader consumer invoke seek, the epoch increase 1 and send seek command carry the epoch
    and then server consumer will update the epoch." """
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", kind)
        ids = await published(client, topic)
        for epoch in (1, 2, 3):
            await consumer.seek(ids[5])
            assert consumer._inbox.epoch == epoch
            message = await consumer.receive(10_000)
            assert (message.data(), message.entry.epoch) == (b"6", epoch)


async def test_messages_of_an_older_epoch_are_filtered(topic: str) -> None:
    """ "Client consumer will filter the send messages command which is smaller than current epoch." With
    the broker's answers held back in the network while the client seeks."""
    with any_broker() as broker:
        await _filtered(broker, topic)


async def _filtered(broker: AnyBroker, topic: str) -> None:
    async with Client(broker.url) as direct:
        ids = await published(direct, topic)
        proxy = Proxy("127.0.0.1", port_of(broker, topic))
        async with proxy, Client(proxy.url, follow_lookups=False) as client:
            consumer = await client.subscribe(
                topic, "s", initial_position=InitialPosition.Earliest, receiver_queue_size=4
            )
            assert (await consumer.receive(10_000)).data() == b"0"
            link = proxy.links[0]
            link.to_client.pause()
            for _ in range(3):
                await consumer.receive(
                    10_000
                )  # makes room: the broker sends more, into the network
            seeking = asyncio.ensure_future(consumer.seek(ids[7]))
            await asyncio.sleep(0)
            assert consumer.receive_nowait() is None
            link.to_client.resume()
            await seeking
            got = [(await consumer.receive(10_000)).data() for _ in range(2)]
            assert got == [b"8", b"9"]


async def test_grouped_acks_are_dropped_at_a_seek(connect: Connect, topic: str) -> None:
    """The proposal's trouble: an ack that follows the seek moves the position again."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        ids = await published(client, topic)
        messages = [await consumer.receive(10_000) for _ in range(10)]
        acked = [consumer.acknowledge_nowait(message) for message in messages]
        await consumer.seek(ids[1])
        await asyncio.gather(*acked)  # given: there is nothing left to wait for
        await consumer.acknowledge(messages[9])  # received before the seek: a no-op
        await consumer.acknowledge_cumulative(messages[8])
        await check_backlog(consumer, 8)
        got = [(await consumer.receive(10_000)).data() for _ in range(8)]
        assert got == [b"%d" % number for number in range(2, 10)]


@pytest.mark.parametrize("times", [1, 20])
async def test_a_reader_finds_the_position_it_sought(
    connect: Connect, topic: str, times: int
) -> None:
    """ "The expected result is that Reader can re-consume messages from mark delete:(1,1) after seek." """
    async with connect() as client:
        ids = await published(client, topic)
        reader = await client.create_reader(topic, MessageId.earliest)
        for number in range(times):
            assert (await reader.read_next(10_000)).data() is not None
            place = number % 8
            await reader.seek(ids[place])
            assert (await reader.read_next(10_000)).data() == b"%d" % (place + 1)


async def test_two_seeks_at_once(connect: Connect, topic: str) -> None:
    """The last wins, both return."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        ids = await published(client, topic)
        for first, second in ((2, 6), (6, 2), (4, 4)):
            await asyncio.gather(consumer.seek(ids[first]), consumer.seek(ids[second]))
            assert (await consumer.receive(10_000)).data() == b"%d" % (second + 1)


@pytest.mark.parametrize("kind", TYPES)
async def test_a_reset_is_obeyed_without_reconnecting(
    connect: Connect,
    running: AnyBroker | None,
    topic: str,
    kind: ConsumerType,
    milepost_only: None,
) -> None:
    """A higher epoch arriving (an operator's reset) is obeyed where the consumer is."""
    assert running is not None
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", kind)
        await published(client, topic)
        held = [await consumer.receive(10_000) for _ in range(4)]
        attachments = consumer._subscription._attachments
        async with AsyncAdmin(running.http_url) as admin:
            await admin.reset_subscription(topic, "s", index=2)
        while not consumer._inbox.seek_epoch:
            await asyncio.sleep(0.001)  # sleep: the broker's word is on its way
        await consumer.acknowledge(held)  # of before the reset: nothing
        assert (await consumer.receive(10_000)).data() == b"2"
        assert consumer._subscription._attachments == attachments
        await check_backlog(consumer, 8)


async def test_a_message_with_a_higher_epoch_is_enough(topic: str) -> None:
    """ "... when client receive CommandMessage will compare the command epoch and local epoch to handle
    this command." A broker that only stamps its messages, and says nothing else."""
    async with scripted() as (client, stub):
        consumer = await client.subscribe(topic, "s")
        stub.deliver(0, b"old", epoch=0)
        stub.deliver(1, b"new", epoch=4)
        assert (await consumer.receive(10_000)).data() == b"new"
        stub.deliver(2, b"late", epoch=3)
        stub.deliver(3, b"next", epoch=4)
        assert (await consumer.receive(10_000)).data() == b"next"


async def test_reconnecting_begins_with_the_clients_epoch(topic: str) -> None:
    """ "Consumer reconnect need reset epoch": SUBSCRIBE carries the client's, and the broker's count
    begins there."""
    async with scripted() as (client, stub):
        consumer = await client.subscribe(topic, "s")
        await consumer.seek(MessageId.earliest)
        await consumer.seek(MessageId.earliest)
        stub.hang_up()
        await stub.subscribed(2)
        assert [one.consumer_epoch for one in stub.subscribes] == [0, 2]
        assert [one.consumer_epoch for one in stub.seeks] == [1, 2]
