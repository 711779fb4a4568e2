"""What nobody closes: one warning that says so, no socket left, whatever was cancelled and whenever.

Warnings are errors in these tests, and what is raised where nobody listens is collected: asyncio's own
"unclosed transport" of one of our sockets would be a failure.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import milepost
from milepost.aio import Client
from milepost.errors import AlreadyClosed

Silence = Callable[[], list[str]]


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silence]:
    """What was warned of and raised unheard so far, once everything forgotten is collected."""
    unraisable: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: unraisable.append(repr(found)))
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def heard() -> list[str]:
            for _ in range(3):
                gc.collect()
            return [str(one.message) for one in caught] + unraisable

        yield heard


def ends(thread_name: str, count: int) -> None:
    """Wait until so many threads of that name are left."""
    until = time.monotonic() + 30
    while sum(one.name == thread_name for one in threading.enumerate()) > count:
        assert time.monotonic() < until
        time.sleep(0.005)  # sleep: a thread ends by itself


def client_threads() -> int:
    return sum(one.name == "milepost-client" for one in threading.enumerate())


def test_a_forgotten_asyncio_client(service: str, topic: str, noise: Silence) -> None:
    async def main() -> None:
        client = Client(service)
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        await producer.send(b"1")
        await consumer.receive(10_000)

    asyncio.run(main())
    assert noise() == [f"a milepost client of {service} was never closed: use it with `with`"]


def test_a_client_that_is_forgotten_before_its_loop(
    service: str, topic: str, noise: Silence
) -> None:
    async def main() -> None:
        await Client(service).get_topic_partitions(topic)
        async with asyncio.timeout(30):
            while not noise():
                await asyncio.sleep(0.001)  # sleep: its connections are closed by their loop

    asyncio.run(main())
    assert noise() == [f"a milepost client of {service} was never closed: use it with `with`"]


def test_a_client_that_never_connected_is_nobodys_business(service: str, noise: Silence) -> None:
    before = client_threads()

    async def main() -> None:
        Client(service)
        async with Client(service):
            pass

    asyncio.run(main())
    milepost.Client(service)
    gc.collect()
    ends("milepost-client", before)
    assert noise() == []


def test_a_forgotten_synchronous_client(service: str, topic: str, noise: Silence) -> None:
    before = client_threads()

    def use() -> None:
        client = milepost.Client(service)
        consumer = client.subscribe(topic, "s")
        client.create_producer(topic).send(b"1")
        assert consumer.receive(10_000).data() == b"1"

    use()
    gc.collect()
    ends("milepost-client", before)
    assert noise() == [f"a milepost client of {service} was never closed: use it with `with`"]


def test_what_a_client_made_keeps_it(service: str, topic: str, noise: Silence) -> None:
    def made() -> Any:
        return milepost.Client(service).create_producer(topic)

    producer = made()
    gc.collect()
    assert producer.send(b"still here") is not None
    producer._owner.close()
    with pytest.raises(AlreadyClosed):
        producer.send(b"no more")
    assert noise() == []


def test_a_closed_client_is_silent_with_any_loop(service: str, topic: str, noise: Silence) -> None:
    """Also on a loop that nobody tidies up."""
    loop = asyncio.new_event_loop()
    client = Client(service)
    producer = loop.run_until_complete(client.create_producer(topic))
    loop.run_until_complete(producer.send(b"1"))
    loop.run_until_complete(client.close())
    loop.close()
    assert noise() == []


def test_shutdown_need_not_be_awaited(service: str, topic: str, noise: Silence) -> None:
    async def main() -> None:
        client = Client(service)
        consumer = await client.subscribe(topic, "s")
        client.shutdown()
        with pytest.raises(AlreadyClosed):
            await consumer.receive(30_000)
        with pytest.raises(AlreadyClosed):
            await client.create_producer(topic)

    asyncio.run(main())
    assert noise() == []


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_cancelled_and_whenever(
    service: str, topic: str, noise: Silence, seed: int
) -> None:
    """100 clients each: one call is cancelled after some turns of the loop, often amid connecting; then
    closing is cancelled too, now and then. No socket, task or exception is left."""
    random = Random(seed)
    unheard: list[dict[str, Any]] = []

    async def turns(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(
                0 if random.random() < 0.8 else 0.001
            )  # sleep: of the test's weather

    async def once(number: int) -> None:
        client = Client(service, backoff_first_s=0.001)
        calls: list[Callable[[], Any]] = [
            lambda: client.create_producer(f"{topic}-{number % 7}"),
            lambda: client.subscribe(topic, f"s{number}"),
            lambda: client.create_reader(topic, milepost.MessageId.earliest),
            lambda: client.get_topic_partitions(topic),
            lambda: client.create_table_view(topic),
            lambda: client.subscribe(f"{topic}-.*", f"p{number}", is_pattern_topic=True),
        ]
        work = asyncio.ensure_future(random.choice(calls)())
        await turns(random.randrange(12))
        work.cancel()
        if random.random() < 0.5:
            await asyncio.wait([work])
        closing = asyncio.ensure_future(client.close())
        if random.random() < 0.3:
            await turns(random.randrange(4))
            closing.cancel()
        await asyncio.wait([closing, work])
        await client.close()
        for task in (work, closing):
            if not task.cancelled():
                task.exception()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: unheard.append(found))
        for first in range(0, 100, 10):
            await asyncio.gather(*(once(number) for number in range(first, first + 10)))
        async with asyncio.timeout(30):
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0.001)  # sleep: tasks that were cancelled end

    asyncio.run(main())
    assert noise() == []
    assert not unheard, "\n".join(map(str, unheard))
