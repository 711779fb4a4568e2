"""Mistakes, strangers and bad luck: a typed error or a documented no-op, never a hang, nothing unheard.

(The harness fails every test in which an exception was raised where nobody listened.)
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pulsar
import pytest

import milepost
import milepost.testing
from client.harness import check_backlog
from milepost import errors
from milepost.aio import Client
from milepost.broker.connection.listener import stop_listening
from milepost.client.policies import ConsumerType
from milepost.positions import MessageId
from milepost.testing.proxy import Proxy
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Command
from milepost.wire.protocol import ServerProtocol

Connect = Callable[..., Client]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def test_everything_after_close_is_refused(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        reader = await client.create_reader(topic, MessageId.earliest)
        await producer.send(b"x")
        message = await consumer.receive(10_000)
        for one in (producer, consumer, reader):
            await one.close()
            await one.close()
        for call in (
            lambda: producer.send(b"x"),
            lambda: producer.flush(),
            lambda: consumer.receive(),
            lambda: consumer.acknowledge(message),
            lambda: consumer.acknowledge_cumulative(message),
            lambda: consumer.seek(MessageId.earliest),
            lambda: consumer.get_last_message_id(),
            lambda: consumer.unsubscribe(),
            lambda: reader.read_next(),
            lambda: reader.has_message_available(),
        ):
            with pytest.raises(errors.AlreadyClosed):
                await call()
        with pytest.raises(errors.AlreadyClosed):
            producer.send_nowait(b"x")
        with pytest.raises(errors.AlreadyClosed):
            consumer.negative_acknowledge(message)
    for call in (
        lambda: client.create_producer(topic),
        lambda: client.subscribe(topic, "s"),
        lambda: client.get_topic_partitions(topic),
    ):
        with pytest.raises(errors.AlreadyClosed):
            await call()


async def test_a_wait_ends_when_its_consumer_is_closed(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        waiting = asyncio.ensure_future(consumer.receive())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(errors.AlreadyClosed):
            await waiting


async def test_acks_of_what_is_not_ours(connect: Connect, topic: str, is_milepost: bool) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        other = await client.subscribe(f"{topic}-other", "s")
        producer = await client.create_producer(topic)
        await producer.send(b"x")
        message = await consumer.receive(10_000)
        with pytest.raises(errors.InvalidMessageId, match="not received by this"):
            await other.acknowledge(message)
        with pytest.raises(errors.InvalidMessageId, match="partition 7"):
            await consumer.acknowledge(MessageId(1, 1, partition=7))
        with pytest.raises(errors.InvalidMessageId, match="unknown size"):
            await consumer.acknowledge(MessageId(1, 1, batch_index=3))
        if is_milepost:  # Apache Pulsar takes it, and says nothing
            with pytest.raises(errors.MilepostError):
                await consumer.acknowledge(MessageId(2**40, 5))
        for nonsense in ("1:2", 5, None):
            with pytest.raises((errors.InvalidMessageId, TypeError)):
                await consumer.acknowledge(nonsense)  # type: ignore[arg-type]
        await consumer.acknowledge(message)  # and it goes on working
        await check_backlog(consumer, 0)


async def test_cumulative_acks_where_there_are_none(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", ConsumerType.Shared)
        with pytest.raises(errors.NotAllowed, match="Shared"):
            await consumer.acknowledge_cumulative(MessageId(1, 1))
        single = await client.subscribe(topic, "t")
        with pytest.raises(errors.InvalidInput, match="give one"):
            await single.acknowledge_cumulative()
        with pytest.raises(errors.InvalidInput, match="give one"):
            await single.acknowledge_cumulative(MessageId(1, 1), index=4)


@pytest.mark.parametrize("batching", [False, True])
async def test_a_payload_over_the_limit(connect: Connect, topic: str, batching: bool) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=batching)
        with pytest.raises(errors.MessageTooBig, match="chunking_enabled is off"):
            await producer.send(bytes(5 * 1024 * 1024 + 1))
        await producer.send(b"small")
        assert producer._count == 0


async def test_content_that_is_no_message(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic)
        for content in ("text", 5, {}):
            with pytest.raises(errors.InvalidInput, match="is bytes"):
                await producer.send(content)
        for sequence_id in (-1, "x", 2**63):
            with pytest.raises(errors.InvalidInput, match="sequence id"):
                await producer.send(b"x", sequence_id=sequence_id)
        await producer.send(None)  # a message without a value is one


async def test_bad_names_and_options(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(errors.InvalidTopicName):
            await client.create_producer("persistent://only/two")
        with pytest.raises(errors.InvalidInput):
            await client.subscribe("t", "")
        with pytest.raises(errors.InvalidInput):
            await client.subscribe([], "s")
        with pytest.raises(TypeError, match="nonsense"):
            await client.create_producer("t", nonsense=1)
        of_the_wheel: Any = pulsar.schema.StringSchema()
        for call in (
            lambda: client.create_producer("t", schema=of_the_wheel),
            lambda: client.subscribe("t", "s", schema=of_the_wheel),
            lambda: client.create_reader("t", MessageId.earliest, schema=of_the_wheel),
            lambda: client.create_table_view("t", schema=of_the_wheel),
        ):
            with pytest.raises(errors.InvalidInput, match="StringSchema; give one of"):
                await call()
    for url in ("", "localhost:6650", "http://x"):
        with pytest.raises(errors.InvalidInput):
            Client(url)
    with pytest.raises(TypeError, match="nonsense"):
        Client("pulsar://x", nonsense=1)
    for credentials in ("a.jwt", pulsar.AuthenticationToken("a.jwt")):
        with pytest.raises(errors.InvalidInput, match=r"give one of Milepost's, as"):
            Client("pulsar://x", credentials)


async def test_why_nobody_answers_is_told_in_words() -> None:
    with pytest.raises(errors.ConnectError, match="connection refused: nothing listens there"):
        async with Client("pulsar://localhost:1", operation_timeout_seconds=0.3) as client:
            await client.create_producer("t")
    with pytest.raises(errors.ConnectError, match="there is no such host"):
        async with Client("pulsar://no-host.invalid:1", operation_timeout_seconds=0.3) as client:
            await client.create_producer("t")


async def test_a_second_exclusive_consumer(connect: Connect, topic: str) -> None:
    async with connect() as client:
        await client.subscribe(topic, "s")
        with pytest.raises(errors.ConsumerBusy):
            await client.subscribe(topic, "s")


async def test_a_full_queue(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, max_pending_messages=3)
        sent = [producer.send_nowait(b"x") for _ in range(3)]
        with pytest.raises(errors.ProducerQueueIsFull, match="3 messages"):
            producer.send_nowait(b"x")
        for one in sent:
            await one
        patient = await client.create_producer(
            topic, max_pending_messages=3, block_if_queue_full=True
        )
        for one in [await patient.enqueue(b"x") for _ in range(20)]:
            await one


@pytest.mark.parametrize("what", ["send", "ack", "seek", "last", "subscribe", "produce", "receive"])
async def test_cancelled_in_the_middle(topic: str, port: int, what: str) -> None:
    """Whatever was cancelled, the next call works."""
    proxy = Proxy("127.0.0.1", port)
    async with proxy, Client(proxy.url, follow_lookups=False, backoff_first_s=0.001) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, batching_enabled=False)
        ids = [await producer.send(b"%d" % number) for number in range(3)]
        message = await consumer.receive(10_000)
        link = proxy.links[0]
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "send": lambda: producer.send(b"3"),
            "ack": lambda: consumer.acknowledge(message),
            "seek": lambda: consumer.seek(ids[0]),
            "last": lambda: consumer.get_last_message_id(),
            "subscribe": lambda: client.subscribe(topic, "t"),
            "produce": lambda: client.create_producer(topic),
            "receive": lambda: consumer.receive(),
        }
        for _ in range(3):
            link.to_client.pause()
            work = asyncio.ensure_future(calls[what]())
            for _ in range(5):
                await asyncio.sleep(0)
            work.cancel()
            await asyncio.wait([work])
            link.to_client.resume()
        await consumer.seek(ids[1])
        assert (await consumer.receive(10_000)).data() == b"2"
        await producer.send(b"4")


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[Any]] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await serve(reader, writer)

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    try:
        yield f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await stop_listening(server)
        if tasks:
            await asyncio.wait(tasks)


def impatient(url: str, **options: Any) -> Client:
    options.setdefault("operation_timeout_seconds", 0.3)
    options.setdefault("connection_timeout_ms", 200)
    return Client(url, follow_lookups=False, backoff_first_s=0.01, **options)


GARBAGE = {
    "noise": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "huge": b"\xff\xff\xff\xff\x00\x00\x00\x10",
    "empty frame": b"\x00\x00\x00\x00\x00\x00\x00\x00",
    "half a frame": b"\x00\x00\x00\x20\x00\x00\x00\x10\x08",
    "nothing": b"",
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
async def test_a_broker_that_sends_garbage(data: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(data)
        writer.close()

    async with serving(serve) as url, impatient(url) as client:
        with pytest.raises(errors.ConnectError):
            await client.create_producer("t")


async def test_a_broker_that_says_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with serving(serve) as url, impatient(url) as client:
        with pytest.raises(errors.ConnectError, match="did not answer"):
            await client.subscribe("t", "s")


async def test_a_broker_that_accepts_and_answers_nothing_more() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = ServerProtocol(server_version="silent")
        while data := await reader.read(1000):
            for event in protocol.receive(data):
                if isinstance(event, Command) and isinstance(event.message, pb.CommandConnect):
                    protocol.accept()
            writer.writelines(protocol.data_to_send())
        writer.close()

    async with serving(serve) as url, impatient(url) as client:
        with pytest.raises(errors.Timeout):
            await client.create_producer("t")
        with pytest.raises(errors.Timeout):
            await client.get_topic_partitions("t")


async def test_no_broker_there() -> None:
    async with impatient("pulsar://127.0.0.1:1") as client:
        with pytest.raises(errors.ConnectError):
            await client.create_producer("t")


async def test_a_network_that_stops(topic: str, port: int) -> None:
    """Sends and acks that are not answered fail in time, and what comes after them works."""
    proxy = Proxy("127.0.0.1", port)
    async with proxy, impatient(proxy.url) as client:
        producer = await client.create_producer(topic, send_timeout_millis=100)
        consumer = await client.subscribe(topic, "s")
        await producer.send(b"x")
        message = await consumer.receive(10_000)
        link = proxy.links[0]
        link.to_client.pause()
        with pytest.raises(errors.Timeout, match="no receipt"):
            await producer.send(b"late")
        with pytest.raises(errors.Timeout):
            await consumer.acknowledge(message)
        with pytest.raises(errors.Timeout):
            await consumer.seek(MessageId.earliest)
        link.to_client.resume()
        await producer.send(b"again")


async def test_a_network_that_is_gone(topic: str, port: int) -> None:
    """Nothing waits for a connection longer than it may; when there is one again, everything works."""
    proxy = Proxy("127.0.0.1", port)
    async with proxy, impatient(proxy.url, backoff_max_s=0.02) as client:
        producer = await client.create_producer(topic, send_timeout_millis=100)
        consumer = await client.subscribe(topic, "s")
        ids = [await producer.send(b"%d" % number) for number in range(4)]
        messages = [await consumer.receive(10_000) for _ in range(4)]
        proxy.is_refusing = True
        proxy.cut()
        while consumer.is_connected() or producer.is_connected():
            await asyncio.sleep(0.001)  # sleep: until the client hears of it
        for call in (
            lambda: producer.send(b"late"),
            lambda: consumer.acknowledge(messages[0]),
            lambda: consumer.acknowledge([messages[1], ids[2]]),
            lambda: consumer.acknowledge_cumulative(messages[0]),
            lambda: consumer.seek(ids[0]),
            lambda: consumer.get_last_message_id(),
            lambda: consumer.receive(50),
        ):
            with pytest.raises(errors.Timeout):
                await call()
        proxy.is_refusing = False
        await consumer.seek(ids[2])
        assert (await consumer.receive(10_000)).data() == b"3"
        await producer.send(b"again")


async def test_a_bad_id_spoils_nobody_elses_ack(
    connect: Connect, topic: str, milepost_only: None
) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        for sent in [producer.send_nowait(b"x") for _ in range(3)]:
            await sent
        messages = [await consumer.receive(10_000) for _ in range(3)]
        good, bad, mixed = (
            consumer.acknowledge_nowait(messages[0]),
            consumer.acknowledge_nowait(MessageId(2**40, 1)),
            consumer.acknowledge_nowait([messages[1], MessageId(2**40, 2)]),
        )
        await good
        for failing in (bad, mixed):
            with pytest.raises(errors.MilepostError):
                await failing
        await check_backlog(consumer, 1)


async def test_a_client_belongs_to_its_loop(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic)

        def elsewhere() -> None:
            async def use() -> None:
                with pytest.raises(errors.WrongContext, match="event loop"):
                    await producer.send(b"x")
                with pytest.raises(errors.WrongContext, match="event loop"):
                    await client.close()
                with pytest.raises(errors.WrongContext, match="event loop"):
                    await client.subscribe(topic, "s")

            asyncio.run(use())

        await asyncio.to_thread(elsewhere)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told(service: str, topic: str) -> None:
    """Its copies of the sockets are the parent's, and its loop has no thread."""
    with milepost.Client(service) as client:
        producer = client.create_producer(topic)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in (lambda: producer.send(b"x"), lambda: client.subscribe(topic, "s")):
                    try:
                        call()
                    except errors.WrongContext:
                        status = 0
                    else:
                        status = 2
                client.close()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        producer.send(b"the parent goes on")


def test_a_blocking_call_from_a_callback_is_refused(service: str, topic: str) -> None:
    heard: list[Any] = []
    with milepost.Client(service) as client:
        producer = client.create_producer(topic)

        def stored(result: Any, message_id: Any) -> None:
            try:
                producer.send(b"from the callback")
            except errors.WrongContext as error:
                heard.append(error)

        producer.send_async(b"x", stored)
        producer.flush()
    assert len(heard) == 1


async def test_what_is_forgotten_is_no_trouble(connect: Connect, topic: str) -> None:
    """Producers and consumers that nobody closed end with their client, and leave nothing behind."""
    async with connect() as client:
        for _ in range(3):
            producer = await client.create_producer(topic)
            producer.send_nowait(b"x")
            (await client.subscribe(topic, "s", ConsumerType.Shared)).acknowledge_nowait([])
        del producer
        gc.collect()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not [task for task in left if not task.done()]
