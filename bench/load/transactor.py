"""A client of transactions that costs less than any broker: prepared bytes out, answers told apart by bytes.

Some transactions are under way at once on one connection, each in a lane of its own that goes on when its
answer is there:

    open ─▶ add the sink ─▶ publish ─▶ add the subscription ─▶ ack ─▶ commit ─▶ the next one

A request has the number of its lane for an id, one byte of the answer. What one read brings is answered
with one write. So the broker is what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator

from bench.load.link import Frames, Link, Refused
from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.frames import command_frame
from milepost.wire.replies import reply
from milepost.wire.scanners.encode import send_frame
from milepost.wire.scanners.varint import encode_varint

TTL_MS = 600_000

# In the answer to a request: sizes, type, the tag of the command (two bytes) and its size, a tag.
_LANE_AT = 14


class Lane:
    """One transaction after the other."""

    __slots__ = ("named", "open_frame", "position", "request", "txn_id")

    def __init__(self, number: int) -> None:
        self.open_frame = reply(pb.CommandNewTxn(request_id=number, txn_ttl_millis=TTL_MS, tc_id=0))
        self.request = b"\x08" + encode_varint(number)
        self.named = b""
        """How a request, and the answer to it, begin: the id of the request and of the transaction."""
        self.txn_id = TxnId(0, 0)
        self.position = (0, 0)
        """Of the message that it acks."""


class Transactor:
    """Lanes of one connection, with a producer 0 of the sink and a consumer 0 of the source."""

    def __init__(
        self, link: Link, lanes: int, source: str, sink: str, positions: Iterator[tuple[int, int]]
    ) -> None:
        """`positions`: of messages that the consumer has got; there is a transaction for each."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link = link
        link.consolidates = True
        self._positions = positions
        self._lanes = [Lane(number) for number in range(lanes)]
        self._running = lanes
        self._sending: deque[int] = deque()
        """Lanes whose message has no receipt yet."""
        self._sequence_id = -1
        self._add_sink = _head(Kind.ADD_PARTITION_TO_TXN), b"\x22" + _text(sink)
        pair = pb.Subscription(topic=source, subscription="s").SerializeToString()
        self._add_source = (
            _head(Kind.ADD_SUBSCRIPTION_TO_TXN),
            b"\x22" + encode_varint(len(pair)) + pair,
        )
        self._commit = _head(Kind.END_TXN), b"\x20" + encode_varint(pb.COMMIT)
        link.hot |= {
            Kind.NEW_TXN_RESPONSE: self._opened,
            Kind.ADD_PARTITION_TO_TXN_RESPONSE: self._sink_added,
            Kind.SEND_RECEIPT: self._published,
            Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: self._source_added,
            Kind.ACK_RESPONSE: self._acked,
            Kind.END_TXN_RESPONSE: self._ended,
        }
        for lane in self._lanes:
            self._begin(lane)

    def _begin(self, lane: Lane) -> None:
        position = next(self._positions, None)
        if position is None:
            self._running -= 1
            if not self._running and not self.done.done():
                self.done.set_result(None)
            return
        lane.position = position
        self._link.write(lane.open_frame)

    def _opened(self, data: bytes, frames: Frames) -> None:
        head, fields = self._add_sink
        for first, end in frames:
            answer = pb.BaseCommand.FromString(data[first + 8 : end]).newTxnResponse
            if answer.HasField("error"):
                self._failed(data[first:end])
                return
            lane = self._lanes[answer.request_id]
            lane.txn_id = TxnId(answer.txnid_most_bits, answer.txnid_least_bits)
            least, most = encode_varint(lane.txn_id.least), encode_varint(lane.txn_id.most)
            lane.named = lane.request + b"\x10" + least + b"\x18" + most
            self._link.write(_frame(head, lane.named + fields))

    def _sink_added(self, data: bytes, frames: Frames) -> None:
        now_ms = time.time_ns() // 1_000_000
        for lane in self._answered(data, frames):
            self._sequence_id += 1
            txn_id = lane.txn_id
            metadata = pb.MessageMetadata(
                producer_name="bench",
                sequence_id=self._sequence_id,
                publish_time=now_ms,
                txnid_least_bits=txn_id.least,
                txnid_most_bits=txn_id.most,
            ).SerializeToString()
            self._sending.append(lane.request[1])
            self._link.write(
                b"".join(send_frame(0, self._sequence_id, metadata, b"y" * 100, txn_id=txn_id))
            )

    def _published(self, data: bytes, frames: Frames) -> None:
        head, fields = self._add_source
        for _ in frames:
            lane = self._lanes[self._sending.popleft()]
            self._link.write(_frame(head, lane.named + fields))

    def _source_added(self, data: bytes, frames: Frames) -> None:
        for lane in self._answered(data, frames):
            ledger_id, entry_id = lane.position
            ack = pb.CommandAck(
                consumer_id=0,
                ack_type=pb.CommandAck.Individual,
                message_id=[pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id)],
                txnid_least_bits=lane.txn_id.least,
                txnid_most_bits=lane.txn_id.most,
                request_id=lane.request[1],
            )
            self._link.write(reply(ack))

    def _acked(self, data: bytes, frames: Frames) -> None:
        head, fields = self._commit
        for first, end in frames:
            answer = pb.BaseCommand.FromString(data[first + 8 : end]).ackResponse
            if answer.HasField("error"):
                self._failed(data[first:end])
                return
            self._link.write(_frame(head, self._lanes[answer.request_id].named + fields))

    def _ended(self, data: bytes, frames: Frames) -> None:
        for lane in self._answered(data, frames):
            self._begin(lane)

    def _answered(self, data: bytes, frames: Frames) -> Iterator[Lane]:
        """The lanes of answers that name their transactions, and no errors."""
        for first, end in frames:
            lane = self._lanes[data[first + _LANE_AT]]
            if not data.startswith(lane.named, first + _LANE_AT - 1) or (
                first + _LANE_AT - 1 + len(lane.named) != end
            ):
                self._failed(data[first:end])
                return
            yield lane

    def _failed(self, frame: bytes) -> None:
        if not self.done.done():
            self.done.set_exception(Refused(str(pb.BaseCommand.FromString(frame[8:]))))


def _head(kind: int) -> bytes:
    """The type and the tag of a command."""
    return b"\x08" + encode_varint(kind) + encode_varint(kind << 3 | 2)


def _text(text: str) -> bytes:
    data = text.encode()
    return encode_varint(len(data)) + data


def _frame(head: bytes, fields: bytes) -> bytes:
    return command_frame(head + encode_varint(len(fields)) + fields)
