"""The client's connection, served by the thread that asks.

A Spark task reads or writes and does nothing beside it, so it needs no thread for its connection: while it
waits for an answer or for entries it serves the connection itself, and while it does not wait nothing is
read, which holds the broker back. Lookup, TLS, credentials and the handshake are the client's
(`milepost.client`). Nothing is retried here, since Spark tries tasks again.

    with Link.open(Endpoint(url="pulsar://localhost:6650"), topic) as link:
        link.ask(pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=False))
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from google.protobuf.message import Message

from milepost.client.connection.connection import Connection
from milepost.client.connection.endpoint import Endpoint
from milepost.client.connection.lookup import Lookup
from milepost.client.connection.pool import ConnectionPool
from milepost.errors import ConnectError, CorruptData, MilepostError, Timeout
from milepost.positions import signed64, unsigned64
from milepost.spark.reading.entries import RawEntry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.extensions import EVERY_CHUNK, STORED_ENTRIES, extension
from milepost.wire.frames import Buffer
from milepost.wire.protocol import RunReader

if TYPE_CHECKING:
    from milepost.spark.reading.blocks import Block

T = TypeVar("T")

SERVICE_URL_DEFAULT: Final = "pulsar://localhost:6650"
TURNS_TO_CLOSE: Final = 3


class Link:
    """Not for several threads. A link that failed is closed, and closed it stays."""

    read_run: RunReader | None = None
    """Reads the messages of all readings by the thousand, if there is one (deliveries.py)."""
    read_stored: Callable[[Delivery], Block] | None = None
    """Reads entries that come as they are stored; None: they are not asked for. Raises `CorruptData` for
    those that it does not take."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.url = endpoint.url or SERVICE_URL_DEFAULT
        # By the id of their consumer.
        self.readings: dict[int, Reading] = {}
        # The standard loop: it reads what has come before it looks at the time, so that a connection that
        # was left alone for long is not taken for a dead one.
        self._loop = asyncio.SelectorEventLoop()
        # A notebook's thread has a loop at work already: there another thread serves the link's.
        self._thread = ThreadPoolExecutor(1) if _has_loop() else None
        self._pool: ConnectionPool | None = None
        self._connection: Connection | None = None
        self._ids = itertools.count(1)
        self._is_waiting = False
        self._is_closed = False

    @classmethod
    def open(cls, endpoint: Endpoint, topic: str | None = None) -> Self:
        """A link to the broker that serves a topic, or to any."""
        link = cls(endpoint)
        try:
            link._run(link._connect(topic))
        except ConnectError as error:
            link.close()
            raise ConnectError(f"no broker answers at {link.url}: {error}") from None
        except BaseException:
            link.close()
            raise
        return link

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
    def connection(self) -> Connection:
        assert self._connection is not None, "the link is not open"
        return self._connection

    @property
    def is_open(self) -> bool:
        return not self._is_closed and self.connection.is_open

    @property
    def message_size_max(self) -> int:
        return self.connection.max_message_size

    @property
    def finds_indexes(self) -> bool:
        """Whether it is Milepost, which may be asked for an index here. Others tell it over HTTP."""
        peer = self.connection.protocol.peer
        return peer is not None and peer.finds_indexes

    @property
    def ends_together(self) -> bool:
        """Whether the broker knows series of transactions, and ends several as one step."""
        peer = self.connection.protocol.peer
        return peer is not None and peer.ends_together

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._pool is not None:
            self._pool.shut(at_once=True)
        self._run(_ended())
        self._loop.close()
        if self._thread is not None:
            self._thread.shutdown()

    def next_id(self) -> int:
        """A number for a consumer or a producer of this link."""
        return next(self._ids)

    def ask(self, command: Any) -> Any:
        """Send a request and wait for its answer; a refusal is raised."""
        try:
            return self._run(self.connection.request(command, self.endpoint.timeout_s))
        except Timeout as error:
            self.close()
            raise ConnectError(str(error)) from None

    def send(self, command: Message) -> None:
        self.connection.send(command)

    def write(self, *frames: Buffer) -> None:
        """Send whole frames, and hear what has come."""
        self.connection.write(*frames)
        self._loop.call_soon(self._loop.stop)
        self._serve(self._loop.run_forever)

    def wait(self, timeout_s: float) -> None:
        """Serve the connection until something has been heard, or the time is over."""
        timer = self._loop.call_later(timeout_s, self._loop.stop)
        self._is_waiting = True
        try:
            self._serve(self._loop.run_forever)
        finally:
            self._is_waiting = False
            timer.cancel()

    def heard(self) -> None:
        """End the wait: called by what the connection tells something."""
        if self._is_waiting:
            self._loop.stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._serve(lambda: self._loop.run_until_complete(work))

    def _serve(self, run: Callable[[], T]) -> T:
        return run() if self._thread is None else self._thread.submit(run).result()

    async def _connect(self, topic: str | None) -> None:
        endpoint = self.endpoint
        self._pool = ConnectionPool(
            endpoint.authentication(),
            endpoint.tls_options(),
            endpoint.timeout_s,
            read_run=self.read_run,
        )
        lookup = Lookup(self._pool, self.url, timeout_s=endpoint.timeout_s)
        if topic is None:
            self._connection = await lookup.service()
        else:
            self._connection = await lookup.connect(await lookup.broker_of(topic))


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _ended() -> None:
    """Let what was cancelled end, and what was aborted close its socket."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    # TLS closes in one turn of the loop, the socket below it in the next.
    for _ in range(TURNS_TO_CLOSE):
        await asyncio.sleep(0)


class Reading:
    """A reader on a link: entries from one on, as they are stored. It acks nothing."""

    def __init__(
        self,
        link: Link,
        topic: str,
        start: pb.MessageIdData | None,
        *,
        takes_stored: bool = False,
    ) -> None:
        """`start` None: from the earliest. `takes_stored`: entries may come as they are stored."""
        self.link = link
        self.topic = topic
        self.consumer_id = link.next_id()
        # What came and was not taken yet, in order.
        self._arrived: list[RawEntry | Block] = []
        # Why nothing more comes; None while something may.
        self._error: MilepostError | None = None
        link.connection.consumers[self.consumer_id] = self
        link.readings[self.consumer_id] = self
        asked = [EVERY_CHUNK]
        if takes_stored and link.read_stored is not None:
            asked.append(STORED_ENTRIES)
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
            metadata=[extension(key) for key in asked],
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

    def first_entry(self, timeout_s: float) -> RawEntry | None:
        """The first entry that comes; None if none does in time."""
        for found in self.arrived(timeout_s):
            return found if isinstance(found, RawEntry) else found[0]
        return None

    def arrived(self, timeout_s: float) -> list[RawEntry | Block]:
        """What came, after waiting for something; empty if nothing does in time."""
        if not self._arrived and self._error is None:
            self.link.wait(timeout_s)
        if not self._arrived and self._error is not None:
            raise self._error
        found, self._arrived = self._arrived, []
        return found

    def close(self) -> None:
        if self.link.is_open:
            self.link.connection.consumers.pop(self.consumer_id, None)
            self.link.readings.pop(self.consumer_id, None)
            self.link.ask(pb.CommandCloseConsumer(consumer_id=self.consumer_id))

    # What the connection tells.

    def message(self, delivery: Delivery) -> None:
        if self._error is not None:
            return  # what lies behind a gap is no use
        if delivery.stored_entries:
            self._take_stored(delivery)
        else:
            entry = RawEntry(delivery.ledger_id, delivery.entry_id, delivery.entry)
            self._arrived.append(entry)
        self.link.heard()

    def _take_stored(self, delivery: Delivery) -> None:
        assert self.link.read_stored is not None, (
            "entries as they are stored, and none were asked for"
        )
        try:
            self._arrived.append(self.link.read_stored(delivery))
        except CorruptData as error:
            self._error = error

    def run(self, block: Block) -> None:
        """Many messages at once."""
        if self._error is None:
            self._arrived.append(block)
        self.link.heard()

    def active_changed(self, is_active: bool) -> None:
        pass

    def end_of_topic(self) -> None:
        pass

    def reset(self, told: pb.CommandSeek) -> None:
        pass

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        self._error = reason
        self.link.heard()


def reader_name() -> str:
    """A name that no other reader has. Spark forks its workers, so that counters and addresses are the
    same in all of them; two readers of one name are refused, or share a position."""
    return f"spark-reader-{socket.gethostname()}-{uuid.uuid4().hex}"


def earliest() -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=unsigned64(-1), entryId=unsigned64(-1))
