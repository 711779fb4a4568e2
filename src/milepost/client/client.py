"""The asyncio `Client`: creates producers, consumers, readers, table views, transactions.

    async with Client("pulsar://localhost:6650") as client:
        producer = await client.create_producer("orders")
        await producer.send(b"hello")

Names, arguments and defaults are those of the official package's asyncio client (producer_options.py,
subscribe_options.py). A client belongs to the event loop in which it first does something. Closing it closes
everything it made.
"""

from __future__ import annotations

import asyncio
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from milepost.client import loggers
from milepost.client.client_options import ClientOptions
from milepost.client.connection.auth import Authentication
from milepost.client.connection.context import Context, ForkGuard
from milepost.client.connection.lookup import Lookup
from milepost.client.connection.pool import ConnectionPool
from milepost.client.consuming.consumers import AnyConsumer, ConsumerMaker
from milepost.client.consuming.dead_letters import Encryption
from milepost.client.consuming.reader import Reader
from milepost.client.consuming.subscribe_options import ConsumerOptions, ReaderOptions
from milepost.client.consuming.table_view import TableView
from milepost.client.messages.seek_target import Target
from milepost.client.producing.partitioned_producer import PartitionedProducer
from milepost.client.producing.producer import Producer
from milepost.client.producing.producer_options import ProducerOptions
from milepost.client.signatures import taking
from milepost.client.transactions.coordinators import Coordinators
from milepost.client.transactions.transaction import (
    TIMEOUT_S,
    Transaction,
    TransactionOpening,
    timeout_of,
)
from milepost.clock import SystemClock
from milepost.errors import AlreadyClosed, InvalidInput, NotAllowed
from milepost.positions import EARLIEST, ChunkMessageId, MessageId, TopicName, signed64
from milepost.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from milepost.schemas import Schema


