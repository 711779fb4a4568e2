"""A connection of the load generator: requests by the book, hot frames counted and not read.

Set-up goes through `ClientProtocol` and waits for its answers. For the kinds of frames that a workload
lives on, `hot` names a function that gets them raw: all frames of that kind that one read brought, as
(bytes, list of beginnings and ends), so that what a frame costs here is a few bytecodes.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from typing import Any, cast

from google.protobuf.message import Message

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.events import Command, Fault
from milepost.wire.frames import HEADER_SIZE
from milepost.wire.protocol import ClientProtocol

Frames = list[tuple[int, int]]
Hot = Callable[[bytes, Frames], None]

# A frame's size and, behind the command's size, the type tag and the type: the kinds that are hot
# have numbers below 128.
_unpack_head = struct.Struct(">IIBB").unpack_from
_HEAD_SIZE = HEADER_SIZE + 2

REQUEST_TIMEOUT_S = 30.0

# By this name clients find the first coordinator of transactions.
_COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"


class Refused(Exception):
    """The broker said no to something the benchmark needs."""


class Link(asyncio.Protocol):
    def __init__(self, token: str = "") -> None:
        self.protocol = ClientProtocol()
        self.server_version = ""
        """What the broker calls itself."""
        self._token = token
        self.hot: dict[int, Hot] = {}
        """Kind of frame → who gets them raw."""
        self.consolidates = False
        """What is written in one turn leaves as one piece, as the Java client does it; else at once."""
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._answers: dict[int, asyncio.Future[Message]] = {}
        loop = asyncio.get_running_loop()
        self._connected: asyncio.Future[None] = loop.create_future()
        self._failed: asyncio.Future[None] = loop.create_future()
        self._next_request_id = 0

    @classmethod
    async def open(cls, address: tuple[str, int], token: str = "") -> Link:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(token), *address)
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            await link._connected
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        command = pb.CommandConnect(
            client_version="milepost-bench",
            protocol_version=21,
            feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
        )
        if self._token:
            command.auth_method_name, command.auth_data = "token", self._token.encode()
        self.protocol.connect(command)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        gone = ConnectionError(f"the broker closed the connection: {exc}")
        for answer in self._answers.values():
            _break(answer, gone)
        _break(self._connected, gone)
        _break(self._failed, gone)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def finished(self, done: asyncio.Future[None], timeout_s: float) -> None:
        """Wait until a workload is done, or until something went wrong on this connection."""
        await asyncio.wait(
            (done, self._failed), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if self._failed.done():
            self._failed.result()
        if not done.done():
            raise TimeoutError(f"not done after {timeout_s:g} s")
        done.result()

    # -- out ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        if not self.consolidates:
            self._transport.write(data)
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent.append(data)

    def writelines(self, frames: Sequence[bytes]) -> None:
        self.write(b"".join(frames))

    def _send(self) -> None:
        assert self._transport is not None
        unsent, self._unsent = self._unsent, []
        self._transport.write(b"".join(unsent))

    async def request(self, command: Any) -> Message:
        """Send a command that has a request id, and wait for its answer."""
        command.request_id = self.next_request_id()
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[command.request_id] = answer
        self.protocol.send(command)
        self._flush()
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            return await answer

    def next_request_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id

    def _flush(self) -> None:
        for buffer in self.protocol.data_to_send():
            self.write(bytes(buffer))

    # -- in ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        hot: Frames = []
        hot_kind = 0
        while size - at >= _HEAD_SIZE:
            total, _, _, kind = _unpack_head(data, at)
            end = at + 4 + total
            if end > size:
                break
            if kind != hot_kind:
                if hot:
                    self.hot[hot_kind](data, hot)
                    hot = []
                hot_kind = kind if kind in self.hot else 0
            if hot_kind:
                hot.append((at, end))
            else:
                self._slow(data[at:end])
            at = end
        if hot:
            self.hot[hot_kind](data, hot)
        self._rest = data[at:]

    def _slow(self, frame: bytes) -> None:
        for event in self.protocol.receive(frame):
            if isinstance(event, Fault):
                _break(self._failed, event.error)
            elif isinstance(event, Command):
                self._answered(event)
        self._flush()

    def _answered(self, event: Command) -> None:
        message: Any = event.message
        if event.kind == Kind.CONNECTED:
            self.server_version = message.server_version
            self._connected.set_result(None)
            return
        is_no = "error" in message.DESCRIPTOR.fields_by_name and message.HasField("error")
        no = Refused(f"{type(message).__name__}: {message}") if is_no else None
        answer = self._answers.pop(getattr(message, "request_id", -1), None)
        if answer is None:
            if no is not None:  # SEND_ERROR, or an ack that failed
                _break(self._failed, no)
        elif no is not None:
            answer.set_exception(no)
        else:
            answer.set_result(message)

    # -- the few commands that workloads need --------------------------------------------------------

    async def produce(self, topic: str, producer_id: int) -> None:
        await self._look_up(topic)
        await self.request(pb.CommandProducer(topic=topic, producer_id=producer_id))

    async def subscribe(
        self,
        topic: str,
        name: str,
        consumer_id: int,
        *,
        shared: bool = False,
        earliest: bool = True,
        epoch: int | None = None,
    ) -> None:
        await self._look_up(topic)
        await self.request(
            pb.CommandSubscribe(
                topic=topic,
                consumer_epoch=epoch,
                subscription=name,
                subType=pb.CommandSubscribe.Shared if shared else pb.CommandSubscribe.Exclusive,
                consumer_id=consumer_id,
                initialPosition=pb.CommandSubscribe.Earliest
                if earliest
                else pb.CommandSubscribe.Latest,
                durable=True,
            )
        )

    async def close_producer(self, producer_id: int) -> None:
        await self.request(pb.CommandCloseProducer(producer_id=producer_id))

    async def close_consumer(self, consumer_id: int) -> None:
        await self.request(pb.CommandCloseConsumer(consumer_id=consumer_id))

    def flow(self, consumer_id: int, permits: int) -> None:
        self.protocol.send(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))
        self._flush()

    async def connect_coordinator(self) -> None:
        """As every client does before its first transaction."""
        await self._look_up(_COORDINATOR)
        await self.request(pb.CommandTcClientConnectRequest(tc_id=0))

    async def _look_up(self, topic: str) -> None:
        """As every client does before it uses a topic."""
        await self.request(pb.CommandPartitionedTopicMetadata(topic=topic))
        await self.request(pb.CommandLookupTopic(topic=topic))


def _break(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # asked for here, so that nobody need be waiting for it
