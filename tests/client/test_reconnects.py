"""Connections that break, brokers that restart: nothing with a receipt is lost, nothing acked comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import milepost.testing
from client.harness import PULSAR_ADMIN_URL
from client.stub import Stub, scripted
from milepost import errors
from milepost.aio import Client
from milepost.broker.operations.reset import Reset, Target, reset
from milepost.client.policies import ConsumerType, ProducerAccessMode
from milepost.positions import MessageId, TopicName
from milepost.testing.broker import BrokerForTest
from milepost.testing.proxy import Proxy
from milepost.wire import pulsar_pb2 as pb

SOON = {"backoff_first_s": 0.005, "backoff_max_s": 0.05}


def behind(proxy: Proxy, **options: Any) -> Client:
    known = {"follow_lookups": False, "admin_url": PULSAR_ADMIN_URL}
    return Client(proxy.url, **{**known, **SOON, **options})


@pytest.mark.parametrize("batching", [False, True])
async def test_what_has_no_receipt_is_sent_again_in_order(topic: str, batching: bool) -> None:
    async with milepost.testing.broker(deduplication=True) as broker:
        proxy = Proxy("127.0.0.1", broker.port)
        async with proxy, behind(proxy) as client:
            producer = await client.create_producer(
                topic, "p", batching_enabled=batching, batching_max_messages=7
            )
            sent = []
            for number in range(200):
                sent.append(producer.send_nowait(b"%d" % number))
                if number % 40 == 13:
                    await asyncio.sleep(0)
                    proxy.cut()
            for one in sent:
                await one
            reader = await client.create_reader(topic, MessageId.earliest)
            read = []
            while await reader.has_message_available():
                read.append((await reader.read_next(10_000)).data())
            assert read == [b"%d" % number for number in range(200)]


async def test_a_broker_that_restarts(topic: str, tmp_path: Path) -> None:
    async with milepost.testing.broker(tmp_path) as broker:
        port = broker.port
        client = Client(broker.url, **SOON)
        producer = await client.create_producer(topic, batching_enabled=False)
        consumer = await client.subscribe(topic, "s")
        for number in range(4):
            await producer.send(b"%d" % number)
        messages = [await consumer.receive(10_000) for _ in range(3)]
        await consumer.acknowledge(messages[1])
    while consumer.is_connected():
        await asyncio.sleep(0.001)  # sleep: until the client hears of it
    late = producer.send_nowait(b"4")
    acked = consumer.acknowledge_nowait(messages[0])
    async with milepost.testing.broker(tmp_path, port=port):
        await late
        await acked
        got = [(await consumer.receive(10_000)).data() for _ in range(3)]
        assert got == [b"2", b"3", b"4"]
        assert producer.is_connected()
        await client.close()


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_an_ack_without_an_answer_is_sent_again_before_anything_comes(
    port: int, topic: str, kind: ConsumerType
) -> None:
    proxy = Proxy("127.0.0.1", port)
    async with proxy, behind(proxy) as client:
        consumer = await client.subscribe(topic, "s", kind)
        producer = await client.create_producer(topic)
        for sent in [producer.send_nowait(b"%d" % number) for number in range(5)]:
            await sent
        messages = [await consumer.receive(10_000) for _ in range(5)]
        proxy.links[0].to_server.pause()
        waiting = asyncio.ensure_future(consumer.acknowledge(messages[:3]))
        await asyncio.sleep(0)
        proxy.cut()
        await waiting
        again = [(await consumer.receive(10_000)).data() for _ in range(2)]
        assert again == [b"3", b"4"]


@pytest.mark.parametrize("where", ["read", "unread", "time", "index", "latest"])
async def test_a_reader_goes_on_where_it_was(port: int, topic: str, where: str) -> None:
    proxy = Proxy("127.0.0.1", port)
    async with proxy, behind(proxy) as client:
        producer = await client.create_producer(topic)
        ids = [producer.send_nowait(b"%d" % number) for number in range(6)]
        ids = [await one for one in ids]
        start = MessageId.latest if where == "latest" else ids[1]
        reader = await client.create_reader(topic, start)
        expected = b"2"
        if where == "read":
            assert (await reader.read_next(10_000)).data() == b"2"
            expected = b"3"
        elif where == "time":
            await reader.seek(timestamp=0)
            expected = b"0"
        elif where == "index":
            await reader.seek(index=4)
            expected = b"4"
        elif where == "latest":
            await producer.send(b"6")
            assert (await reader.read_next(10_000)).data() == b"6"
        proxy.cut()
        if where == "latest":
            await producer.send(b"7")
            expected = b"7"
        assert (await reader.read_next(10_000)).data() == expected


async def test_a_seek_that_lost_its_connection_is_done_all_the_same(
    service: str, port: int, topic: str
) -> None:
    proxy = Proxy("127.0.0.1", port)
    async with proxy, behind(proxy) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        ids = [producer.send_nowait(b"%d" % number) for number in range(6)]
        ids = [await one for one in ids]
        for direction in ("to_client", "to_server"):
            getattr(proxy.links[-1], direction).pause()
            seeking = asyncio.ensure_future(consumer.seek(ids[2]))
            for _ in range(5):
                await asyncio.sleep(0)
            proxy.cut()
            await seeking
            assert (await consumer.receive(10_000)).data() == b"3"


async def test_a_stranger_seeks_on_our_subscription(
    service: str, port: int, topic: str, is_milepost: bool
) -> None:
    """The official client's seek moves everybody; we follow without being closed."""
    pulsar = pytest.importorskip("pulsar")
    async with Client(service, **SOON) as client:
        ours = await client.subscribe(topic, "s", ConsumerType.Shared)
        producer = await client.create_producer(topic, batching_enabled=False)
        for number in range(4):
            await producer.send(b"%d" % number)
        assert (await ours.receive(10_000)).data() == b"0"

        def seek_officially() -> None:
            official = pulsar.Client(service, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
            # A queue of its own for one message, so that ours gets the rest.
            theirs = official.subscribe(topic, "s", pulsar.ConsumerType.Shared)
            theirs.seek(pulsar.MessageId.earliest)
            official.close()

        await asyncio.to_thread(seek_officially)
        got = {(await ours.receive(10_000)).data() for _ in range(4)}
        assert got == {b"0", b"1", b"2", b"3"}
        if is_milepost:  # elsewhere everybody is closed, and subscribes again
            assert ours._subscription._attachments == 1


async def test_a_fenced_producer_is_told(service: str, port: int, topic: str) -> None:
    async with Client(service, **SOON) as client:
        first = await client.create_producer(topic, access_mode=ProducerAccessMode.Exclusive)
        await first.send(b"mine")
        second = await client.create_producer(
            topic, access_mode=ProducerAccessMode.ExclusiveWithFencing
        )
        await second.send(b"no, mine")

        async def go_on() -> None:
            while True:
                await first.send(b"still mine?")

        with pytest.raises(errors.ProducerFenced):
            await go_on()


async def test_an_exclusive_producer_waits_for_its_turn(
    service: str, port: int, topic: str
) -> None:
    async with Client(service, operation_timeout_seconds=5, **SOON) as client:
        first = await client.create_producer(topic, access_mode=ProducerAccessMode.Exclusive)
        waiting = asyncio.ensure_future(
            client.create_producer(topic, access_mode=ProducerAccessMode.WaitForExclusive)
        )
        await first.send(b"x")
        assert not waiting.done()
        await first.close()
        second = await waiting
        await second.send(b"y")


async def test_a_consumer_that_is_closed_as_soon_as_it_subscribes(topic: str) -> None:
    """SUCCESS and CLOSE_CONSUMER in one write: whoever waits for the subscription waits on, and the
    loop is not kept busy by it."""
    async with scripted() as (client, stub):
        consumer = await client.subscribe(topic, "s")
        stub.closes = 3
        stub.hang_up()
        while consumer.is_connected():
            await asyncio.sleep(0.001)  # sleep: until the client hears of it
        assert (await consumer.get_last_message_id()).entry_id == 5
        assert len(stub.subscribes) == 5


class Pondering(Stub):
    """Takes its time over whoever wants to be opened again."""

    def __init__(self, shared: Stub | None = None) -> None:
        super().__init__(shared)
        self.is_slow = False
        self.opening: list[Any] = []
        self.left: list[Any] = []

    def answer(self, message: Any) -> None:
        assert isinstance(self.shared, Pondering)
        if isinstance(message, pb.CommandCloseConsumer | pb.CommandCloseProducer):
            self.shared.left.append(message)
        if self.shared.is_slow and isinstance(message, pb.CommandSubscribe | pb.CommandProducer):
            self.shared.opening.append(message)
        else:
            super().answer(message)


@pytest.mark.parametrize("by", ["close", "time"])
@pytest.mark.parametrize("which", ["consumer", "producer"])
async def test_who_gives_up_while_it_is_opened_takes_leave(topic: str, which: str, by: str) -> None:
    """The broker has taken the request: it would keep a consumer or producer that nobody has, and refuse the
    next one for its sake."""
    patience_s = 30 if by == "close" else 1
    options: dict[str, Any] = {"operation_timeout_seconds": patience_s}
    async with scripted(Pondering, **options) as (client, stub):
        if which == "consumer":
            opened: Any = await client.subscribe(topic, "s")
        else:
            opened = await client.create_producer(topic, "p")
        stub.is_slow = True
        stub.hang_up()
        while not stub.opening:
            await asyncio.sleep(0.001)  # sleep: the client comes back
        if by == "close":
            await opened.close()
        while not stub.left:
            await asyncio.sleep(0.001)  # sleep: until its patience is over
        stub.is_slow = False
        name = f"{which}_id"
        assert getattr(stub.left[0], name) == getattr(stub.opening[0], name)
        if by == "time":
            while not opened.is_connected():
                await asyncio.sleep(0.001)  # sleep: it tries again


@pytest.mark.parametrize("by_id", [False, True], ids=["message", "id"])
async def test_a_copy_on_its_way_while_its_ack_is_answered_is_not_handed_out(
    running: BrokerForTest, topic: str, by_id: bool, milepost_only: None
) -> None:
    proxy = Proxy("127.0.0.1", running.port)
    async with proxy, behind(proxy) as client:
        consumer = await client.subscribe(
            topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=1
        )
        producer = await client.create_producer(topic)
        await producer.send(b"once")
        message = await consumer.receive(10_000)
        counters = running.running.broker.counters
        before = counters.messages_redelivered
        proxy.links[0].to_client.pause()
        consumer.negative_acknowledge(message)
        async with asyncio.timeout(10):
            while counters.messages_redelivered == before:
                await asyncio.sleep(0.001)  # sleep: until the broker has sent it again
        acked = consumer.acknowledge_nowait(message.message_id() if by_id else message)
        await asyncio.sleep(0)
        proxy.links[0].to_client.resume()
        await acked
        with pytest.raises(errors.Timeout):
            await consumer.receive(200)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_a_reset_that_was_missed_is_heard_of_when_it_comes_back(
    topic: str, kind: ConsumerType
) -> None:
    """What was received before the reset acks nothing of what was delivered again since."""
    async with milepost.testing.broker() as broker:
        proxy = Proxy("127.0.0.1", broker.port)
        async with proxy, behind(proxy) as client:
            consumer = await client.subscribe(topic, "s", kind)
            producer = await client.create_producer(topic, batching_enabled=False)
            for number in range(5):
                await producer.send(b"%d" % number)
            for moves in (1, 2):
                held = [await consumer.receive(30_000) for _ in range(3)]
                proxy.cut()
                asked = Reset(Target(index=1))
                name = TopicName.parse(topic)
                await reset(broker.running.broker, name, "s", asked, by="test")
                while consumer._subscription._attachments <= moves or not consumer._inbox.queue:
                    await asyncio.sleep(0.001)  # sleep: it comes back, and is sent them again
                await consumer.acknowledge(held)
                assert (await consumer.receive(30_000)).data() == b"1"
                epoch = consumer._subscription._cursor_epoch
                assert epoch.known == 2 * moves - 1
                # And what was received since the reset does count.
                again = await consumer.receive(30_000)
                await consumer.acknowledge(again)
                await consumer.seek(index=0)
                assert epoch.known == 2 * moves


async def test_a_question_is_asked_again_when_its_connection_is_lost(topic: str, port: int) -> None:
    """A broker that gives a shard away ends a process that listens at the service URL beside others: who had
    just connected to it is cut off, and asks another one."""
    proxy = Proxy("127.0.0.1", port)
    async with proxy, behind(proxy) as client:
        for ask in (client.get_topic_partitions, client.create_producer):
            await client.get_topic_partitions(topic)
            link = proxy.links[-1]
            link.to_client.pause()
            before = len(link.to_server.passed)
            asked: asyncio.Future[Any] = asyncio.ensure_future(ask(topic))
            while len(link.to_server.passed) == before:
                await asyncio.sleep(0.001)  # sleep: until it was asked
            link.cut()
            await asked
            assert proxy.links[-1] is not link


async def test_a_question_outlasts_several_processes_that_go() -> None:
    """Each of them takes connections until it is gone."""
    async with scripted() as (client, stub):
        stub.cuts = 6
        assert await client.get_topic_partitions("t") == ["persistent://public/default/t"]
        assert stub.cuts == 0
