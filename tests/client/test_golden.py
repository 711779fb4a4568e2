"""Our frames beside the official client's: both do the same through a proxy that keeps what was said.

Field by field, once what must differ is set aside: ids that each side chooses, its own name, and the fields
that only one of them sends, which are listed here. What the official client says of a batch, a chunk, an
ack or a seek is what we say.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import milepost.testing
from milepost.aio import Client
from milepost.client.policies import ConsumerType
from milepost.testing.proxy import Proxy
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.commands import decode_command
from milepost.wire.frames import HEADER_SIZE
from milepost.wire.metadata import split_entry

pulsar = pytest.importorskip("pulsar")

# Chosen by each side for itself.
CHOSEN = {"request_id", "consumer_id", "producer_id", "producer_name", "consumer_name", "uuid"}
CHOSEN |= {"client_version", "protocol_version", "publish_time"}
# Ours alone: epochs (PIP-84, PIP-194), Java's field for the end of a batch, what obeys resets, the exact
# place in a batch where the official client filters by itself.
OURS = {"consumer_epoch", "highest_sequence_id", "metadata", "batch_size", "batch_index"}
# Theirs alone, and the protocol's default.
THEIRS = {
    "encrypted",
    "listener_name",
    "advertised_listener_name",
    "authoritative",
    "partition",
    "feature_flags",
    "keySharedMeta",
}


def told(message: Any) -> dict[str, Any]:
    """The fields of a command that are to be the same, defaults left out."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in CHOSEN | OURS | THEIRS:
            continue
        if field.type == field.TYPE_MESSAGE:
            value = [told(one) for one in value] if field.is_repeated else told(value)
        elif field.is_repeated:
            value = list(value)
        elif value == field.default_value:
            continue
        if value not in ([], {}):
            found[field.name] = value
    return found


def commands(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Name and fields of everything a client said; a SEND with its metadata and single messages."""
    found = []
    at = 0
    while at + HEADER_SIZE <= len(data):
        total = int.from_bytes(data[at : at + 4], "big")
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        command = decode_command(data[at + 8 : at + 8 + size]).message
        fields = told(command)
        if isinstance(command, pb.CommandSend):
            parts = split_entry(data[at + 8 + size : at + 4 + total])
            assert parts.is_intact
            fields["entry"] = told(parts.metadata)
            count = parts.metadata.num_messages_in_batch
            if parts.metadata.HasField("num_messages_in_batch"):
                singles = split_batch(parts.payload, count)
                fields["singles"] = [(told(one.metadata), one.payload) for one in singles]
            else:
                fields["payload"] = parts.payload
        found.append((type(command).__name__.removeprefix("Command"), fields))
        at += 4 + total
    return found


class Stand:
    """A broker behind a proxy, for one client at a time."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    def said(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        everything = [
            one for link in self.proxy.links for one in commands(bytes(link.to_server.passed))
        ]
        return [one for one in everything if one[0] in kinds]


@asynccontextmanager
async def stand() -> AsyncIterator[Stand]:
    async with milepost.testing.broker() as broker:
        proxy = Proxy("127.0.0.1", broker.port)
        async with proxy:
            # The official client goes where the broker says it is.
            broker.running.broker.lookup_url = lambda *asked: proxy.url  # type: ignore[method-assign]
            yield Stand(proxy)


async def both(
    ours: Callable[[Client], Awaitable[None]], theirs: Callable[[Any], None], *kinds: str
) -> tuple[list[Any], list[Any]]:
    async with stand() as place:
        async with Client(place.proxy.url) as client:
            await ours(client)
        said = place.said(*kinds)
    async with stand() as place:

        def run() -> None:
            logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            client = pulsar.Client(place.proxy.url, logger=logger)
            theirs(client)
            client.close()

        await asyncio.to_thread(run)
        return said, place.said(*kinds)


FIELDS: dict[str, Any] = {
    "properties": {"a": "1"},
    "partition_key": "k",
    "ordering_key": "o",
    "event_timestamp": 17,
}


async def test_a_message() -> None:
    async def ours(client: Client) -> None:
        producer = await client.create_producer("t", "p", batching_enabled=False)
        await producer.send(b"plain")
        await producer.send(b"full", **FIELDS)
        await producer.send(b"numbered", sequence_id=40)

    def theirs(client: Any) -> None:
        producer = client.create_producer("t", "p")
        producer.send(b"plain")
        producer.send(b"full", **FIELDS)
        producer.send(b"numbered", sequence_id=40)

    said, expected = await both(
        ours, theirs, "PartitionedTopicMetadata", "LookupTopic", "Producer", "Send"
    )
    assert said == expected


