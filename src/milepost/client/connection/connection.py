"""One socket to a broker: requests, their answers, frames to producers and consumers.

Moves bytes between a transport and `ClientProtocol` and hands each event to whom it is for. It knows
neither topics nor what a message is, and never reconnects: when it is lost it says so to everyone on it,
and each comes back by itself (link.py).

    connection = await pool.get(url)
    answer = await connection.request(pb.CommandSeek(consumer_id=1, ...), timeout_s=30)
    connection.producers[producer.id] = producer       # hears receipts from now on

What is written in one turn of the loop goes out in one call at its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, Protocol, cast

from google.protobuf.message import Message

from milepost import __version__
from milepost.client.connection.auth import Authentication
from milepost.client.connection.refusals import refusal, refusal_of
from milepost.errors import ConnectError, MilepostError, Timeout
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind, encode_command
from milepost.wire.events import Command, Delivery, Fault, Receipt
from milepost.wire.frames import Buffer, command_frame
from milepost.wire.peer import PROTOCOL_VERSION
from milepost.wire.protocol import ClientProtocol, RunReader, State

log = logging.getLogger("milepost.client")

KEEP_ALIVE_S: Final = 30.0
CLIENT_VERSION: Final = f"Milepost-Python-{__version__}"

# What a broker says unasked; all else answers a request.
_UNASKED: Final = frozenset(
    (
        Kind.SEND_ERROR,
        Kind.CLOSE_PRODUCER,
        Kind.CLOSE_CONSUMER,
        Kind.ACTIVE_CONSUMER_CHANGE,
        Kind.REACHED_END_OF_TOPIC,
        Kind.TOPIC_MIGRATED,
        Kind.WATCH_TOPIC_UPDATE,
        Kind.SEEK,
    )
)


class ProducerEnd(Protocol):
    """What a connection tells a producer."""

    def receipt(self, receipt: Receipt) -> None: ...
    def send_error(self, error: pb.CommandSendError) -> None: ...
    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None: ...


class ConsumerEnd(Protocol):
    """What a connection tells a consumer."""

    def message(self, delivery: Delivery) -> None: ...
    def active_changed(self, is_active: bool) -> None: ...
    def end_of_topic(self) -> None: ...
    def reset(self, told: pb.CommandSeek) -> None: ...
    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None: ...


class WatcherEnd(Protocol):
    """What a connection tells who watches topics (PIP-145)."""

    def topics_changed(self, names: Iterable[str]) -> None: ...
    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(
        self, url: str, authentication: Authentication, read_run: RunReader | None = None
    ) -> None:
        """`read_run` takes messages before they become deliveries, many at once."""
        self.url = url
        self.protocol = ClientProtocol(read_run=read_run)
        # By the ids that this side gave them.
        self.producers: dict[int, ProducerEnd] = {}
        self.consumers: dict[int, ConsumerEnd] = {}
        self.watchers: dict[int, WatcherEnd] = {}
        # What ended it; None while it lives. Invariant: no request waits when it is set.
        self.error: MilepostError | None = None
        self._authentication = authentication
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._last_request_id = 0
        self._handshake: asyncio.Future[None] = self._loop.create_future()
        self._keep_alive: asyncio.TimerHandle | None = None
        self._is_flush_due = False
        # Set when the socket is closed, by either side.
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # -- life ----------------------------------------------------------------------------------------

    async def handshake(self, timeout_s: float, proxy_to_broker_url: str | None = None) -> None:
        """Say who we are, and wait until the broker takes us."""
        connect = pb.CommandConnect(
            client_version=CLIENT_VERSION,
            protocol_version=PROTOCOL_VERSION,
            auth_method_name=self._authentication.method,
            feature_flags=pb.FeatureFlags(
                supports_auth_refresh=True, supports_broker_entry_metadata=True
            ),
        )
        if data := self._auth_data():
            connect.auth_data = data
        if proxy_to_broker_url is not None:
            connect.proxy_to_broker_url = proxy_to_broker_url
        self.protocol.connect(connect)
        self._flush()
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._handshake)
        except TimeoutError:
            self.close(ConnectError(f"{self.url} did not answer CONNECT in {timeout_s:g} s"))
        if self.error is not None:
            raise self.error
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._tick)

    @property
    def is_open(self) -> bool:
        return self.error is None and self.protocol.state is State.READY

    @property
    def server(self) -> str:
        """The broker's name for itself."""
        return self.protocol.peer.software if self.protocol.peer is not None else ""

    @property
    def max_message_size(self) -> int:
        return self.protocol.max_message_size

    def close(self, reason: MilepostError | None = None, *, at_once: bool = False) -> None:
        """End it now. Everyone on it is told `reason`. `at_once`: without the good-byes of TLS."""
        if self.error is None:
            self._flush()
            self._end(reason or ConnectError(f"the connection to {self.url} was closed"))
        if at_once and self._transport is not None:
            self._transport.abort()

    async def gone(self, timeout_s: float) -> None:
        """Wait until the socket of a closed connection is closed; after that time, at once."""
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._gone.wait()
        except TimeoutError:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one without saying so.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        text = f": {exc}" if exc is not None else ""
        self._end(ConnectError(f"the connection to {self.url} was lost{text}"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self, reason: MilepostError) -> None:
        if self.error is not None:
            return
        self.error = reason
        self.protocol.close()
        self._writable.set()
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        if self._transport is not None:
            self._transport.abort() if self.protocol.error else self._transport.close()
        if not self._handshake.done():
            self._handshake.set_exception(reason)
            self._handshake.exception()  # seen, in case no caller waits for it any more
        requests, self._requests = self._requests, {}
        for waiting in requests.values():
            if not waiting.done():
                waiting.set_exception(reason)
        ends: list[ProducerEnd | ConsumerEnd | WatcherEnd] = [
            *self.producers.values(),
            *self.consumers.values(),
            *self.watchers.values(),
        ]
        for end in ends:
            end.detached(self, reason, None)
        self.producers.clear()
        self.consumers.clear()
        self.watchers.clear()

    def _tick(self) -> None:
        if not self.protocol.heard:
            self.close(ConnectError(f"{self.url} was silent for {KEEP_ALIVE_S:g} s"))
            return
        self.protocol.heard = False
        self.protocol.ping()
        self._flush()
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._tick)

    # -- out -----------------------------------------------------------------------------------------

    def write(self, *buffers: Buffer) -> None:
        """Send whole frames at the end of this turn of the loop."""
        self.protocol.writelines(buffers)
        self._flush_soon()

    def send(self, command: Message) -> None:
        self.write(command_frame(encode_command(command)))

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        self.protocol.writelines(buffers)
        self._flush_soon()

    async def drain(self) -> None:
        """Wait while the socket takes no more."""
        if not self._writable.is_set():
            await self._writable.wait()

    def next_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id

    def ask(self, command: Any) -> asyncio.Future[Any]:
        """Send a request with an id of its own; the answer, or the refusal, comes to the future."""
        if self.error is not None:
            raise self.error
        command.request_id = self.next_request_id()
        return self.expect(command.request_id, command)

    def expect(self, request_id: int, command: Message) -> asyncio.Future[Any]:
        waiting: asyncio.Future[Any] = self._loop.create_future()
        self._requests[request_id] = waiting
        waiting.add_done_callback(lambda _: self._requests.pop(request_id, None))
        self.send(command)
        return waiting

    async def request(self, command: Any, timeout_s: float | None) -> Any:
        """Send a request and wait for its answer; raises the refusal, or `Timeout`."""
        waiting = self.ask(command)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            name = type(command).__name__.removeprefix("Command")
            raise Timeout(f"{self.url} did not answer {name} in {timeout_s:g} s") from None

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        data = self.protocol.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(data)

    # -- in ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        producers, consumers = self.producers, self.consumers
        for event in self.protocol.receive(data):
            if isinstance(event, Delivery):
                if (consumer := consumers.get(event.consumer_id)) is not None:
                    consumer.message(event)
            elif isinstance(event, Receipt):
                if (producer := producers.get(event.producer_id)) is not None:
                    producer.receipt(event)
            elif isinstance(event, Fault):
                if self._handshake.done():  # else the caller that waits for it is told
                    log.warning("%s sent what is not the protocol: %s", self.url, event.error)
                self._end(ConnectError(f"{self.url} sent what is not the protocol: {event.error}"))
                return
            else:
                self._heard(event)
        self._flush()  # PONG, and whatever the events above gave rise to

    def _heard(self, event: Command) -> None:
        kind, message = event.kind, event.message
        if kind == Kind.CONNECTED:
            self._handshake.set_result(None)
        elif kind == Kind.AUTH_CHALLENGE:
            self._answer_challenge()
        elif kind == Kind.ERROR and self.protocol.state is not State.READY:
            assert isinstance(message, pb.CommandError)
            self._end(refusal(message.error, message.message))
        elif kind in _UNASKED:
            self._unasked(message)
        else:
            self._answered(message)

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, pb.CommandProducerSuccess) and not answer.producer_ready:
            return  # WaitForExclusive: the same request is answered again when it is our turn
        waiting = self._requests.pop(answer.request_id, None)
        if waiting is None or waiting.done():
            return  # given up meanwhile
        error = refusal_of(answer)
        if error is None:
            waiting.set_result(answer)
        else:
            waiting.set_exception(error)

    def _unasked(self, message: Message) -> None:
        match message:
            case pb.CommandSendError():
                if (producer := self.producers.get(message.producer_id)) is not None:
                    producer.send_error(message)
            case pb.CommandCloseProducer():
                self._closed(self.producers.pop(message.producer_id, None), message)
            case pb.CommandCloseConsumer():
                self._closed(self.consumers.pop(message.consumer_id, None), message)
            case pb.CommandTopicMigrated():
                ends = (self.producers, self.consumers)[message.resource_type]
                self._closed(ends.pop(message.resource_id, None), message)
            case pb.CommandActiveConsumerChange():
                if (consumer := self.consumers.get(message.consumer_id)) is not None:
                    consumer.active_changed(message.is_active)
            case pb.CommandReachedEndOfTopic():
                if (consumer := self.consumers.get(message.consumer_id)) is not None:
                    consumer.end_of_topic()
            case pb.CommandWatchTopicUpdate():
                if (watcher := self.watchers.get(message.watcher_id)) is not None:
                    watcher.topics_changed([*message.new_topics, *message.deleted_topics])
            case pb.CommandSeek():
                if (consumer := self.consumers.get(message.consumer_id)) is not None:
                    consumer.reset(message)

    def _closed(self, end: ProducerEnd | ConsumerEnd | None, message: Any) -> None:
        """The broker sends one producer or consumer away; the connection stays."""
        if end is None:
            return
        url = None
        for name in ("assignedBrokerServiceUrl", "brokerServiceUrl"):
            tls = f"{name}Tls"
            if name in message.DESCRIPTOR.fields_by_name:
                is_tls = self.url.startswith("pulsar+ssl")
                url = getattr(message, tls if is_tls else name) or None
        end.detached(self, ConnectError(f"{self.url} closed it"), url)

    def _answer_challenge(self) -> None:
        try:
            data = self._auth_data()
        except ConnectError as error:
            self.close(error)
            return
        self.send(
            pb.CommandAuthResponse(
                client_version=CLIENT_VERSION,
                protocol_version=PROTOCOL_VERSION,
                response=pb.AuthData(auth_method_name=self._authentication.method, auth_data=data),
            )
        )

    def _auth_data(self) -> bytes:
        """What the user's object gives now; whatever it raises, the broker must not wait for it."""
        try:
            return self._authentication.data()
        except Exception as error:
            raise ConnectError(f"no authentication data: {error}") from error
