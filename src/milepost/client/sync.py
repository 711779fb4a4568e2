"""The synchronous `Client`: the asyncio one on a background thread.

    client = milepost.Client("pulsar://localhost:6650")
    producer = client.create_producer("orders")
    producer.send(b"hello")
    client.close()

Nothing is decided here: the methods are those of the asyncio client, each waited for (signatures.py). What
is added is what only threads need: callbacks, listeners, waiting for room. All of it may be called from any
thread; a call that would block the client's own thread (from a callback) is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

from milepost.client import client as aio
from milepost.client.connection.loop_thread import LoopThread
from milepost.client.consuming.consumer import Acked
from milepost.client.consuming.consumer import Consumer as AsyncConsumer
from milepost.client.consuming.reader import Reader as AsyncReader
from milepost.client.consuming.subscribe_options import ConsumerOptions, ReaderOptions
from milepost.client.consuming.table_view import TableView as AsyncTableView
from milepost.client.messages.message import Message
from milepost.client.producing.outgoing import Sent
from milepost.client.producing.producer import Producer as AsyncProducer
from milepost.client.producing.producer_options import ProducerOptions
from milepost.client.results import Result, result_of
from milepost.client.signatures import (
    Facade,
    blocking,
    direct,
    inner_of,
    like,
    on_loop,
    taking,
)
from milepost.client.statistics import ConsumerStatistics, ProducerStatistics
from milepost.client.transactions.transaction import TIMEOUT_S, TransactionState, timeout_of
from milepost.client.transactions.transaction import Transaction as AsyncTransaction
from milepost.errors import AlreadyClosed, MilepostError
from milepost.positions import MessageId, TxnId

log = logging.getLogger("milepost.client")

Callback = Callable[[Result, MessageId | None], object]


class _Closing(Facade):
    """What is closed, at the latest by its context manager; closing twice changes nothing."""

    def close(self) -> None:
        with suppress(AlreadyClosed):
            self._loop.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Client(_Closing):
    """A connection to a broker, or to a cluster, from which everything else is made.

        with milepost.Client("pulsar://localhost:6650") as client:
            client.create_producer("orders").send(b"one coffee")

    Arguments are the official package's, with the same meanings and defaults, and ours: `admin_url`
    (where the HTTP port is, for ids by index from a broker that does not tell them otherwise),
    `follow_lookups` (False: stay with the service URL, as through a tunnel), `backoff_first_s` and
    `backoff_max_s` (pauses between attempts to connect), `clock` (for tests).
    """

    @like(aio.Client.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        """Connects when it first has to. Options are those of the official package, and ours."""
        self._inner: aio.Client = aio.Client(*args, **options)
        self._loop: LoopThread = LoopThread("milepost-client")

    def __del__(self) -> None:
        """Forgotten, with everything it made: the loop ends, and the connections say so (pool.py)."""
        if (loop := getattr(self, "_loop", None)) is not None:
            loop.leave()

    @taking(ProducerOptions)
    def create_producer(self, options: ProducerOptions) -> Producer:
        """A producer. As in the official package, batching is off unless asked for.

        Ours, beside the official arguments: `chunk_max_size` (bytes of payload in one chunk) and
        `initial_subscription_name` (made before the first message, so that it gets them all).
        """
        options = replace(options, batching_enabled=bool(options.batching_enabled))
        inner = self._loop.run(self._inner.producer_of(options))
        room = options.max_pending_messages if options.block_if_queue_full else None
        return Producer(inner, self, None if room is None else threading.Semaphore(room))

    @taking(ConsumerOptions)
    def subscribe(self, options: ConsumerOptions) -> Consumer:
        """A consumer of a topic, a list of topics, or all that match a compiled pattern.

        Ours, beside the official arguments: `mode="broadcast"` with `member` and `start` (every member
        gets every message, from a position that the broker keeps), `ack_receipt_enabled` (False: acks
        are not answered), `retry_enabled` (for `reconsume_later`), `negative_ack_backoff`,
        `priority_level`, `is_durable` (False: progress ends with the consumer).
        """
        quiet = replace(options, message_listener=None)
        consumer = Consumer(self._loop.run(self._inner.consumer_of(quiet)), self)
        consumer._listen(options.message_listener)
        return consumer

    @taking(ReaderOptions)
    def create_reader(self, options: ReaderOptions) -> Reader:
        """A reader that begins at an id, an index or a time.

        Ours, beside the official arguments: `start_index` and `start_timestamp` (milliseconds) in place
        of `start_message_id`.
        """
        quiet = replace(options, reader_listener=None)
        reader = Reader(self._loop.run(self._inner.reader_of(quiet)), self)
        reader._listen(options.reader_listener)
        return reader

    @like(aio.Client.create_table_view)
    def create_table_view(self, *args: Any, **kwargs: Any) -> TableView:
        """The newest value of every key of a topic, kept up to date. Returns when it has them all."""
        inner = self._loop.run(self._inner.create_table_view(*args, **kwargs))
        return TableView(inner, self._loop, self)

    @like(aio.Client.transaction)
    def transaction(self, timeout: float | timedelta = TIMEOUT_S) -> Transaction:
        """A transaction: give it to `send` and `acknowledge` as `txn`.

        As a context manager it commits when the block is left, and aborts after an exception. It is
        aborted by itself when it is open for longer than `timeout`, in seconds.
        """
        inner = self._loop.run(self._inner.transaction_of(timeout_of(timeout)))
        return Transaction(inner, self._loop, self)

    get_topic_partitions = blocking(aio.Client.get_topic_partitions)
    message_id_by_index = blocking(aio.Client.message_id_by_index)

    def close(self) -> None:
        """Close everything; closing twice changes nothing."""
        super().close()
        self._loop.stop()

    def shutdown(self) -> None:
        """Close without saying good-bye."""

        async def work() -> None:
            await self._inner.shutdown()

        with suppress(AlreadyClosed):
            self._loop.run(work())
        self._loop.stop()


class Transaction(Facade):
    """One transaction. `Client.transaction` makes it."""

    commit = blocking(AsyncTransaction.commit)
    abort = blocking(AsyncTransaction.abort)

    @property
    def id(self) -> TxnId:
        txn_id: TxnId = self._inner.id
        return txn_id

    @property
    def state(self) -> TransactionState:
        state: TransactionState = self._inner.state
        return state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        """Commit, or abort after an exception; nothing if it was ended inside."""
        self._loop.run(self._inner.__aexit__(*exc_info))


class Producer(_Closing):
    def __init__(
        self, inner: aio.AnyProducer, client: Client, room: threading.Semaphore | None
    ) -> None:
        super().__init__(inner, client._loop, client)
        self._loop: LoopThread = client._loop
        # Messages that `send_async` may still take; None: it never waits.
        self._room = room

    topic = direct(AsyncProducer.topic)
    producer_name = direct(AsyncProducer.producer_name)
    last_sequence_id = direct(AsyncProducer.last_sequence_id)
    is_connected = direct(AsyncProducer.is_connected)
    send = blocking(AsyncProducer.send)
    flush = blocking(AsyncProducer.flush)

    @property
    def stats(self) -> ProducerStatistics:
        stats: ProducerStatistics = self._inner.stats
        return stats

    def send_async(
        self,
        content: Any,
        callback: Callback | None,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
        *,
        txn: Transaction | None = None,
    ) -> None:
        """Publish a message; `callback(result, message_id)` is called on the client's thread."""
        if self._room is not None:
            self._room.acquire()
        self._loop.post(
            self._send,
            callback,
            inner_of(txn),
            content,
            properties,
            partition_key,
            ordering_key,
            sequence_id,
            replication_clusters,
            disable_replication,
            event_timestamp,
            deliver_at,
            deliver_after,
        )

    def _send(self, callback: Callback | None, txn: Any, *args: Any) -> None:
        try:
            sent = self._inner.send_nowait(*args, txn=txn)
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


