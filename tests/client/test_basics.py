"""Produce, receive, ack, read, seek: the core, async and sync."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

import pytest

import milepost
from milepost.aio import Client
from milepost.client.policies import CompressionType, ConsumerType, InitialPosition
from milepost.positions import EARLIEST, LATEST, ChunkMessageId, MessageId

EARLIEST_POSITION = InitialPosition.Earliest
Connect = Callable[..., Client]


async def publish(client: Client, topic: str, count: int, **options: Any) -> list[MessageId]:
    """Messages `0` to `count − 1`, in one batch unless told otherwise."""
    async with await client.create_producer(topic, **options) as producer:
        sent = [producer.send_nowait(b"%d" % number) for number in range(count)]
        return [await one for one in sent]


async def received(consumer: Any, count: int) -> list[bytes]:
    return [(await consumer.receive(10_000)).data() for _ in range(count)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize("compression", list(CompressionType))
async def test_what_is_sent_is_received_in_order(
    connect: Connect, topic: str, batching: bool, compression: CompressionType
) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        ids = await publish(
            client, topic, 20, batching_enabled=batching, compression_type=compression
        )
        messages = [await consumer.receive(10_000) for _ in range(20)]
        assert [message.data() for message in messages] == numbers(0, 20)
        assert [message.message_id() for message in messages] == ids
        assert ids == sorted(ids)
        assert [message.message_id().batch_index for message in messages] == (
            list(range(20)) if batching else [-1] * 20
        )


async def test_every_field_arrives(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        for batching in (False, True):
            producer = await client.create_producer(topic, "named", batching_enabled=batching)
            await producer.send(
                b"x",
                properties={"a": "1", "b": "2"},
                partition_key="k",
                ordering_key="o",
                event_timestamp=17,
            )
            message = await consumer.receive(10_000)
            assert message.properties() == {"a": "1", "b": "2"}
            assert message.partition_key() == "k"
            assert message.ordering_key() == "o"
            assert message.event_timestamp() == 17
            assert message.producer_name() == "named"
            assert message.topic_name() == topic
            assert message.publish_timestamp() > 1_600_000_000_000
            assert message.redelivery_count() == 0
            assert not message.has_null_value()
            assert message.value() == b"x"
            await producer.close()


async def test_an_ack_that_returned_holds(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        await publish(client, topic, 6)
        messages = [await consumer.receive(10_000) for _ in range(6)]
        await consumer.acknowledge(messages[1])
        await consumer.acknowledge([messages[4].message_id(), messages[5]])
        await consumer.close()
        consumer = await client.subscribe(topic, "s")
        assert await received(consumer, 3) == [b"0", b"2", b"3"]


async def test_cumulative_acks_reach_into_a_batch(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        await publish(client, topic, 6)
        messages = [await consumer.receive(10_000) for _ in range(6)]
        await consumer.acknowledge_cumulative(messages[3])
        await consumer.close()
        consumer = await client.subscribe(topic, "s")
        assert await received(consumer, 2) == [b"4", b"5"]


async def test_a_negative_ack_brings_a_message_back(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(
            topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=50
        )
        await publish(client, topic, 3, batching_enabled=False)
        messages = [await consumer.receive(10_000) for _ in range(3)]
        consumer.negative_acknowledge(messages[1])
        again = await consumer.receive(10_000)
        assert (again.data(), again.redelivery_count()) == (b"1", 1)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_everything_unacked_comes_again_when_asked(
    connect: Connect, topic: str, kind: ConsumerType
) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", kind)
        await publish(client, topic, 5, batching_enabled=False)
        messages = [await consumer.receive(10_000) for _ in range(4)]
        await consumer.acknowledge(messages[0])
        consumer.redeliver_unacknowledged_messages()
        assert await received(consumer, 4) == numbers(1, 5)


@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize("inclusive", [False, True])
async def test_a_seek_is_exact(
    connect: Connect, topic: str, batching: bool, inclusive: bool
) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", start_message_id_inclusive=inclusive)
        ids = await publish(client, topic, 10, batching_enabled=batching)
        assert await received(consumer, 10) == numbers(0, 10)
        for target in (5, 0, 9, 3):
            await consumer.seek(ids[target])
            first = target if inclusive else target + 1
            assert await received(consumer, 10 - first) == numbers(first, 10)
        await consumer.seek(EARLIEST)
        assert await received(consumer, 10) == numbers(0, 10)
        await consumer.seek(LATEST)
        await publish(client, topic, 1)
        assert await received(consumer, 1) == [b"0"]


async def test_a_seek_by_index_is_exact(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        await publish(client, topic, 10)
        for target in (4, 0, 9):
            await consumer.seek(index=target)
            message = await consumer.receive(10_000)
            assert (message.index(), message.data()) == (target, b"%d" % target)
        with pytest.raises(milepost.PulsarException):
            await consumer.seek(index=11)
        await consumer.seek(index=8)
        assert await received(consumer, 2) == [b"8", b"9"]


async def test_ids_and_indexes_name_the_same_messages(
    connect: Connect, topic: str, milepost_only: None
) -> None:
    async with connect() as client:
        ids = await publish(client, topic, 4)
        ids += await publish(client, topic, 2, batching_enabled=False)
        assert [await client.message_id_by_index(topic, index) for index in range(6)] == ids
        with pytest.raises(milepost.PulsarException):
            await client.message_id_by_index(topic, 6)
        consumer = await client.subscribe(topic, "s", initial_position=EARLIEST_POSITION)
        await consumer.acknowledge_cumulative(index=2)
        await consumer.close()
        consumer = await client.subscribe(topic, "s")
        assert await received(consumer, 3) == [b"3", b"0", b"1"]


async def test_a_reader_reads_from_where_it_is_told(connect: Connect, topic: str) -> None:
    async with connect() as client:
        ids = await publish(client, topic, 10)
        for start, inclusive, first in (
            (EARLIEST, False, 0),
            (ids[4], False, 5),
            (ids[4], True, 4),
        ):
            reader = await client.create_reader(topic, start, start_message_id_inclusive=inclusive)
            read = []
            while await reader.has_message_available():
                read.append((await reader.read_next(10_000)).data())
            assert read == numbers(first, 10)
            await reader.seek(ids[7])
            assert (await reader.read_next(10_000)).data() == b"%d" % (7 if inclusive else 8)
            await reader.close()
        reader = await client.create_reader(topic, LATEST)
        assert not await reader.has_message_available()


async def test_a_reader_begins_at_an_index(connect: Connect, topic: str) -> None:
    async with connect() as client:
        await publish(client, topic, 10)
        reader = await client.create_reader(topic, start_index=6)
        read = [await reader.read_next(10_000) for _ in range(4)]
        assert [message.index() for message in read] == [6, 7, 8, 9]
        assert not await reader.has_message_available()


async def test_a_large_message_goes_in_chunks(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, chunking_enabled=True, chunk_max_size=1000)
        payload = bytes(range(256)) * 20
        sent = await producer.send(payload)
        message = await consumer.receive(10_000)
        assert message.data() == payload
        assert isinstance(sent, ChunkMessageId)
        got = message.message_id()
        assert isinstance(got, ChunkMessageId)
        assert (got, got.first_chunk_message_id) == (sent, sent.first_chunk_message_id)
        await consumer.acknowledge(message)


async def test_waits_may_be_cancelled(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        waiting = [asyncio.ensure_future(consumer.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
        await publish(client, topic, 2)
        first = await waiting[2]
        assert [first.data(), *await received(consumer, 1)] == [b"0", b"1"]


def test_the_synchronous_client_does_the_same(service: str, topic: str) -> None:
    with milepost.Client(service) as client:
        producer = client.create_producer(topic)
        consumer = client.subscribe(topic, "s", initial_position=EARLIEST_POSITION)
        ids = [producer.send(b"%d" % number) for number in range(3)]
        heard: list[Any] = []
        producer.send_async(b"3", lambda result, message_id: heard.append((result, message_id)))
        producer.flush()
        ((result, last),) = heard
        assert result == milepost.Result.Ok
        assert last > ids[2]
        messages = [consumer.receive(10_000) for _ in range(4)]
        assert [message.data() for message in messages] == numbers(0, 4)
        for message in messages[:2]:
            consumer.acknowledge(message)
        consumer.seek(milepost.MessageId.earliest)
        assert [consumer.receive(10_000).data() for _ in range(4)] == numbers(0, 4)
        with pytest.raises(milepost.Timeout):
            consumer.receive(10)
        reader = client.create_reader(topic, milepost.MessageId.earliest)
        read = []
        while reader.has_message_available():
            read.append(reader.read_next(10_000).data())
        assert read == numbers(0, 4)
    with pytest.raises(milepost.AlreadyClosed):
        producer.send(b"late")


def test_a_listener_is_called_for_every_message(service: str, topic: str) -> None:
    heard: queue.Queue[bytes] = queue.Queue()

    def listen(consumer: Any, message: Any) -> None:
        consumer.acknowledge(message)
        heard.put(message.data())

    with milepost.Client(service) as client:
        client.subscribe(topic, "s", message_listener=listen)
        producer = client.create_producer(topic)
        for number in range(5):
            producer.send(b"%d" % number)
        assert [heard.get(timeout=20) for _ in range(5)] == numbers(0, 5)


async def test_a_reader_begins_at_a_time(connect: Connect, topic: str) -> None:
    async with connect() as client:
        await publish(client, topic, 3, batching_enabled=False)
        reader = await client.create_reader(topic, MessageId.earliest)
        times = [(await reader.read_next(10_000)).publish_timestamp() for _ in range(3)]
        late = await client.create_reader(topic, start_timestamp=times[0])
        assert (await late.read_next(10_000)).data() == b"0"
        later = await client.create_reader(topic, start_timestamp=times[2] + 3_600_000)
        assert not await later.has_message_available()
