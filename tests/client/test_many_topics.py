"""Partitions, lists of topics, patterns; Key_Shared; dead letters and retries."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import milepost
from milepost.aio import Client
from milepost.client.policies import (
    BatchingType,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerType,
    InitialPosition,
    KeySharedMode,
    PartitionsRoutingMode,
)
from milepost.positions import EARLIEST, MessageId
from milepost.testing.proxy import Proxy

Connect = Callable[..., Client]
Partition = Callable[[str, int], None]


async def take(consumer: Any, count: int) -> list[Any]:
    return [await consumer.receive(10_000) for _ in range(count)]


@pytest.fixture
def partitioned(topic: str, partition: Partition) -> str:
    partition(topic, 3)
    return topic


async def test_partitions_are_named(connect: Connect, partitioned: str, topic: str) -> None:
    async with connect() as client:
        assert await client.get_topic_partitions(partitioned) == [
            f"{topic}-partition-{number}" for number in range(3)
        ]
        assert await client.get_topic_partitions(f"{topic}-plain") == [f"{topic}-plain"]


@pytest.mark.parametrize("batching", [False, True])
async def test_a_partitioned_topic_is_one_topic(
    connect: Connect, partitioned: str, batching: bool
) -> None:
    async with connect() as client:
        consumer = await client.subscribe(partitioned, "s")
        producer = await client.create_producer(
            partitioned, batching_enabled=batching, batching_max_messages=5
        )
        ids = [await producer.enqueue(b"%d" % number) for number in range(30)]
        ids = [await one for one in ids]
        assert {one.partition for one in ids} == {0, 1, 2}
        messages = await take(consumer, 30)
        assert {message.data() for message in messages} == {b"%d" % n for n in range(30)}
        assert {message.message_id() for message in messages} == set(ids)
        await consumer.acknowledge(messages[:20])
        for message in messages[20:25]:
            await consumer.acknowledge(message.message_id())  # a partition's number is enough
        await consumer.close()
        consumer = await client.subscribe(partitioned, "s")
        again = await take(consumer, 5)
        assert {one.data() for one in again} == {one.data() for one in messages[25:]}


async def test_keys_stay_where_they_are(connect: Connect, partitioned: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(partitioned, batching_enabled=False)
        places = {}
        for number in range(12):
            key = f"key-{number % 4}"
            sent = await producer.send(b"x", partition_key=key)
            assert places.setdefault(key, sent.partition) == sent.partition


@pytest.mark.parametrize("mode", ["single", "custom"])
async def test_routing_is_the_users_choice(connect: Connect, partitioned: str, mode: str) -> None:
    options: dict[str, Any] = {"message_routing_mode": PartitionsRoutingMode.UseSinglePartition}
    if mode == "custom":
        options = {
            "message_routing_mode": PartitionsRoutingMode.CustomPartition,
            "message_router": lambda message, count: len(message.data()) % count,
        }
    async with connect() as client:
        producer = await client.create_producer(partitioned, batching_enabled=False, **options)
        ids = [await producer.send(b"x" * size) for size in (3, 4, 5, 3)]
        partitions = [one.partition for one in ids]
        assert len(set(partitions)) == 1 if mode == "single" else partitions == [0, 1, 2, 0]


async def test_several_topics_are_one_consumer(connect: Connect, topic: str) -> None:
    topics = [f"{topic}-{name}" for name in "ab"]
    async with connect() as client:
        consumer = await client.subscribe(topics, "s")
        for name in topics:
            async with await client.create_producer(name) as producer:
                await producer.send(name.encode())
        messages = await take(consumer, 2)
        assert {message.topic_name() for message in messages} == set(topics)
        assert all(message.data() == message.topic_name().encode() for message in messages)
        bare = messages[0].message_id()
        with pytest.raises(milepost.InvalidMessageId):
            await consumer.acknowledge(bare)
        await consumer.acknowledge(
            MessageId.deserialize(bare.serialize(), topic=messages[0].topic_name())
        )
        await consumer.seek(EARLIEST)
        again = await take(consumer, 2)
        assert {message.topic_name() for message in again} == set(topics)
        assert len(await consumer.get_last_message_ids()) == 2


async def test_a_pattern_finds_topics_now_and_later(connect: Connect, topic: str) -> None:
    async with connect() as client:
        first = await client.create_producer(f"{topic}-one")
        await client.create_producer(f"{topic}")
        pattern = re.compile(f"{re.escape(topic)}-.*")
        consumer = await client.subscribe(pattern, "s", pattern_auto_discovery_period=0.05)
        await first.send(b"1")
        second = await client.create_producer(f"{topic}-two")
        await second.send(b"2")
        assert {message.data() for message in await take(consumer, 2)} == {b"1", b"2"}
        assert sorted(consumer.topics) == [f"{topic}-one", f"{topic}-two"]


async def topics_become(consumer: Any, *names: str) -> None:
    async with asyncio.timeout(30):
        while sorted(consumer.topics) != sorted(names):
            await asyncio.sleep(0.005)  # sleep: the broker tells of it


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        # Short enough for the broker; the others it refuses, or is not told of.
        ("p{}-.*", 0),
        ("p{}-.*" + "|never" * 20, 0),
        ("p{}(?=-)-.*", 0),
        ("P{}-.*", re.IGNORECASE),
    ],
    ids=["short", "long", "lookahead", "flags"],
)
async def test_a_pattern_is_told_of_topics_that_come(
    connect: Connect, pattern: str, flags: int
) -> None:
    """PIP-145: long before it would look by itself."""
    mark = secrets.token_hex(4)
    async with connect() as client:
        consumer = await client.subscribe(
            re.compile(pattern.format(mark), flags), "s", pattern_auto_discovery_period=3600
        )
        prefix = f"persistent://public/default/p{mark}"
        await client.create_producer(prefix)
        for name in ("one", "two"):
            producer = await client.create_producer(f"{prefix}-{name}")
            await producer.send(name.encode())
            assert (await consumer.receive(30_000)).data() == name.encode()
        await topics_become(consumer, f"{prefix}-one", f"{prefix}-two")


async def test_a_watch_is_set_again(service: str, port: int, topic: str) -> None:
    """… and what came while nobody watched is found."""
    async with Proxy("127.0.0.1", port) as proxy:
        watching = Client(proxy.url, follow_lookups=False, backoff_first_s=0.01)
        other = Client(service)
        async with watching, other:
            consumer = await watching.subscribe(
                f"{topic}-.*", "s", is_pattern_topic=True, pattern_auto_discovery_period=3600
            )
            for name in ("one", "two", "three"):
                proxy.cut()
                await other.create_producer(f"{topic}-{name}")
            await topics_become(consumer, *(f"{topic}-{name}" for name in ("one", "two", "three")))


async def test_what_was_published_before_a_topic_was_found_is_not_missed(
    service: str, port: int, topic: str
) -> None:
    async with Proxy("127.0.0.1", port) as proxy:
        watching = Client(proxy.url, follow_lookups=False)
        async with watching, Client(service) as other:
            consumer = await watching.subscribe(
                f"{topic}-.*", "s", is_pattern_topic=True, pattern_auto_discovery_period=3600
            )
            for name in (b"one", b"two"):
                proxy.links[0].to_client.pause()
                producer = await other.create_producer(f"{topic}-{name.decode()}")
                await producer.send(name)
                proxy.links[0].to_client.resume()
                assert (await consumer.receive(30_000)).data() == name


async def test_a_reader_reads_all_partitions(connect: Connect, partitioned: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(partitioned, batching_enabled=False)
        for number in range(9):
            await producer.send(b"%d" % number)
        reader = await client.create_reader(partitioned, EARLIEST)
        read = []
        while await reader.has_message_available():
            read.append((await reader.read_next(10_000)).data())
        assert sorted(read) == [b"%d" % number for number in range(9)]
        with pytest.raises(milepost.PulsarException):
            await client.create_reader(partitioned, start_index=3)


async def test_keys_are_shared_out(connect: Connect, topic: str) -> None:
    async with connect() as client:
        low, high = [
            await client.subscribe(
                topic,
                "s",
                ConsumerType.KeyShared,
                key_shared_policy=ConsumerKeySharedPolicy(
                    KeySharedMode.Sticky, sticky_ranges=[bounds]
                ),
            )
            for bounds in ((0, 32767), (32768, 65535))
        ]
        producer = await client.create_producer(topic, batching_type=BatchingType.KeyBased)
        for number in range(40):
            await producer.enqueue(b"%d" % number, partition_key=f"k{number % 8}")
        await producer.flush()
        seen: dict[str, set[str]] = {}
        order: dict[str, list[int]] = {}
        waiting = {asyncio.ensure_future(one.receive()): one for one in (low, high)}
        for _ in range(40):
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=10)
            found = done.pop()
            one = waiting.pop(found)
            message = found.result()
            seen.setdefault(message.partition_key(), set()).add(one.consumer_name())
            order.setdefault(message.partition_key(), []).append(int(message.data()))
            waiting[asyncio.ensure_future(one.receive())] = one
        for left in waiting:
            left.cancel()
        assert len(seen) == 8
        assert all(len(names) == 1 for names in seen.values())
        assert all(numbers == sorted(numbers) for numbers in order.values())


@pytest.mark.parametrize("batching", [False, True])
async def test_a_message_that_came_too_often_is_a_dead_letter(
    connect: Connect, topic: str, batching: bool
) -> None:
    policy = ConsumerDeadLetterPolicy(2, initial_subscription_name="undertaker")
    async with connect() as client:
        consumer = await client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            dead_letter_policy=policy,
            negative_ack_redelivery_delay_ms=20,
        )
        producer = await client.create_producer(topic, batching_enabled=batching)
        await producer.send(b"poison", properties={"a": "1"}, partition_key="k")
        for count in range(3):
            message = await consumer.receive(10_000)
            assert message.redelivery_count() == count
            consumer.negative_acknowledge(message)
        dead = await client.subscribe(f"{topic}-s-DLQ", "undertaker")
        letter = await dead.receive(10_000)
        assert (letter.data(), letter.partition_key()) == (b"poison", "k")
        assert letter.properties()["a"] == "1"
        assert letter.properties()["REAL_TOPIC"] == topic
        assert letter.properties()["ORIGIN_MESSAGE_ID"] == str(message.message_id())
        while (await consumer.broker_stats()).msgBacklog:
            await asyncio.sleep(0.01)  # sleep: the ack follows the receipt of the dead letter
        assert consumer.stats.dead_letters == 1


async def test_a_message_may_be_had_again_later(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            retry_enabled=True,
            dead_letter_policy=ConsumerDeadLetterPolicy(2, initial_subscription_name="u"),
            initial_position=InitialPosition.Earliest,
        )
        producer = await client.create_producer(topic)
        await producer.send(b"again")
        times = []
        for _ in range(3):
            message = await consumer.receive(10_000)
            times.append(message.properties().get("RECONSUMETIMES"))
            await consumer.reconsume_later(message, delay_ms=1)
        assert times == [None, "1", "2"]
        dead = await client.subscribe(f"{topic}-s-DLQ", "u")
        letter = await dead.receive(10_000)
        assert letter.properties()["REAL_TOPIC"] == topic


async def test_shared_consumers_share(connect: Connect, topic: str) -> None:
    async with connect() as client:
        ones = [await client.subscribe(topic, "s", ConsumerType.Shared) for _ in range(2)]
        producer = await client.create_producer(topic, batching_enabled=False)
        for number in range(20):
            await producer.enqueue(b"%d" % number)
        got: Counter[bytes] = Counter()
        while sum(got.values()) < 20:
            for one in ones:
                if (message := one.receive_nowait()) is not None:
                    got[message.data()] += 1
            await asyncio.sleep(0)
        assert set(got.values()) == {1}