class _Made(Protocol):
    """What a client makes and closes."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...


Made = TypeVar("Made", bound=_Made)
AnyProducer = Producer | PartitionedProducer


class Client:
    @taking(ClientOptions)
    def __init__(self, options: ClientOptions) -> None:
        """Connects when it first has to. Options are those of the official package, and ours."""
        loggers.use(options.logger)
        self._options = options
        self._fork = ForkGuard()
        # Made on the loop of the first call.
        self._pool: ConnectionPool | None = None
        self._shared: Context | None = None
        self._coordinators: Coordinators | None = None
        # Weakly: what was closed and forgotten need not be closed again.
        self._made: weakref.WeakSet[_Made] = weakref.WeakSet()
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Client of {self._options.service_url}{', closed' if self._is_closed else ''}>"

    # -- make ----------------------------------------------------------------------------------------

    @taking(ProducerOptions)
    async def create_producer(self, options: ProducerOptions) -> AnyProducer:
        """A producer of a topic, or of all its partitions."""
        return await self.producer_of(options)

    async def producer_of(self, options: ProducerOptions) -> AnyProducer:
        context = self._context()
        topic = TopicName.parse(options.topic)
        partitions = await context.lookup.partitions(str(topic))
        if partitions:
            return await self._opened(PartitionedProducer(context, topic, partitions, options))
        return await self._opened(Producer(context, topic, options))

    @taking(ConsumerOptions)
    async def subscribe(self, options: ConsumerOptions) -> AnyConsumer:
        """A consumer of a topic, a list of topics, or all that match a compiled pattern.

        Ours, beside the official arguments: `mode="broadcast"` with `member` and `start` (every member
        gets every message, from a position that the broker keeps), `ack_receipt_enabled` (False: acks
        are not answered), `retry_enabled` (for `reconsume_later`), `negative_ack_backoff`,
        `priority_level`, `is_durable` (False: progress ends with the consumer).
        """
        return await self.consumer_of(options)

    async def consumer_of(self, options: ConsumerOptions) -> AnyConsumer:
        context = self._context()
        _refuse_listener(options.message_listener)
        return await self._keep(await ConsumerMaker(context, options, self._letter_producer).make())

    async def _letter_producer(
        self, topic: str, subscription: str | None, encryption: Encryption | None
    ) -> AnyProducer:
        key, reader = encryption or (None, None)
        return await self.create_producer(
            topic,
            batching_enabled=False,
            initial_subscription_name=subscription,
            encryption_key=key,
            crypto_key_reader=reader,
        )

    @taking(ReaderOptions)
    async def create_reader(self, options: ReaderOptions) -> Reader:
        """A reader that begins at an id, an index or a time.

        Ours, beside the official arguments: `start_index` and `start_timestamp` (milliseconds) in place
        of `start_message_id`.
        """
        return await self.reader_of(options)

    async def reader_of(self, options: ReaderOptions) -> Reader:
        context = self._context()
        _refuse_listener(options.reader_listener)
        target = Target.of(
            options.start_message_id,
            timestamp=options.start_timestamp,
            index=options.start_index,
            inclusive=options.start_message_id_inclusive,
        )
        chosen = options.of_consumer(context.random_name())
        maker = ConsumerMaker(context, chosen, self._letter_producer, target=target)
        return Reader(await self._keep(await maker.make()))

    async def create_table_view(
        self, topic: str, subscription_name: str | None = None, schema: Schema | None = None
    ) -> TableView:
        """The newest value of every key of a topic, kept up to date. Returns when it has them all."""
        reader = await self.create_reader(
            topic,
            EARLIEST,
            schema,
            is_read_compacted=TopicName.parse(topic).is_persistent,
            subscription_name=subscription_name,
        )
        return await self._opened(TableView(reader, topic, subscription_name))

    def transaction(self, timeout: float | timedelta = TIMEOUT_S) -> TransactionOpening:
        """A transaction: enter it with `async with`, or await it.

        Give it to `send` and `acknowledge` as `txn`. It is aborted by itself when it is open for longer
        than `timeout`, in seconds.
        """
        timeout_s = timeout_of(timeout)
        return TransactionOpening(lambda: self.transaction_of(timeout_s))

    async def transaction_of(self, timeout_s: float) -> Transaction:
        context = self._context()
        if self._coordinators is None:
            self._coordinators = Coordinators(context)
        txn_id = await self._coordinators.open(max(round(timeout_s * 1000), 1))
        return await self._keep(Transaction(context, self._coordinators, txn_id, timeout_s))

    async def _opened(self, made: Made) -> Made:
        await made.open()
        return await self._keep(made)

    async def _keep(self, made: Made) -> Made:
        """Close it with the client; at once, if that is closed already."""
        if self._is_closed:
            await made.close()
            raise AlreadyClosed("the client was closed meanwhile")
        self._made.add(made)
        return made

    # -- ask -----------------------------------------------------------------------------------------

    async def get_topic_partitions(self, topic: str) -> list[str]:
        """Names of a topic's partitions; its own name if it has none."""
        name = TopicName.parse(topic)
        count = await self._context().lookup.partitions(str(name))
        return [str(name.partition_name(n)) for n in range(count)] if count else [str(name)]

    async def message_id_by_index(self, topic: str, index: int) -> MessageId:
        """The id of the message with an index (PIP-415), exact inside a batch where the broker is.

        Of a topic that is not partitioned, or of one partition. `EARLIEST` if it was trimmed;
        `IndexNotFound` if it is not published.
        """
        self._context()
        return await self._id_by_index(TopicName.parse(topic), index)

    async def _id_by_index(self, topic: TopicName, index: int) -> MessageId:
        Target.of(None, index=index, inclusive=True)  # checks the number
        context = self._context()
        connection = await context.lookup.connect(await context.lookup.broker_of(str(topic)))
        peer = connection.protocol.peer
        if peer is None or not peer.finds_indexes:
            if self._options.admin_url is None:
                raise NotAllowed(
                    f"{connection.url} ({connection.server}) finds ids by index over HTTP only:"
                    " give the client its admin_url"
                )
            return await self._admin_id_by_index(self._options.admin_url, topic, index)
        answer = await connection.request(
            pb.CommandGetMessageIdByIndex(request_id=0, topic=str(topic), index=index),
            self._options.operation_timeout_seconds,
        )
        return _message_id(answer.message_id)

    @staticmethod
    async def _admin_id_by_index(admin_url: str, topic: TopicName, index: int) -> MessageId:
        """PIP-415 as Apache Pulsar has it: by entry."""
        from milepost.admin.aio import AsyncAdmin  # an HTTP client, for who needs it

        async with AsyncAdmin(admin_url) as admin:
            return await admin.get_message_id_by_index(str(topic), index)

    # -- close ---------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close everything that was made, then the connections; closing twice changes nothing.

        Cancelled, it goes on by itself: nothing is left half open.
        """
        if self._shared is None or self._fork.is_forked or self._shared.is_over:
            self._is_closed = True
            return
        self._shared.check()
        self._is_closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close a milepost client")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        assert self._pool is not None
        await asyncio.gather(*(one.close() for one in self._made), return_exceptions=True)
        await self._pool.close()

    def shutdown(self) -> asyncio.Future[None]:
        """Close the connections at once, without saying good-bye. Await it to see all of it closed."""
        if self._pool is not None and not self._fork.is_forked:
            self._pool.shut()
        return asyncio.ensure_future(self.close())

    def __del__(self) -> None:
        """Forgotten while its loop runs on; when the loop ends first, the pool knows."""
        shared: Context | None = getattr(self, "_shared", None)
        if shared is not None and not self._is_closed:
            shared.abandon()

    async def __aenter__(self) -> Client:
        self._context()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def _context(self) -> Context:
        """What everything shares, made on the loop that asks first."""
        if self._is_closed:
            raise AlreadyClosed("the client is closed")
        self._fork.check()
        if self._shared is None:
            options = self._options
            authentication = options.authentication or Authentication()
            connect_timeout_s = options.connection_timeout_ms / 1000
            self._pool = ConnectionPool(authentication, options.tls, connect_timeout_s)
            lookup = Lookup(
                self._pool,
                options.url,
                timeout_s=options.operation_timeout_seconds,
                listener_name=options.listener_name,
                follows=options.follow_lookups,
            )
            self._shared = Context(
                lookup,
                options.clock or SystemClock(),
                operation_timeout_s=options.operation_timeout_seconds,
                id_by_index=self._id_by_index,
                backoff_first_s=options.backoff_first_s,
                backoff_max_s=options.backoff_max_s,
            )
        self._shared.check()
        return self._shared


def _message_id(data: pb.MessageIdData) -> MessageId:
    found = MessageId(
        signed64(data.ledgerId),
        signed64(data.entryId),
        data.partition,
        data.batch_index,
        data.batch_size,
    )
    if not data.HasField("first_chunk_message_id"):
        return found
    return ChunkMessageId(_message_id(data.first_chunk_message_id), found)


def _refuse_listener(listener: object) -> None:
    if listener is not None:
        raise InvalidInput(
            "listeners are of the synchronous client: here, iterate over the messages"
        )
