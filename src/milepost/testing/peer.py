"""The other end of a connection, in memory: it remembers what the broker sent, and may be slow.

`RecordingPeer` stands where topics and subscriptions see a peer. `Loopback` is a whole connection: a
session on a broker, with a client at its other end that says exactly what it is told. Neither decides
anything, and neither owns a socket.

    client = Loopback(broker)                       # on the broker's loop; the handshake is done
    client.say(pb.CommandSubscribe(topic=..., subscription="s", consumer_id=0, request_id=1, ...))
    client.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
    ...
    client.take()                                   # [CommandSuccess, Delivery, Delivery]
    client.reads = False                            # from now on the broker's bytes pile up

What was sent is given as the client's protocol object reads it: `Delivery`, `Receipt`, or the command.
A frame that a client could not read is an `AssertionError` here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from milepost.broker.auth.certificates import Certificate
from milepost.broker.broker import Broker
from milepost.broker.connection.session import Session
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.peer import Buffer
from milepost.broker.topic.producer import Producer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.events import Command, Delivery, Fault, Receipt
from milepost.wire.peer import PROTOCOL_VERSION
from milepost.wire.peer import Peer as WirePeer
from milepost.wire.protocol import ClientProtocol
from milepost.wire.scanners.encode import send_frame

T = TypeVar("T")

Heard = Delivery | Receipt | Message

CLIENT_VERSION = "Loopback-1"


class _Record:
    """What came from the broker, read as a client reads it."""

    def __init__(self) -> None:
        self._protocol = ClientProtocol()
        self._heard: list[Heard] = []

    def take(self) -> list[Any]:
        """What came since the last time, in order."""
        taken, self._heard = self._heard, []
        return taken

    def take_all(self, kind: type[T]) -> list[T]:
        """What came of one type; the rest stays."""
        taken: list[T] = [one for one in self._heard if isinstance(one, kind)]
        self._heard = [one for one in self._heard if not isinstance(one, kind)]
        return taken

    def _hear(self, data: bytes) -> None:
        for event in self._protocol.receive(data):
            assert not isinstance(event, Fault), f"the broker sent no frame: {event.error}"
            self._heard.append(event.message if isinstance(event, Command) else event)


class RecordingPeer(_Record):
    """Implements `milepost.broker.peer.Peer`."""

    def __init__(
        self,
        address: str = "recording",
        *,
        client_version: str = CLIENT_VERSION,
        wants_broker_entry: bool = True,
        writes_max: int | None = None,
    ) -> None:
        """`writes_max`: after so many writes it is not writable any more, as a client that stops
        reading in the middle of something."""
        super().__init__()
        self.address = address
        self.client_version = client_version
        self.wants_broker_entry = wants_broker_entry
        self.role: str | None = None
        self._as_told = WirePeer(client_version, PROTOCOL_VERSION, wants_broker_entry)
        self.is_writable = True
        """Set it to be slow; its read loop must be woken by hand then."""
        self.unwritable_since = 0.0
        self.unread_size = 0
        """Set it to have bytes that wait to be read."""
        self.writes_left = writes_max
        self.has_consumers = False
        """Set it to get the receipts of its sends ahead of the messages."""
        self.settled_count = 0
        """How many sends were answered."""
        self.holds = 0
        """How many want it not to be read."""
        self.failures: list[str] = []
        """Why the connection was to end, each time."""
        self.resumes = 0
        """How often it was asked to read again."""
        self.forgotten: list[Producer | Consumer] = []
        """Its producers and consumers that were closed, in order."""
        self.restarted: list[Producer] = []
        """Its producers that were to be opened again, each time."""
        self._protocol.connect(pb.CommandConnect(client_version=client_version))
        self._protocol.receive(
            replies.connected("recording", PROTOCOL_VERSION, 1 << 20, pb.FeatureFlags())
        )

    def __repr__(self) -> str:
        return f"<RecordingPeer {self.address}>"

    def write(self, buffers: Sequence[Buffer]) -> None:
        self._hear(b"".join(buffers))
        if self.writes_left is not None:
            self.writes_left -= 1
            self.is_writable = self.writes_left > 0

    def settled(self, publishes: int) -> None:
        self.settled_count += publishes

    def hold(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1

    def resume(self) -> None:
        self.resumes += 1

    def understands(self, kind: int) -> bool:
        return self._as_told.understands(kind)

    def unsent_size(self) -> int:
        return self.unread_size

    def restart_producer(self, producer: Producer) -> None:
        self.restarted.append(producer)

    def forget_producer(self, producer: Producer) -> None:
        self.forgotten.append(producer)

    def forget_consumer(self, consumer: Consumer) -> None:
        self.forgotten.append(consumer)

    def abort(self, reason: str) -> None:
        self.failures.append(reason)

    def fail(self, reason: str) -> None:
        self.failures.append(reason)


class Loopback(_Record):
    """A session's transport and the client behind it. Made and used on the broker's loop."""

    def __init__(
        self,
        broker: Broker,
        address: str = "loopback:1",
        *,
        client_version: str = CLIENT_VERSION,
        protocol_version: int = PROTOCOL_VERSION,
        handshake: bool = True,
        write_buffer_size: int = 64 * 1024,
        certificate: Certificate | None = None,
        **connect: Any,
    ) -> None:
        """`write_buffer_size`: unsent bytes above which the session counts as not writable.
        `certificate` is the client's; `connect` are more fields of its CONNECT."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._write_buffer_size = write_buffer_size
        # Bytes that the broker sent and the client has not read, and those the client sent and the
        # broker has not.
        self._unsent = bytearray()
        self._unread = bytearray()
        self._reads = True
        self._is_read = True
        self.is_closing = False
        """The broker has ended the connection; its last bytes may still be on their way."""
        self.is_lost = False
        self.session = Session(broker, self, address, certificate=certificate, is_confidential=True)
        broker.sessions.add(self.session)
        if handshake:
            self._protocol.connect(
                pb.CommandConnect(
                    client_version=client_version,
                    protocol_version=protocol_version,
                    feature_flags=pb.FeatureFlags(
                        supports_broker_entry_metadata=True, supports_auth_refresh=True
                    ),
                    **connect,
                )
            )
            self.say()

    def __repr__(self) -> str:
        return f"<Loopback {self.session.address}>"

    # -- the client --------------------------------------------------------------------------------

    def say(self, *commands: Message | bytes) -> None:
        """Send commands, or any bytes."""
        for command in commands:
            if isinstance(command, bytes):
                self._protocol.write(command)
            else:
                self._protocol.send(command)
        self._unread += b"".join(self._protocol.data_to_send())
        self._pour()

    def publish(
        self, producer_id: int, metadata: pb.MessageMetadata, payload: bytes = b"", **options: Any
    ) -> None:
        """Publish one entry; its receipt is heard later."""
        head, data = send_frame(
            producer_id, metadata.sequence_id, metadata.SerializeToString(), payload, **options
        )
        self.say(head, data)

    @property
    def reads(self) -> bool:
        """Does the client take what the broker sends?"""
        return self._reads

    @reads.setter
    def reads(self, reads: bool) -> None:
        self._reads = reads
        self._drain()

    @property
    def is_read(self) -> bool:
        """Does the broker take what the client sends?"""
        return self._is_read

    def take_unread(self) -> list[Any]:
        """What a client that is about to hang up has not taken, or not even read. The broker does not learn
        that it was read."""
        data, self._unsent = bytes(self._unsent), bytearray()
        self._hear(data)
        return self.take()

    def hang_up(self) -> None:
        """The connection is gone, without a word."""
        self._unsent.clear()
        self._lose()

    # -- what a session needs of its transport -----------------------------------------------------

    def send(self, buffers: Sequence[Buffer]) -> None:
        if not self.is_closing and not self.is_lost:
            for buffer in buffers:
                self._unsent += buffer
            self._drain()

    def close(self) -> None:
        self.is_closing = True
        self._drain()

    def abort(self) -> None:
        self.is_closing = True
        self._unsent.clear()
        self._drain()

    def unsent_size(self) -> int:
        return len(self._unsent)

    def pause_reading(self) -> None:
        self._is_read = False

    def resume_reading(self) -> None:
        self._is_read = True
        self._loop.call_soon(self._pour)

    # -- inside ------------------------------------------------------------------------------------

    def _pour(self) -> None:
        """The client's bytes into the session."""
        while self._unread and self._is_read and not self.is_closing and not self.is_lost:
            data, self._unread = bytes(self._unread), bytearray()
            self.session.receive(data)

    def _drain(self) -> None:
        """The broker's bytes to the client, and what follows when there are none, or too many."""
        if self._reads and self._unsent:
            data, self._unsent = bytes(self._unsent), bytearray()
            self._hear(data)
            if replies := self._protocol.data_to_send():  # a PONG, say
                self._unread += b"".join(replies)
                self._loop.call_soon(self._pour)
        is_writable = len(self._unsent) < self._write_buffer_size
        if is_writable is not self.session.is_writable and not self.is_lost:
            self.session.writable(is_writable)
        if self.is_closing and not self._unsent and not self.is_lost:
            self._loop.call_soon(self._lose)

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.session.lost()
