"""Both directions of a workload: publishers that keep a window full, drains that keep permits out.

They live inside a `Link`'s hot functions: everything happens where the bytes arrive.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from bench.load.link import Frames, Link
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.events import Delivery
from milepost.wire.replies import reply

# Where a receipt has its producer id, which is below 128 wherever there is more than one lane:
# sizes, type, field and its size, tag.
_PRODUCER_ID_AT = 13

# A latency, and how many messages it stands for.
Sample = tuple[float, int]


class Lane:
    """What one producer sends, and what of it is on its way."""

    __slots__ = ("at", "frames", "sent")

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.frames = frames
        self.at = 0
        self.sent: deque[list[float]] = deque()
        """When frames were written that have no receipt yet, and how many: [time, count]."""

    def take(self, count: int, now: float) -> Sequence[bytes]:
        taken = self.frames[self.at : self.at + count]
        self.at += len(taken)
        if taken:
            self.sent.append([now, len(taken)])
        return taken


class Publisher:
    """Producers of one connection. Each keeps `window` frames without a receipt.

    One lane takes every receipt of the connection; with several, lane *n* is producer id *n*.
    Without a window frames go when `send` is called, and only then.
    """

    def __init__(self, link: Link, lanes: Sequence[Lane], window: int, deadline: float) -> None:
        self.samples: list[Sample] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.count = 0
        self._link = link
        self._lanes = lanes
        self._window = window
        self._waiting = 0
        self._deadline = deadline
        link.hot[Kind.SEND_RECEIPT] = self._receipts
        now = time.perf_counter()
        for lane in lanes:
            self._send(lane.take(window, now))

    def send(self, count: int) -> None:
        """So many frames of the first lane, now."""
        self._send(self._lanes[0].take(count, time.perf_counter()))

    def _send(self, frames: Sequence[bytes]) -> None:
        if frames:
            self._waiting += len(frames)
            self._link.writelines(frames)

    def _receipts(self, data: bytes, frames: Frames) -> None:
        now = time.perf_counter()
        lanes = self._lanes
        if len(lanes) == 1:
            counts = {0: len(frames)}
        else:
            counts = {}
            for at, _ in frames:
                number = data[at + _PRODUCER_ID_AT]
                counts[number] = counts.get(number, 0) + 1
        self.count += len(frames)
        self._waiting -= len(frames)
        for number, count in counts.items():
            lane = lanes[number]
            self._note(lane.sent, count, now)
            if self._window and now < self._deadline:
                self._send(lane.take(count, now))
        is_over = self._window or all(lane.at == len(lane.frames) for lane in lanes)
        if not self._waiting and is_over and not self.done.done():
            self.done.set_result(None)

    def _note(self, sent: deque[list[float]], count: int, now: float) -> None:
        while count:
            first = sent[0]
            part = min(count, int(first[1]))
            self.samples.append((now - first[0], part))
            first[1] -= part
            count -= part
            if not first[1]:
                sent.popleft()


class Drain:
    """Consumers of one connection that only count. Every frame brings `messages` of them."""

    def __init__(
        self, link: Link, consumers: int, expected: int, *, queue: int = 1000, messages: int = 1
    ) -> None:
        """`expected`: messages for all consumers together."""
        self.count = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = link
        self._expected = expected
        self._messages = messages
        self._half = max(queue // 2, messages)
        self._owed = [0] * consumers
        # A client gives back half of its queue when half of it is free.
        self._flows = [
            reply(pb.CommandFlow(consumer_id=number, messagePermits=self._half))
            for number in range(consumers)
        ]
        link.hot[Kind.MESSAGE] = self._received
        for number in range(consumers):
            link.flow(number, 2 * self._half)

    def _received(self, data: bytes, frames: Frames) -> None:
        self.count += len(frames) * self._messages
        owed = self._owed
        if len(owed) == 1:
            self._give_back(0, len(frames) * self._messages)
        else:
            # As in a receipt; consumer ids are below 128.
            for at, _ in frames:
                self._give_back(data[at + _PRODUCER_ID_AT], self._messages)
        if self.count >= self._expected and not self.done.done():
            self.done.set_result(None)

    def _give_back(self, consumer: int, count: int) -> None:
        self._owed[consumer] += count
        while self._owed[consumer] >= self._half:
            self._owed[consumer] -= self._half
            self._link.write(self._flows[consumer])


class Acker:
    """A consumer that acks every message by itself and waits for every answer.

    `parallel` acks are on their way at a time, as from so many threads of an application. For a
    batch each of its messages is acked by its batch index (PIP-54).
    """

    def __init__(
        self,
        link: Link,
        expected: int,
        *,
        batch_size: int = 0,
        parallel: int = 64,
        queue: int = 1000,
    ) -> None:
        self.samples: list[Sample] = []
        self.count = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = link
        self._expected = expected
        self._batch_size = batch_size
        self._free = parallel
        self._acks: deque[bytes] = deque()
        self._sent: deque[float] = deque()
        self._owed = 0
        self._half = max(queue // 2, batch_size)
        # Every message but one is still to be acked: as if it were the first ack of its batch.
        full = (1 << batch_size) - 1
        self._ack_sets = [_words(full & ~(1 << index), batch_size) for index in range(batch_size)]
        link.hot[Kind.MESSAGE] = self._received
        link.hot[Kind.ACK_RESPONSE] = self._answered
        link.flow(0, 2 * self._half)

    def _received(self, data: bytes, frames: Frames) -> None:
        for at, end in frames:
            for event in self._link.protocol.receive(data[at:end]):
                assert isinstance(event, Delivery)
                self._queue(event.ledger_id, event.entry_id)
        self._owed += len(frames) * max(self._batch_size, 1)
        while self._owed >= self._half:
            self._owed -= self._half
            self._link.flow(0, self._half)
        self._send()

    def _queue(self, ledger_id: int, entry_id: int) -> None:
        for words in self._ack_sets or ((),):
            command = pb.CommandAck(
                consumer_id=0,
                ack_type=pb.CommandAck.Individual,
                request_id=self._link.next_request_id(),
            )
            command.message_id.add(ledgerId=ledger_id, entryId=entry_id, ack_set=words)
            self._acks.append(reply(command))

    def _send(self) -> None:
        count = min(self._free, len(self._acks))
        if count:
            now = time.perf_counter()
            self._free -= count
            self._sent.extend([now] * count)
            self._link.writelines([self._acks.popleft() for _ in range(count)])

    def _answered(self, data: bytes, frames: Frames) -> None:
        now = time.perf_counter()
        self.count += len(frames)
        self._free += len(frames)
        for _ in frames:
            self.samples.append((now - self._sent.popleft(), 1))
        self._send()
        if self.count >= self._expected and not self.done.done():
            self.done.set_result(None)


def _words(bits: int, size: int) -> list[int]:
    """An ack set as signed 64-bit words, lowest first."""
    data = bits.to_bytes((size + 63) // 64 * 8, "little")
    return [
        int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)
    ]
