"""PIP-107: the chunk message id. One test a sentence that promises something of the client.

Our client with our broker, through a socket. Where the official client has the feature, it is the same
test with it (tests/compat/test_chunks.py).
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from client.harness import check_backlog

from milepost.aio import Client
from milepost.client.policies import ConsumerType, InitialPosition
from milepost.positions import ChunkMessageId, MessageId

Connect = Callable[..., Client]

LARGE = bytes(range(256)) * 4
CHUNKING = {"chunking_enabled": True, "chunk_max_size": 400}


async def test_the_snippet_at_the_top(connect: Connect, topic: str) -> None:
    """The proposal's own example:

    var msgId = producer.send(...); var otherMsg = producer.send(...); consumer.seek(msgId); // inclusive
    var receiveMsgId = consumer.receive().getMessageId(); Assert.assertEquals(msgId, receiveMsgId);
    """
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", start_message_id_inclusive=True)
        producer = await client.create_producer(topic, **CHUNKING)
        msg_id = await producer.send(LARGE)
        await producer.send(b"other")
        await consumer.seek(msg_id)
        assert (await consumer.receive(10_000)).message_id() == msg_id


async def test_a_chunk_id_inherits_and_adds_two_names(connect: Connect, topic: str) -> None:
    """ "The chunk message id inherits from MessageIdImpl and adds two new methods: getFirstChunkMessageId
    and getLastChunkMessageID." """
    async with connect() as client:
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        assert isinstance(sent, ChunkMessageId)
        assert isinstance(sent, MessageId)
        assert sent.first_chunk_message_id < sent.last_chunk_message_id


async def test_in_all_else_it_is_its_last_chunk(connect: Connect, topic: str) -> None:
    """ "For other method implementations, the lastChunkMessageID is called directly, which is compatible
    with much of the existing business logic." """
    async with connect() as client:
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        assert isinstance(sent, ChunkMessageId)
        plain = MessageId(*sent.position, sent.partition)
        assert sent == plain
        assert hash(sent) == hash(plain)
        assert {sent: 1}[plain] == 1
        behind = await producer.send(b"behind")
        assert sent.first_chunk_message_id < sent < behind


async def test_producer_and_consumer_return_it(connect: Connect, topic: str) -> None:
    """ "The chunk message-id is returned to the user when the Producer produces the chunk message or when
    the consumer consumes the chunk message." """
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        reader = await client.create_reader(topic, MessageId.earliest)
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        for message in (await consumer.receive(10_000), await reader.read_next(10_000)):
            got = message.message_id()
            assert isinstance(got, ChunkMessageId)
            assert got == sent
            assert got.first_chunk_message_id == sent.first_chunk_message_id


@pytest.mark.parametrize("inclusive", [False, True])
async def test_a_seek_uses_the_first_chunk(connect: Connect, topic: str, inclusive: bool) -> None:
    """ "In cosumer.seek, use the first chunk message-id of the chunk message-id." """
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", start_message_id_inclusive=inclusive)
        producer = await client.create_producer(topic, **CHUNKING)
        await producer.send(b"before")
        sent = await producer.send(LARGE)
        await producer.send(b"behind")
        for target in (sent, MessageId.deserialize(sent.serialize())):
            await consumer.seek(target)
            expected = [LARGE, b"behind"] if inclusive else [b"behind"]
            assert [(await consumer.receive(10_000)).data() for _ in expected] == expected


@pytest.mark.parametrize("inclusive", [False, True])
async def test_a_reader_begins_with_or_behind_it(
    connect: Connect, topic: str, inclusive: bool
) -> None:
    """The same, for where a reader begins."""
    async with connect() as client:
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        await producer.send(b"behind")
        reader = await client.create_reader(topic, sent, start_message_id_inclusive=inclusive)
        read = []
        while await reader.has_message_available():
            read.append((await reader.read_next(10_000)).data())
        assert read == ([LARGE, b"behind"] if inclusive else [b"behind"])


async def test_the_text_shows_both(connect: Connect, topic: str) -> None:
    """ "ChunkMessageId.tostirng() will return both firstChunkMessageId and lastChunkMessageId." """
    async with connect() as client:
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        assert isinstance(sent, ChunkMessageId)
        assert str(sent) == f"{sent.first_chunk_message_id};{sent.last_chunk_message_id}"


