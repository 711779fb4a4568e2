"""The synchronous client: the asyncio one on a background loop, call by call.

    client = milepost.Client("pulsar://localhost:6650")
    producer = client.create_producer("orders")
    producer.send(b"hello")
    client.close()

Nothing is decided here: every method hands its call to the object on the loop and waits. Names, defaults
and calling conventions are those of the official package. All of it may be called from any thread; a call
that would block the client's own thread (from a callback) is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from milepost.client import client as aio
from milepost.client.consumer import Acked
from milepost.client.consumers import AnyConsumer
from milepost.client.loop_thread import LoopThread
from milepost.client.message import Message
from milepost.client.outgoing import Sent
from milepost.client.policies import ConsumerType
from milepost.client.reader import Reader as AsyncReader
from milepost.client.results import Result, result_of
from milepost.client.statistics import ConsumerStatistics, ProducerStatistics
from milepost.errors import AlreadyClosed, MilepostError
from milepost.positions import MessageId

Callback = Callable[[Result, MessageId | None], object]
MessageListener = Callable[["Consumer", Message], object]


class Client:
    def __init__(self, service_url: str, authentication: Any = None, **options: Any) -> None:
        """Options as of `milepost.aio.Client`."""
        self._inner = aio.Client(service_url, authentication, **options)
        self._loop = LoopThread("milepost-client")

    def create_producer(
        self,
        topic: str,
        producer_name: str | None = None,
        *,
        batching_enabled: bool = False,
        **options: Any,
    ) -> Producer:
        """A producer. As in the official package, batching is off unless asked for."""
        blocks = bool(options.get("block_if_queue_full"))
        inner = self._loop.run(
            self._inner.create_producer(
                topic, producer_name, batching_enabled=batching_enabled, **options
            )
        )
        room = int(options.get("max_pending_messages") or 1000)
        return Producer(inner, self._loop, threading.Semaphore(room) if blocks else None)

    def subscribe(
        self,
        topic: Any,
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        *,
        message_listener: MessageListener | None = None,
        **options: Any,
    ) -> Consumer:
        inner = self._loop.run(
            self._inner.subscribe(topic, subscription_name, consumer_type, **options)
        )
        consumer = Consumer(inner, self._loop)
        if message_listener is not None:
            consumer._listen(message_listener)
        return consumer

    def create_reader(
        self,
        topic: str,
        start_message_id: MessageId | None = None,
        *,
        reader_listener: Callable[[Reader, Message], object] | None = None,
        **options: Any,
    ) -> Reader:
        inner = self._loop.run(self._inner.create_reader(topic, start_message_id, **options))
        reader = Reader(inner, self._loop)
        if reader_listener is not None:
            reader._listen(reader_listener)
        return reader

    def get_topic_partitions(self, topic: str) -> list[str]:
        return self._loop.run(self._inner.get_topic_partitions(topic))

    def message_id_by_index(self, topic: str, index: int) -> MessageId:
        return self._loop.run(self._inner.message_id_by_index(topic, index))

    def close(self) -> None:
        """Close everything; closing twice changes nothing."""
        with suppress(AlreadyClosed):
            self._loop.run(self._inner.close())
        self._loop.stop()

    def shutdown(self) -> None:
        """Close without saying good-bye."""
        with suppress(AlreadyClosed):
            self._loop.run(self._inner.shutdown())
        self._loop.stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Producer:
    def __init__(
        self, inner: aio.AnyProducer, loop: LoopThread, room: threading.Semaphore | None
    ) -> None:
        self._inner = inner
        self._loop = loop
        # Messages that `send_async` may still take; None: it never waits.
        self._room = room

    def topic(self) -> str:
        return self._inner.topic()

    def producer_name(self) -> str:
        return self._inner.producer_name()

    def last_sequence_id(self) -> int:
        return self._inner.last_sequence_id()

    def is_connected(self) -> bool:
        return self._inner.is_connected()

    @property
    def stats(self) -> ProducerStatistics:
        return self._inner.stats

    def send(
        self,
        content: Any,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> MessageId:
        """Publish a message; returns its id when it is stored."""
        return self._loop.run(
            self._inner.send(
                content,
                properties=properties,
                partition_key=partition_key,
                ordering_key=ordering_key,
                sequence_id=sequence_id,
                replication_clusters=replication_clusters,
                disable_replication=disable_replication,
                event_timestamp=event_timestamp,
                deliver_at=deliver_at,
                deliver_after=deliver_after,
            )
        )

    def send_async(self, content: Any, callback: Callback | None, **fields: Any) -> None:
        """Publish a message; `callback(result, message_id)` is called on the client's thread."""
        if self._room is not None:
            self._room.acquire()
        self._loop.post(self._send, content, callback, fields)

    def _send(self, content: Any, callback: Callback | None, fields: dict[str, Any]) -> None:
        try:
            sent = self._inner.send_nowait(content, **fields)
        except Exception as error:
            self._sent(callback, result_of(error), None)
            if not isinstance(error, MilepostError):
                raise
        else:
            if callback is not None or self._room is not None:
                sent.add_done_callback(lambda done: self._done(callback, done))

    def _done(self, callback: Callback | None, sent: Sent) -> None:
        error = sent.exception()
        self._sent(callback, result_of(error), None if error is not None else sent.result())

    def _sent(self, callback: Callback | None, result: Result, message_id: Any) -> None:
        if self._room is not None:
            self._room.release()
        if callback is not None:
            callback(result, message_id)

    def flush(self) -> None:
        self._loop.run(self._inner.flush())

    def close(self) -> None:
        with suppress(AlreadyClosed):
            self._loop.run(self._inner.close())

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Listening:
    """A thread that receives and calls; shared by consumers and readers."""

    def __init__(self) -> None:
        self._may_listen = threading.Event()
        self._may_listen.set()

    def _listen(self, listener: Callable[[Any, Message], object]) -> None:
        threading.Thread(
            target=self._serve, args=(listener,), name="milepost-listener", daemon=True
        ).start()

    def _serve(self, listener: Callable[[Any, Message], object]) -> None:
        while True:
            self._may_listen.wait()
            try:
                message = self._receive()
            except MilepostError:
                return  # closed
            listener(self, message)

    def _receive(self) -> Message:
        raise NotImplementedError

    def pause_message_listener(self) -> None:
        self._may_listen.clear()

    def resume_message_listener(self) -> None:
        self._may_listen.set()