class _Listening(_Closing):
    """A thread that receives and calls; shared by consumers and readers."""

    def __init__(self, inner: Any, client: Client) -> None:
        super().__init__(inner, client._loop, client)
        self._may_listen = threading.Event()
        self._may_listen.set()

    is_connected = direct(AsyncReader.is_connected)
    topic = direct(AsyncReader.topic)
    seek = blocking(AsyncReader.seek)
    get_last_message_id = blocking(AsyncReader.get_last_message_id)

    @property
    def stats(self) -> ConsumerStatistics:
        stats: ConsumerStatistics = self._inner.stats
        return stats

    def _receive(self) -> Message:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield self._receive()

    def _listen(self, listener: Callable[[Any, Message], object] | None) -> None:
        if listener is not None:
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
            try:
                listener(self, message)
            except Exception:
                # The message stays unacked; the next one is no worse for it.
                log.exception("%r: its listener failed at %s", self, message.message_id())

    def pause_message_listener(self) -> None:
        self._may_listen.clear()

    def resume_message_listener(self) -> None:
        self._may_listen.set()


class Consumer(_Listening):
    subscription_name = direct(AsyncConsumer.subscription_name)
    consumer_name = direct(AsyncConsumer.consumer_name)
    receive = blocking(AsyncConsumer.receive)
    batch_receive = blocking(AsyncConsumer.batch_receive)
    acknowledge = blocking(AsyncConsumer.acknowledge)
    acknowledge_cumulative = blocking(AsyncConsumer.acknowledge_cumulative)
    redeliver_unacknowledged_messages = on_loop(AsyncConsumer.redeliver_unacknowledged_messages)
    reconsume_later = blocking(AsyncConsumer.reconsume_later)
    unsubscribe = blocking(AsyncConsumer.unsubscribe)

    def negative_acknowledge(self, message: Acked) -> None:
        """Ask for a message again, after the delay: all of it, were it chunked."""
        self._loop.call(self._inner.negative_acknowledge, message)

    def _receive(self) -> Message:
        return self.receive()


class Reader(_Listening):
    read_next = blocking(AsyncReader.read_next)
    has_message_available = blocking(AsyncReader.has_message_available)

    def _receive(self) -> Message:
        return self.read_next()


class TableView(_Closing):
    """Values are told on the caller's thread; what a listener is told later, on the client's."""

    get = direct(AsyncTableView.get)
    for_each = direct(AsyncTableView.for_each)
    for_each_and_listen = on_loop(AsyncTableView.for_each_and_listen)

    def __len__(self) -> int:
        return len(self._inner)

    def __contains__(self, key: object) -> bool:
        return key in self._inner

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)
