"""The load for a Kafka: record batches and requests of Kafka's protocol, encoded before the clock runs.

As `bench/load/workloads.py` does for brokers that speak Pulsar's: one process, prepared bytes, nothing of an
answer is read but what counts. Kafka answers the requests of a connection one after the other; several wait
there meanwhile, as those of its own producer do (`max.in.flight.requests.per.connection`).

Requests are of the oldest versions that Kafka 4 takes: Metadata 4, Produce 3, Fetch 4.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Sequence

import google_crc32c

from bench.load.lanes import Sample
from bench.load.target import Target
from bench.load.workloads import SECONDS_MAX, Figure, Load
from milepost.wire.scanners.varint import encode_varint

PRODUCE, FETCH, METADATA = 0, 1, 3
VERSIONS = {PRODUCE: 3, FETCH: 4, METADATA: 4}
IN_FLIGHT = 5
ACKS_ALL = -1
REQUEST_TIMEOUT_MS = 30_000
# As much as Kafka's own consumer asks for at a time.
FETCH_BYTES = 50 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
TOPIC_WAIT_S = 30.0

_unpack_batch = struct.Struct(">qi").unpack_from
_LAST_OFFSET_DELTA_AT = 23
_BATCH_HEAD_SIZE = 12


class KafkaError(Exception):
    """Kafka said no to something that the benchmark needs."""


# -- bytes ---------------------------------------------------------------------------------------------


def record_batch(payload: bytes, count: int) -> bytes:
    """A record batch (version 2) of the same value again and again, without keys."""
    records = b"".join(_record(payload, number) for number in range(count))
    now_ms = time.time_ns() // 1_000_000
    body = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    crc = google_crc32c.value(body)
    tail = struct.pack(">ibI", -1, 2, crc) + body
    return struct.pack(">qi", 0, len(tail)) + tail


def _record(payload: bytes, number: int) -> bytes:
    body = b"\0\0" + _zigzag(number) + _zigzag(-1) + _zigzag(len(payload)) + payload + b"\0"
    return _zigzag(len(body)) + body


def _zigzag(value: int) -> bytes:
    """
    >>> [_zigzag(value).hex() for value in (0, -1, 1, 100)]
    ['00', '01', '02', 'c801']
    """
    return encode_varint((value << 1) ^ (value >> 63))


def request(kind: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", kind, VERSIONS[kind], 0, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_request(topic: str, records: bytes) -> bytes:
    body = struct.pack(">hhii", -1, ACKS_ALL, REQUEST_TIMEOUT_MS, 1) + _text(topic)
    return request(PRODUCE, body + struct.pack(">iii", 1, 0, len(records)) + records)


def fetch_request(topic: str, first: int) -> bytes:
    body = struct.pack(">iiiibi", -1, 500, 1, FETCH_BYTES, 0, 1) + _text(topic)
    return request(FETCH, body + struct.pack(">iiqi", 1, 0, first, PARTITION_BYTES))


def metadata_request(topic: str) -> bytes:
    """Asks for a topic, and lets it be made."""
    return request(METADATA, struct.pack(">i", 1) + _text(topic) + b"\1")


def produce_error(answer: bytes, topic: str) -> int:
    """The error code of one topic and one partition; 0 is none."""
    (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    return int(code)


def fetched_end(answer: bytes, topic: str) -> int | None:
    """The index behind the last record that an answer has in full; None if it has none."""
    at = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    code, _, _, aborted = struct.unpack_from(">hqqi", answer, at)
    if code:
        raise KafkaError(f"fetch: error {code}")
    at += 22 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", answer, at)
    at += 4
    end, found = at + size, None
    while at + _BATCH_HEAD_SIZE <= end:
        first, length = _unpack_batch(answer, at)
        if at + _BATCH_HEAD_SIZE + length > end:
            break
        (delta,) = struct.unpack_from(">i", answer, at + _LAST_OFFSET_DELTA_AT)
        found = first + delta + 1
        at += _BATCH_HEAD_SIZE + length
    return found


def topic_error(answer: bytes) -> int:
    """The error code of the one topic in an answer to Metadata."""
    at = 4 + 4
    (brokers,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(brokers):
        at = _skip_text(answer, at + 4) + 4  # node, host, port
        at = _skip_text(answer, at)  # rack
    at = _skip_text(answer, at) + 4 + 4  # cluster, controller, number of topics
    (code,) = struct.unpack_from(">h", answer, at)
    return int(code)


def _skip_text(data: bytes, at: int) -> int:
    (size,) = struct.unpack_from(">h", data, at)
    return at + 2 + max(int(size), 0)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


# -- the load ------------------------------------------------------------------------------------------


class KafkaLoad:
    """Runs workloads against a Kafka, with the counts and the clock of a `Load`."""

    def __init__(self, target: Target, scale: float = 1.0) -> None:
        self._load = Load(target, scale)
        self.target = target

    async def publish(
        self, name: str, count: int, size: int, batch_size: int, *, in_flight: int = IN_FLIGHT
    ) -> Figure:
        """One producer with so many requests on their way, a record batch in each."""
        topic = self._topic(name)
        requests = self._load.count(count) // batch_size
        frame = produce_request(topic, record_batch(bytes(size), batch_size))
        connection = await _Connection.open(self.target.address)
        await connection.make(topic, frame)
        await self._publish(connection, topic, frame, max(requests // 10, 1), in_flight)

        async def work() -> tuple[int, Sequence[Sample]]:
            samples = await self._publish(connection, topic, frame, requests, in_flight)
            return len(samples) * batch_size, [(took, batch_size) for took in samples]

        figure = await self._load.measured(name, work)
        connection.close()
        return figure._replace(bytes_each=size)

    async def _publish(
        self, connection: _Connection, topic: str, frame: bytes, requests: int, in_flight: int
    ) -> list[float]:
        deadline = time.perf_counter() + SECONDS_MAX
        sent: deque[float] = deque()
        samples: list[float] = []
        left = requests
        while sent or left:
            while left and len(sent) < in_flight:
                connection.write(frame)
                sent.append(time.perf_counter())
                left -= 1
            answer = await connection.answer()
            now = time.perf_counter()
            samples.append(now - sent.popleft())
            if code := produce_error(answer, topic):
                raise KafkaError(f"produce: error {code}")
            if now > deadline:
                left = 0
        return samples

    async def catch_up(self, name: str, count: int, batch_size: int) -> Figure:
        """Read a topic from its beginning."""
        topic = self._topic(name)
        frame = produce_request(topic, record_batch(bytes(100), batch_size))
        connection = await _Connection.open(self.target.address)
        await connection.make(topic, frame)
        requests = self._load.count(count) // batch_size
        filled = await self._publish(connection, topic, frame, requests, IN_FLIGHT)
        count = len(filled) * batch_size

        async def work() -> tuple[int, Sequence[Sample]]:
            at = 0
            while at < count:
                connection.write(fetch_request(topic, at))
                at = fetched_end(await connection.answer(), topic) or at
            return count, ()

        figure = await self._load.measured(name, work)
        connection.close()
        return figure

    def _topic(self, name: str) -> str:
        return f"{self._load.run}-{name}".replace(" ", "-")


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.write = writer.write
        self.close = writer.close

    @classmethod
    async def open(cls, address: tuple[str, int]) -> _Connection:
        return cls(*await asyncio.open_connection(*address, limit=2 * FETCH_BYTES))

    async def answer(self) -> bytes:
        async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1000):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            return await self._reader.readexactly(size)

    async def make(self, topic: str, frame: bytes) -> None:
        """Ask for a topic until it is there, and publish to it until its partition has a leader."""
        async with asyncio.timeout(TOPIC_WAIT_S):
            while await self._refuses(topic, frame):
                await asyncio.sleep(0.1)

    async def _refuses(self, topic: str, frame: bytes) -> bool:
        self.write(metadata_request(topic))
        if topic_error(await self.answer()):
            return True
        self.write(frame)
        return bool(produce_error(await self.answer(), topic))
