"""What delayed messages cost in memory, and how punctual they are.

    python -m bench delayed

Memory is of a cursor that holds a million messages back, each until a time of its own. Punctuality is of a
broker with its journal on disk, asked by a consumer that notes when each message reaches its connection.
"""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import Result
from milepost.broker.broker import Broker
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.peer import Buffer
from milepost.broker.settings.settings import Settings
from milepost.broker.topic.producer import Producer
from milepost.clock import SystemClock
from milepost.cursor.cursor import Cursor
from milepost.positions.names import TopicName
from milepost.storage.engine import StorageEngine, open_store
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Send, Traits
from milepost.wire.metadata import split_entry

MIB = 1024 * 1024
# Measured, and reckoned for a million: tracing memory takes its time.
COUNT = 200_000
MILLION = 1_000_000
SPREAD_MS = 3_600_000

PUNCTUAL_COUNT = 1_000
PUNCTUAL_MS = 2_000


def run() -> Iterator[Result]:
    size, rate = _memory()
    yield Result("1 M messages wait, each for a time of its own", size, "MiB", "≤ 200", size <= 200)
    yield Result("messages put aside a second", rate, "/s", "", None)
    lateness = sorted(asyncio.run(_lateness()))
    worst = lateness[-1]
    median = lateness[len(lateness) // 2]
    yield Result(f"{PUNCTUAL_COUNT:,} messages in 2 s: median lateness", median, "ms", "", None)
    yield Result("… and the worst of them", worst, "ms", "≤ 100", lateness[0] >= 0 and worst <= 100)


def _memory() -> tuple[float, float]:
    dues = random.Random(7)
    times = [dues.randrange(SPREAD_MS) + 1_700_000_000_000 for _ in range(COUNT)]
    began = time.perf_counter()
    cursor = Cursor(0, COUNT)
    for index, due_ms in enumerate(times):
        cursor.delay(index, index + 1, due_ms)
    rate = COUNT / (time.perf_counter() - began)
    del cursor
    gc.collect()
    tracemalloc.start()
    cursor = Cursor(0, COUNT)
    for index, due_ms in enumerate(times):
        cursor.delay(index, index + 1, due_ms)
    size = tracemalloc.get_traced_memory()[0] * (MILLION / COUNT) / MIB
    tracemalloc.stop()
    assert cursor.counts().delayed == COUNT
    return size, rate


class _Ear(RecordingPeer):
    """Notes how late each message is, whose payload is its time."""

    def __init__(self) -> None:
        super().__init__()
        self.lateness: list[int] = []

    def write(self, buffers: Sequence[Buffer]) -> None:
        now_ms = time.time_ns() // 1_000_000
        for buffer in buffers[1::2]:
            self.lateness.append(now_ms - int(split_entry(bytes(buffer)).payload))


async def _lateness() -> list[int]:
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        store, lock = open_store(data, clock)
        broker = Broker(Settings(data=data), StorageEngine(store, lock), clock)
        await broker.start()
        try:
            topic = await broker.topic(TopicName.parse("persistent://public/default/bench"))
            subscription = await broker.create_subscription(topic, "s", 0)
            ear = _Ear()
            consumer = Consumer(broker.next_holder(), 0, "c", ear, subscription)
            subscription.add_consumer(consumer, SHARED)
            subscription.flow(consumer, 2 * PUNCTUAL_COUNT)
            producer = Producer(0, "p", RecordingPeer(), topic)
            step = PUNCTUAL_MS / PUNCTUAL_COUNT
            first_ms = clock.wall_ms() + 500
            dues = [first_ms + int(number * step) for number in range(PUNCTUAL_COUNT)]
            topic.publish(producer, [_send(number, due) for number, due in enumerate(dues)])
            while len(ear.lateness) < PUNCTUAL_COUNT:
                await asyncio.sleep(0.1)
        finally:
            await broker.close()
    return ear.lateness


def _send(sequence_id: int, due_ms: int) -> Send:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=sequence_id, publish_time=1, deliver_at_time=due_ms
    ).SerializeToString()
    entry = len(metadata).to_bytes(4, "big") + metadata + b"%d" % due_ms
    return Send(sequence_id, 0, 1, 1, entry, Traits(deliver_at_time=due_ms))