class Consumer(_Listening):
    def __init__(self, inner: AnyConsumer, loop: LoopThread) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop

    def topic(self) -> str:
        return self._inner.topic()

    def subscription_name(self) -> str:
        return self._inner.subscription_name()

    def consumer_name(self) -> str:
        return self._inner.consumer_name()

    def is_connected(self) -> bool:
        return self._inner.is_connected()

    @property
    def stats(self) -> ConsumerStatistics:
        return self._inner.stats

    def receive(self, timeout_millis: int | None = None) -> Message:
        """The next message; `Timeout` if there is none in time."""
        return self._loop.run(self._inner.receive(timeout_millis))

    _receive = receive

    def batch_receive(self) -> list[Message]:
        return self._loop.run(self._inner.batch_receive())

    def acknowledge(self, message: Acked | Iterable[Acked]) -> None:
        """Ack a message, an id, or many; returns when that is on disk."""
        self._loop.run(self._inner.acknowledge(message))

    def acknowledge_cumulative(
        self, message: Acked | None = None, *, index: int | None = None
    ) -> None:
        self._loop.run(self._inner.acknowledge_cumulative(message, index=index))

    def negative_acknowledge(self, message: Acked) -> None:
        self._loop.call(self._inner.negative_acknowledge, message)

    def redeliver_unacknowledged_messages(self) -> None:
        self._loop.call(self._inner.redeliver_unacknowledged_messages)

    def seek(
        self,
        messageid: MessageId | int | None = None,
        *,
        timestamp: int | None = None,
        index: int | None = None,
    ) -> None:
        self._loop.run(self._inner.seek(messageid, timestamp=timestamp, index=index))

    def get_last_message_id(self) -> MessageId:
        return self._loop.run(self._inner.get_last_message_id())

    def reconsume_later(self, message: Message, delay_ms: int) -> None:
        self._loop.run(self._inner.reconsume_later(message, delay_ms))

    def unsubscribe(self, force: bool = False) -> None:
        self._loop.run(self._inner.unsubscribe(force))

    def close(self) -> None:
        with suppress(AlreadyClosed):
            self._loop.run(self._inner.close())

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield self.receive()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Reader(_Listening):
    def __init__(self, inner: AsyncReader, loop: LoopThread) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop

    def topic(self) -> str:
        return self._inner.topic()

    def is_connected(self) -> bool:
        return self._inner.is_connected()

    @property
    def stats(self) -> ConsumerStatistics:
        return self._inner.stats

    def read_next(self, timeout_millis: int | None = None) -> Message:
        """The next message; `Timeout` if there is none in time."""
        return self._loop.run(self._inner.read_next(timeout_millis))

    _receive = read_next

    def has_message_available(self) -> bool:
        return self._loop.run(self._inner.has_message_available())

    def seek(
        self,
        messageid: MessageId | int | None = None,
        *,
        timestamp: int | None = None,
        index: int | None = None,
    ) -> None:
        self._loop.run(self._inner.seek(messageid, timestamp=timestamp, index=index))

    def get_last_message_id(self) -> MessageId:
        return self._loop.run(self._inner.get_last_message_id())

    def close(self) -> None:
        with suppress(AlreadyClosed):
            self._loop.run(self._inner.close())

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
