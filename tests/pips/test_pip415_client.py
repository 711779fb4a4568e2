"""PIP-415 and PIP-90: index and id, seen from the client. One test a sentence, and what we add to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from client.harness import check_backlog

from milepost import IndexNotFound, InvalidInput, MilepostError
from milepost.aio import Client
from milepost.client.policies import InitialPosition
from milepost.positions import ChunkMessageId, MessageId

Connect = Callable[..., Client]


async def mixed(client: Client, topic: str) -> dict[int, bytes]:
    """A batch of four (0 to 3), a message (4), a chunked one (5 to 7), a batch of two (8, 9)."""
    expected: dict[int, bytes] = {}
    producer = await client.create_producer(topic)
    for number, sent in enumerate([producer.send_nowait(b"a%d" % n) for n in range(4)]):
        await sent
        expected[number] = b"a%d" % number
    alone = await client.create_producer(topic, batching_enabled=False)
    await alone.send(b"b")
    expected[4] = b"b"
    chunking = await client.create_producer(topic, chunking_enabled=True, chunk_max_size=500)
    await chunking.send(b"c" * 900)
    expected[7] = b"c" * 900
    for number, sent in enumerate([producer.send_nowait(b"d%d" % n) for n in range(2)]):
        await sent
        expected[8 + number] = b"d%d" % number
    return expected


async def test_every_message_has_its_index(connect: Connect, topic: str) -> None:
    """ "In PIP-90, we exposed this metadata via the Message.getIndex() API." Also inside a batch."""
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        expected = await mixed(client, topic)
        got = {}
        for _ in expected:
            message = await consumer.receive(10_000)
            got[message.index()] = message.data()
        assert got == expected


async def test_index_and_id_are_two_names_of_one_message(
    connect: Connect, topic: str, milepost_only: None
) -> None:
    """ "... lack the reverse capability to obtain message IDs by index. This breaks the logical circularity
    and creates operational confusion." """
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        expected = await mixed(client, topic)
        for _ in expected:
            message = await consumer.receive(10_000)
            index = message.index()
            assert index is not None
            found = await client.message_id_by_index(topic, index)
            assert found == message.message_id()
            assert isinstance(found, ChunkMessageId) == (index == 7)


async def test_an_index_is_used_for_seek_and_acknowledgment(
    connect: Connect, topic: str, milepost_only: None
) -> None:
    """ "This will allow us to use index for seek and acknowledgment operations when consuming messages
    through the standardized API." """
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
        expected = await mixed(client, topic)
        for index in (2, 4, 7, 9, 0, 5, 6):
            await consumer.seek(index=index)
            message = await consumer.receive(10_000)
            # An index between the chunks of a message means the message.
            shown = min(one for one in expected if one >= index)
            assert (message.index(), message.data()) == (shown, expected[shown])
        await consumer.seek(MessageId.earliest)
        for _ in range(3):
            await consumer.receive(10_000)
        await consumer.acknowledge_cumulative(index=2)
        await consumer.close()
        consumer = await client.subscribe(topic, "s")
        assert (await consumer.receive(10_000)).index() == 3
        await consumer.acknowledge_cumulative(index=8)  # also what was not received yet
        await check_backlog(consumer, 1)


async def test_a_reader_is_exact_too(connect: Connect, topic: str, milepost_only: None) -> None:
    """ "To consume from index 1, retrieve all messages in Entry A and filter out messages with indexes below
    1." The filter is ours."""
    async with connect() as client:
        expected = await mixed(client, topic)
        for first in expected:
            reader = await client.create_reader(topic, start_index=first)
            read = {}
            while await reader.has_message_available():
                message = await reader.read_next(10_000)
                read[message.index()] = message.data()
            assert read == {index: data for index, data in expected.items() if index >= first}


@pytest.mark.parametrize("index", [10, 11, 2**62])
async def test_an_index_that_is_not_there_is_refused(
    connect: Connect, topic: str, index: int, is_milepost: bool
) -> None:
    """ "An index value of -1 or one that exceeds the maximum index range is considered invalid." """
    async with connect() as client:
        await mixed(client, topic)
        with pytest.raises(MilepostError, match="is not in" if is_milepost else None):
            await client.message_id_by_index(topic, index)


@pytest.mark.parametrize("index", [-1, "1", None, 1.0, True])
async def test_what_is_no_index_is_refused_at_once(
    connect: Connect, topic: str, index: Any
) -> None:
    async with connect() as client:
        with pytest.raises(InvalidInput):
            await client.message_id_by_index(topic, index)
        assert issubclass(IndexNotFound, MilepostError)


async def test_the_official_client_seeks_to_an_index_by_its_id(
    connect: Connect, service: str, topic: str, milepost_only: None
) -> None:
    """A seek to an index in the middle of a batch, by the official client: our id of it, its own seek."""
    pulsar = pytest.importorskip("pulsar")
    async with connect() as client:
        expected = await mixed(client, topic)
        found = {index: await client.message_id_by_index(topic, index) for index in (2, 4, 9)}

    def seek_officially() -> None:
        official = pulsar.Client(service, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        consumer = official.subscribe(topic, "official", start_message_id_inclusive=True)
        for index, one in found.items():
            consumer.seek(
                pulsar.MessageId(one.partition, one.ledger_id, one.entry_id, one.batch_index)
            )
            assert consumer.receive(10_000).data() == expected[index]
        official.close()

    await asyncio.to_thread(seek_officially)