async def test_a_batch() -> None:
    async def ours(client: Client) -> None:
        producer = await client.create_producer("t", "p", batching_max_publish_delay_ms=5000)
        producer.send_nowait(b"plain")
        producer.send_nowait(b"full", **FIELDS)
        producer.send_nowait(b"")
        await producer.flush()

    def theirs(client: Any) -> None:
        producer = client.create_producer(
            "t", "p", batching_enabled=True, batching_max_publish_delay_ms=5000
        )
        producer.send_async(b"plain", None)
        producer.send_async(b"full", None, **FIELDS)
        producer.send_async(b"", None)
        producer.flush()

    said, expected = await both(ours, theirs, "Send")
    assert said == expected


async def test_a_chunked_message() -> None:
    payload = bytes(6 * 1024 * 1024)

    async def ours(client: Client) -> None:
        producer = await client.create_producer("t", "p", chunking_enabled=True)
        await producer.send(payload)

    def theirs(client: Any) -> None:
        client.create_producer("t", "p", chunking_enabled=True).send(payload)

    said, expected = await both(ours, theirs, "Send")
    # They fill a chunk a few bytes fuller: their limit forgets the fields that make it a chunk.
    for one in (*said, *expected):
        one[1]["payload"] = len(one[1]["payload"]) // 4096
    assert said == expected


@pytest.mark.parametrize("kind", list(ConsumerType))
async def test_a_subscription(kind: ConsumerType) -> None:
    async def ours(client: Client) -> None:
        await client.subscribe("t", "s", kind, consumer_name="c", initial_position=1)

    def theirs(client: Any) -> None:
        client.subscribe(
            "t",
            "s",
            pulsar.ConsumerType(int(kind)),
            consumer_name="c",
            initial_position=pulsar.InitialPosition.Earliest,
        )

    said, expected = await both(ours, theirs, "Subscribe", "Flow", "CloseConsumer")
    assert said == expected


async def test_acks_seeks_and_questions() -> None:
    async def ours(client: Client) -> None:
        producer = await client.create_producer("t", batching_max_publish_delay_ms=5000)
        consumer = await client.subscribe("t", "s", ack_receipt_enabled=False)
        for number in range(3):
            producer.send_nowait(b"%d" % number)
        await producer.flush()
        messages = [await consumer.receive() for _ in range(3)]
        await consumer.acknowledge(messages[1])
        await consumer.get_last_message_id()
        await consumer.acknowledge_cumulative(messages[2])
        consumer._acks.flush()
        await consumer.seek(17)

    def theirs(client: Any) -> None:
        producer = client.create_producer(
            "t", batching_enabled=True, batching_max_publish_delay_ms=5000
        )
        consumer = client.subscribe("t", "s", batch_index_ack_enabled=True)
        for number in range(3):
            producer.send_async(b"%d" % number, None)
        producer.flush()
        messages = [consumer.receive() for _ in range(3)]
        consumer.acknowledge(messages[1])
        consumer.get_last_message_id()
        consumer.acknowledge_cumulative(messages[2])
        consumer.seek(17)

    kinds = ("GetLastMessageId", "Seek")
    said, expected = await both(ours, theirs, *kinds)
    assert said == expected


async def test_an_individual_ack_of_a_batch() -> None:
    """The same bits; the official client leaves the batch's size out."""

    async def ours(client: Client) -> None:
        producer = await client.create_producer("t", batching_max_publish_delay_ms=5000)
        consumer = await client.subscribe("t", "s")
        for number in range(5):
            producer.send_nowait(b"%d" % number)
        await producer.flush()
        messages = [await consumer.receive() for _ in range(5)]
        await consumer.acknowledge(messages[1])
        await consumer.acknowledge(messages[3:])
        await consumer.acknowledge([messages[0], messages[2]])

    def theirs(client: Any) -> None:
        producer = client.create_producer(
            "t", batching_enabled=True, batching_max_publish_delay_ms=5000
        )
        consumer = client.subscribe("t", "s", batch_index_ack_enabled=True)
        for number in range(5):
            producer.send_async(b"%d" % number, None)
        producer.flush()
        messages = [consumer.receive() for _ in range(5)]
        for places in ((1,), (3, 4), (0, 2)):
            for place in places:
                consumer.acknowledge(messages[place])
            consumer.get_last_message_id()

    said, expected = await both(ours, theirs, "Ack")
    # They group by time, and name an entry once for each message: each set that they sent, once.
    sets = [one["ack_set"] for _, ack in expected for one in ack["message_id"] if "ack_set" in one]
    ours_sent = [one.get("ack_set") for _, ack in said for one in ack["message_id"]]
    assert ours_sent == [[0b11101], [0b00101], None]
    assert set(map(tuple, sets)) <= {(0b11101,), (0b00101,), (0b10101,), (0b00100,)}