async def test_it_comes_back_from_bytes(connect: Connect, topic: str) -> None:
    """ "In order to make the chunkMessaegId serializable and deserializable, we need to change the proto
    definition of MessageIdData." """
    async with connect() as client:
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        for again in (MessageId.deserialize(sent.serialize()), pickle.loads(pickle.dumps(sent))):
            assert isinstance(again, ChunkMessageId)
            assert (str(again), again) == (str(sent), sent)


async def test_old_bytes_stay_plain(connect: Connect, topic: str) -> None:
    """ "The old version of message-id raw data for deserialization, regardless of whether it is a chunk
    message, will all be serialized into MessageIdImpl in the current client version." """
    async with connect() as client:
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        assert isinstance(sent, ChunkMessageId)
        old = MessageId.deserialize(sent.last_chunk_message_id.serialize())
        assert type(old) is MessageId
        assert old == sent


@pytest.mark.parametrize("form", ["message", "id", "bytes", "sent"])
@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_an_ack_covers_every_chunk_and_nothing_between(
    connect: Connect, topic: str, form: str, kind: ConsumerType
) -> None:
    """Acknowledging it, fresh or deserialised, acknowledges every chunk; entries of other producers that
    lie between them are their own."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", kind)
        chunking = await client.create_producer(topic, **CHUNKING)
        other = await client.create_producer(topic, batching_enabled=False)
        pending = chunking.send_nowait(LARGE)
        between = [other.send_nowait(b"between") for _ in range(3)]
        sent = await pending
        for one in between:
            await one
        messages = {}
        for _ in range(4):
            message = await consumer.receive(10_000)
            messages.setdefault(message.data(), message)
        chunked = messages[LARGE]
        named: Any = {
            "message": chunked,
            "id": chunked.message_id(),
            "bytes": MessageId.deserialize(chunked.message_id().serialize()),
            "sent": sent,
        }[form]
        await consumer.acknowledge(named)
        await check_backlog(consumer, 3)
        await consumer.close()
        consumer = await client.subscribe(topic, "s", kind)
        again = [(await consumer.receive(10_000)).data() for _ in range(3)]
        assert again == [b"between"] * 3


async def test_a_negative_ack_brings_the_whole_message_back(connect: Connect, topic: str) -> None:
    """All its chunks: the last alone would be nothing."""
    async with connect() as client:
        consumer = await client.subscribe(
            topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=10
        )
        producer = await client.create_producer(topic, **CHUNKING)
        sent = await producer.send(LARGE)
        consumer.negative_acknowledge(await consumer.receive(10_000))
        again = await consumer.receive(10_000)
        assert (again.data(), again.message_id()) == (LARGE, sent)
        assert again.redelivery_count() == 1


async def test_chunks_of_two_producers_interleave(connect: Connect, topic: str) -> None:
    """Each message is put together of its own chunks, however they lie in the log."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        producers = [
            await client.create_producer(topic, f"p{number}", **CHUNKING) for number in range(3)
        ]
        payloads = [bytes([number]) * 2000 for number in range(3)]
        await asyncio.gather(
            *(one.send(payload) for one, payload in zip(producers, payloads, strict=True))
        )
        got = [(await consumer.receive(10_000)).data() for _ in range(3)]
        assert sorted(got) == payloads


async def test_more_messages_at_once_than_may_wait(connect: Connect, topic: str) -> None:
    """`max_pending_chunked_message`: the oldest is given up for now, and comes again whole."""
    async with connect() as client:
        producers = [
            await client.create_producer(topic, f"p{number}", **CHUNKING) for number in range(4)
        ]
        payloads = [bytes([number]) * 3000 for number in range(4)]
        await asyncio.gather(
            *(one.send(payload) for one, payload in zip(producers, payloads, strict=True))
        )
        consumer = await client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            max_pending_chunked_message=1,
            negative_ack_redelivery_delay_ms=10,
        )
        got = set()
        while len(got) < 4:
            message = await consumer.receive(10_000)
            got.add(message.data())
            await consumer.acknowledge(message)
        assert got == set(payloads)
