"""What the tests with strangers share: the neighbour who must be served, the broker's own numbers, and the
making of frames that nobody should send.

A module of them imports `neighbour` and `everyone_else_is_served`, and has `SETTINGS`.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.line import Line
from compat.talk import RECEIVE_MS

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt
from milepost.wire.frames import crc32c
from milepost.wire.scanners.varint import encode_varint

MIB = 1024 * 1024
HANDSHAKE_TIMEOUT_S = 0.5
SETTINGS = {"handshake_timeout_s": HANDSHAKE_TIMEOUT_S}
MESSAGE_SIZE_MAX = 5 * MIB
# Frames may be this much larger than a message.
PADDING = 10 * 1024
# The most memory that the broker may ever have had. Not what it has afterwards: that depends on what ran
# before, and a peak of gigabytes is given back before anybody looks.
PEAK_MAX = 512 * MIB
# On a busy machine: nothing that a stranger does may have everyone wait for a timeout.
WAIT_MAX_S = 10.0


def u32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}I", *numbers)


# -- everyone else -----------------------------------------------------------------------------------


class Neighbour:
    """The official client, minding its own business."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.topic = "persistent://public/default/neighbour"
        self._client = pulsar.Client(
            broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        self._consumer = self._client.subscribe(self.topic, "s")
        self._producer = self._client.create_producer(self.topic, send_timeout_millis=3000)
        self._sent = 0

    def works(self) -> None:
        self._sent += 1
        payload = b"%d" % self._sent
        self._producer.send(payload)
        message = self._consumer.receive(RECEIVE_MS)
        assert message.data() == payload
        self._consumer.acknowledge(message)

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def neighbour(broker: BrokerProcess) -> Iterator[Neighbour]:
    neighbour = Neighbour(broker)
    yield neighbour
    neighbour.close()


@pytest.fixture(autouse=True)
def everyone_else_is_served(broker: BrokerProcess, neighbour: Neighbour) -> Iterator[None]:
    yield
    began, began_s = time.monotonic(), cpu_s(broker)
    neighbour.works()
    assert cpu_s(broker) - began_s < 1  # of the processor: others may have it meanwhile
    assert time.monotonic() - began < WAIT_MAX_S
    assert peak_size(broker) < PEAK_MAX


def metric(broker: BrokerProcess, name: str, **labels: str) -> float:
    """A number of the broker, of all its workers; 0 if it was never counted."""
    status, text = broker.rest("GET", "/metrics")
    assert status == 200
    whole = 0.0
    for line in text.decode().splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found is not None and found[1] == name:
            has = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
            if labels.items() <= has.items():
                whole += float(found[3])
    return whole


def cpu_s(broker: BrokerProcess) -> float:
    """What the broker has used of the processor."""
    stats = [
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in broker.serving
    ]
    return sum(int(one[11]) + int(one[12]) for one in stats) / os.sysconf("SC_CLK_TCK")


def peak_size(broker: BrokerProcess) -> int:
    """The largest that a process of the broker has been since it began, in bytes."""
    sizes = []
    for pid in broker.serving:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert found is not None
        sizes.append(int(found[1]) * 1024)
    return max(sizes)


@contextmanager
def counted(broker: BrokerProcess, counter: str, reason: str) -> Iterator[None]:
    """What happens here is counted once, under this reason."""
    name = f"milepost_{counter}_total"
    before = metric(broker, name, reason=reason)
    yield
    assert metric(broker, name, reason=reason) == before + 1, reason


@contextmanager
def cpu_seconds_max(broker: BrokerProcess, seconds: float) -> Iterator[None]:
    """What happens here takes the broker no longer than this, however busy the machine is."""
    before = metric(broker, "process_cpu_seconds_total")
    yield
    spent = metric(broker, "process_cpu_seconds_total") - before
    assert spent < seconds, f"{spent:.2f} s"


def is_counted_and_hung_up(broker: BrokerProcess, line: Line, data: bytes, reason: str) -> None:
    with counted(broker, "frames_refused", reason):
        line.say(data)
        assert line.is_hung_up(), f"{reason}: {line.heard}"


# -- publishing --------------------------------------------------------------------------------------


def metadata(sequence_id: int = 0, **fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name="stranger", sequence_id=sequence_id, publish_time=1, **fields
    )


def entry_of(data: bytes, payload: bytes, *, size: int | None = None, spoil: int = 0) -> bytes:
    body = u32(len(data) if size is None else size) + data + payload
    return b"\x0e\x01" + u32(crc32c(body) ^ spoil) + body


def send(entry: bytes, sequence_id: int = 0, producer_id: int = 1, **fields: Any) -> bytes:
    command = pb.CommandSend(
        producer_id=producer_id, sequence_id=sequence_id % 2**64, **fields
    ).SerializeToString()
    base = b"\x08\x06\x32" + encode_varint(len(command)) + command
    return u32(len(base) + 4 + len(entry), len(base)) + base + entry


def opened(line: Line, topic: str, producer_id: int = 1) -> None:
    line.say(pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=producer_id))
    line.hear(pb.CommandProducerSuccess)


def publish(line: Line, topic: str, count: int = 1, batch: int = 0, **fields: Any) -> list[Receipt]:
    """Messages as they should be; `batch` of them in each entry."""
    opened(line, topic, 77)
    receipts = []
    for number in range(count):
        single = pb.SingleMessageMetadata(payload_size=1).SerializeToString()
        payload = (u32(len(single)) + single + b"x") * batch if batch else b"x"
        if batch:
            fields["num_messages_in_batch"] = batch
        line.say(
            send(entry_of(metadata(number, **fields).SerializeToString(), payload), number, 77)
        )
        receipts.append(line.hear(Receipt))
    return receipts


def plain(**fields: Any) -> bytes:
    payload = fields.pop("payload", b"payload")
    return send(entry_of(metadata(**fields).SerializeToString(), payload))


# -- consuming ---------------------------------------------------------------------------------------


def subscribe(line: Line, topic: str, **options: Any) -> None:
    options = {"subscription": "s", "subType": pb.CommandSubscribe.Shared, **options}
    line.say(
        pb.CommandSubscribe(
            topic=topic,
            consumer_id=1,
            request_id=1,
            initialPosition=pb.CommandSubscribe.Earliest,
            **options,
        )
    )


def subscribed(line: Line, topic: str, **options: Any) -> None:
    subscribe(line, topic, **options)
    line.hear(pb.CommandSuccess)


def id_data(ledger_id: int, entry_id: int, **fields: Any) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=ledger_id % 2**64, entryId=entry_id % 2**64, **fields)


def backlog(line: Line) -> int:
    line.say(pb.CommandConsumerStats(request_id=3, consumer_id=1))
    return line.hear(pb.CommandConsumerStatsResponse).msgBacklog
