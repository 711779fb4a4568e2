"""A link: one blocking connection to a broker, for tasks that read or write and nothing else.

A Spark task has no event loop and wants none: it asks, waits, and reads entries as fast as the socket gives
them. A link is that and no more: requests one at a time, deliveries in between kept for who reads them,
PING answered, a time limit on every answer. Bytes are `milepost.wire`'s; nothing is retried here, since
Spark tries tasks again.

    with Link.open(Connection("pulsar://localhost:6650"), topic) as link:
        link.ask(pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=False))
"""

from __future__ import annotations

import itertools
import socket
import uuid
from types import TracebackType
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from google.protobuf.message import Message

from milepost.client.refusals import refusal, refusal_of
from milepost.errors import ConnectError, ServiceNotReady
from milepost.positions import signed64, unsigned64
from milepost.spark.options import Connection
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Command, Delivery, Fault, Receipt
from milepost.wire.peer import PROTOCOL_VERSION
from milepost.wire.protocol import ClientProtocol, State

PORT_DEFAULT: Final = 6650
RECEIVE_SIZE: Final = 1 << 20
REDIRECTS_MAX: Final = 10

_CLIENT_VERSION: Final = "Milepost-Spark"

Heard = Delivery | Receipt | Message


class Link:
    """Not for several threads. A link that failed is closed, and closed it stays."""

    protocol_kind: ClassVar[type[ClientProtocol]] = ClientProtocol

    def __init__(self, connection: Connection, url: str) -> None:
        self.connection = connection
        self.url = url
        self._protocol = self.protocol_kind()
        self._ids = itertools.count(1)
        # What came while something else was waited for, in order.
        self._arrived: list[Heard] = []
        address = urlsplit(url)
        try:
            self._socket = socket.create_connection(
                (address.hostname or "", address.port or PORT_DEFAULT), connection.timeout_s
            )
        except (OSError, ValueError) as error:
            raise ConnectError(f"no broker answers at {url}: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._shake_hands()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, connection: Connection, topic: str | None = None) -> Self:
        """A link to the broker that serves a topic, or to any."""
        link = cls(connection, connection.service_url)
        if topic is None:
            return link
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            try:
                answer = link.ask(pb.CommandLookupTopic(topic=topic, authoritative=authoritative))
            except BaseException:
                link.close()
                raise
            authoritative = answer.authoritative
            url = answer.brokerServiceUrl
            if not answer.proxy_through_service_url and _place(url) != _place(link.url):
                link.close()
                link = cls(connection, url)
            if answer.response == pb.CommandLookupTopicResponse.Connect:
                return link
        link.close()
        raise ServiceNotReady(f"{topic}: redirected more than {REDIRECTS_MAX} times")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._protocol.state is State.READY

    @property
    def message_size_max(self) -> int:
        return self._protocol.max_message_size

    @property
    def finds_indexes(self) -> bool:
        """Is it Milepost, which may be asked for an index here? Others tell it over HTTP."""
        peer = self._protocol.peer
        return peer is not None and peer.finds_indexes

    def close(self) -> None:
        self._protocol.close()
        self._socket.close()

    def next_id(self) -> int:
        """A number for a request, a consumer or a producer of this link."""
        return next(self._ids)

    def ask(self, command: Any) -> Any:
        """Send a request and wait for its answer; a refusal is raised."""
        command.request_id = self.next_id()
        self.send(command)
        looked_at = len(self._arrived)
        while True:
            for at in range(looked_at, len(self._arrived)):
                heard: Any = self._arrived[at]
                if getattr(heard, "request_id", None) == command.request_id:
                    del self._arrived[at]
                    self._raise_refusal(heard)
                    return heard
            looked_at = len(self._arrived)
            if not self._receive(self.connection.timeout_s):
                name = type(command).__name__.removeprefix("Command")
                raise self._broken(
                    f"{self.url} did not answer {name} within {self.connection.timeout_s:g} s"
                )

    def send(self, command: Message) -> None:
        self._protocol.send(command)
        self.flush()

    def write(self, data: bytes) -> None:
        """Send whole frames."""
        self._protocol.write(data)
        self.flush()

    def hear_all(self, timeout_s: float) -> list[Heard]:
        """Everything that came unasked, after waiting for something; empty if nothing does in time."""
        if not self._arrived:
            self._receive(timeout_s)
        found, self._arrived = self._arrived, []
        return found

    def flush(self) -> None:
        try:
            for data in self._protocol.data_to_send():
                self._socket.settimeout(self.connection.timeout_s)
                self._socket.sendall(data)
        except OSError as error:
            raise self._broken(f"the connection to {self.url} broke: {error}") from None

    def _receive(self, timeout_s: float) -> bool:
        """Read from the socket until something came; False if nothing does in time."""
        while True:
            self._socket.settimeout(timeout_s)
            try:
                data = self._socket.recv(RECEIVE_SIZE)
            except TimeoutError:
                return False
            except OSError as error:
                raise self._broken(f"the connection to {self.url} broke: {error}") from None
            if not data:
                raise self._broken(f"{self.url} closed the connection")
            events = self._protocol.receive(data)
            self.flush()  # a PONG, perhaps
            for event in events:
                if isinstance(event, Fault):
                    raise self._broken(f"{self.url} does not speak the protocol: {event.error}")
                self._arrived.append(event.message if isinstance(event, Command) else event)
            if events:
                return True

    def _broken(self, why: str) -> ConnectError:
        self.close()
        return ConnectError(why)

    def _raise_refusal(self, answer: Message) -> None:
        error = refusal_of(answer)
        if error is not None:
            raise error

    def _shake_hands(self) -> None:
        connect = pb.CommandConnect(
            client_version=_CLIENT_VERSION,
            protocol_version=PROTOCOL_VERSION,
            feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
        )
        if self.connection.token is not None:
            connect.auth_method_name = "token"
            connect.auth_data = self.connection.token.encode()
        self._protocol.connect(connect)
        self.flush()
        heard = self.hear_all(self.connection.timeout_s)
        if not heard:
            raise self._broken(f"{self.url} did not answer CONNECT")
        if isinstance(heard[0], pb.CommandError):
            raise refusal(heard[0].error, f"{self.url} refuses: {heard[0].message}")


class Reading:
    """A reader on a link: entries from one on, as they are stored. It acks nothing."""

    def __init__(self, link: Link, topic: str, start: pb.MessageIdData | None) -> None:
        """`start` None: from the earliest."""
        self.link = link
        self.topic = topic
        self.consumer_id = link.next_id()
        command = pb.CommandSubscribe(
            topic=topic,
            subscription=reader_name(),
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=self.consumer_id,
            consumer_name="spark",
            durable=False,
            initialPosition=pb.CommandSubscribe.Earliest,
            force_topic_creation=False,
            start_message_id=start or earliest(),
            metadata=[pb.KeyValue(key=EVERY_CHUNK, value="true")],
        )
        link.ask(command)

    def allow(self, messages: int) -> None:
        """Let the broker send so many more."""
        self.link.send(pb.CommandFlow(consumer_id=self.consumer_id, messagePermits=messages))

    def last_id(self) -> tuple[int, int, int]:
        """Ledger, entry and batch index of the topic's last message; (-1, -1, -1) if it has none."""
        answer = self.link.ask(pb.CommandGetLastMessageId(consumer_id=self.consumer_id))
        last = answer.last_message_id
        if last.ledgerId >= 1 << 63:
            return -1, -1, -1
        return last.ledgerId, last.entryId, last.batch_index

    def seek(self, time_ms: int) -> None:
        """Go to the first message that came not before a time. Milepost only."""
        self.link.ask(
            pb.CommandSeek(
                consumer_id=self.consumer_id, message_publish_time=time_ms, consumer_epoch=1
            )
        )

    def acked_position(self) -> tuple[int, int]:
        """Ledger and entry up to which nothing will be sent; (-1, -1) if that is from the first on."""
        answer = self.link.ask(pb.CommandGetLastMessageId(consumer_id=self.consumer_id))
        if not answer.HasField("consumer_mark_delete_position"):
            return -1, -1
        acked = answer.consumer_mark_delete_position
        return signed64(acked.ledgerId), signed64(acked.entryId)

    def entries(self, timeout_s: float) -> list[Delivery]:
        """Entries that came, after waiting for some; empty if none do in time."""
        found = []
        for heard in self.link.hear_all(timeout_s):
            if isinstance(heard, Delivery):
                if heard.consumer_id == self.consumer_id:
                    found.append(heard)
            elif isinstance(heard, pb.CommandCloseConsumer):
                if heard.consumer_id == self.consumer_id:
                    raise ServiceNotReady(f"the broker closed the reader of {self.topic}")
            elif isinstance(heard, pb.CommandError):
                raise refusal(heard.error, heard.message)
        return found

    def close(self) -> None:
        if self.link.is_open:
            self.link.ask(pb.CommandCloseConsumer(consumer_id=self.consumer_id))


# Milepost delivers chunks of whole messages only, in the order of those; who reads a part of a topic must
# see every chunk where it lies. A consumer says so in its metadata. Apache Pulsar always does it.
EVERY_CHUNK: Final = "milepost.every-chunk"


def reader_name() -> str:
    """A name that no other reader has. Spark forks its workers, so that counters and addresses are the
    same in all of them; two readers of one name are refused, or share a position."""
    return f"spark-reader-{socket.gethostname()}-{uuid.uuid4().hex}"


def earliest() -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=unsigned64(-1), entryId=unsigned64(-1))


def _place(url: str) -> tuple[str, int]:
    address = urlsplit(url)
    return address.hostname or "", address.port or PORT_DEFAULT
