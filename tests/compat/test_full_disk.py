"""A disk that is full for a moment under the official client: nothing is lost, and the order stays.

The limit on the size of files (`RLIMIT_FSIZE`) of the running broker stands for the full disk: every write
of the journal fails until the limit is raised again. A proxy keeps the broker's answers back meanwhile, so
that the client sends more before it hears of the first refusal.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess, not_on_a_bucket, not_on_workers

from milepost.testing.proxy import Link, Proxy

pytestmark = [
    not_on_a_bucket("its journal is no file"),
    not_on_workers("each has a journal of its own"),
]

ROUNDS = 3
BEHIND = 20
# More than a frame of each of them takes.
SEND_SIZE = 60


@contextmanager
def full_disk(broker: BrokerProcess) -> Iterator[None]:
    (pid,) = broker.serving
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


class Sender:
    """A producer of the official client that numbers what it sends."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._producer = client.create_producer(topic, batching_enabled=False)
        self.count = 0
        self._answers: list[asyncio.Future[pulsar.Result]] = []

    def send(self) -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[pulsar.Result] = loop.create_future()
        self._answers.append(answer)
        self._producer.send_async(
            b"%d" % self.count,
            lambda result, _: loop.call_soon_threadsafe(answer.set_result, result),
        )
        self.count += 1

    async def is_stored(self) -> None:
        assert set(await asyncio.gather(*self._answers)) == {pulsar.Result.Ok}


def _carries_sends(proxy: Proxy) -> Link:
    """The connection of the producer: the newest that is open."""
    return next(link for link in reversed(proxy.links) if link.is_open)


def _refused(broker: BrokerProcess) -> list[bytes]:
    """What the metrics say of refused publishes: the log is on the full disk too."""
    lines: bytes = broker.rest("GET", "/metrics")[1]
    return [line for line in lines.splitlines() if line.startswith(b"milepost_publishes_refused")]


async def _fill_once(broker: BrokerProcess, proxy: Proxy, sender: Sender) -> None:
    """The disk refuses one message and takes those that the client sends before it hears of that."""
    before = await asyncio.to_thread(_refused, broker)
    link = _carries_sends(proxy)
    link.to_client.pause()
    with full_disk(broker):
        sender.send()
        while await asyncio.to_thread(_refused, broker) == before:
            pass
    passed = len(link.to_server.passed)
    for _ in range(BEHIND):
        sender.send()
    await link.to_server.has_passed(passed + BEHIND * SEND_SIZE)
    # The broker is done with them when it has answered a call that came later.
    assert (await asyncio.to_thread(broker.rest, "GET", "/admin/v2/brokers/health"))[0] == 200
    link.to_client.resume()
    await sender.is_stored()


@pytest.mark.parametrize("deduplication", [False, True])
def test_no_message_passes_by_one_that_the_disk_refused(
    tmp_path: Path, topic: str, deduplication: bool
) -> None:
    """Without deduplication a message may be stored twice, but not before the one that was sent before it."""
    broker = BrokerProcess(tmp_path, deduplication=deduplication)

    async def play() -> list[int]:
        async with Proxy("127.0.0.1", broker.port) as proxy:
            broker.settings["advertised_listeners"] = f"test:{proxy.url}"
            await asyncio.to_thread(broker.start)
            client = pulsar.Client(proxy.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
            sender = await asyncio.to_thread(Sender, client, topic)
            sender.send()
            await sender.is_stored()
            for _ in range(ROUNDS):
                await _fill_once(broker, proxy, sender)
            stored = await asyncio.to_thread(_read, client, topic)
            await asyncio.to_thread(client.close)
            assert max(stored) == sender.count - 1
            return stored

    try:
        stored = asyncio.run(asyncio.wait_for(play(), 60))
    finally:
        broker.kill()
    newest = -1
    for number in stored:
        assert number <= newest + 1, f"{number} came behind {newest}: {stored}"
        newest = max(newest, number)


def _read(client: pulsar.Client, topic: str) -> list[int]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    stored = []
    while reader.has_message_available():
        stored.append(int(reader.read_next(10_000).data()))
    return stored
