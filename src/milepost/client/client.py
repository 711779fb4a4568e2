"""The client: connections to brokers, and everything that is made on them.

    async with Client("pulsar://localhost:6650") as client:
        producer = await client.create_producer("orders")
        await producer.send(b"hello")

Names, arguments and defaults are those of the official package's asyncio client. A client belongs to the
event loop in which it first does something. Closing it closes everything it made.
"""

from __future__ import annotations

import asyncio
import logging
import re
import weakref
from typing import Any, Protocol, TypeVar

from milepost.client import loggers
from milepost.client.auth import Authentication
from milepost.client.backoff import FIRST_S, MAX_S
from milepost.client.consumers import AnyConsumer, ConsumerMaker, Topics
from milepost.client.context import Context, ForkGuard
from milepost.client.loggers import ConsoleLogger
from milepost.client.lookup import Lookup
from milepost.client.options import ConsumerOptions, ProducerOptions, check, made_of
from milepost.client.partitioned_producer import PartitionedProducer
from milepost.client.policies import ConsumerType, RegexSubscriptionMode
from milepost.client.pool import ConnectionPool
from milepost.client.producer import Producer
from milepost.client.reader import Reader
from milepost.client.service_url import ServiceUrl
from milepost.client.targets import Target
from milepost.client.tls import TlsOptions
from milepost.clock import Clock, SystemClock
from milepost.errors import AlreadyClosed, InvalidInput, NotAllowed
from milepost.positions import ChunkMessageId, MessageId, TopicName, signed64
from milepost.wire import pulsar_pb2 as pb


class _Made(Protocol):
    """What a client makes and closes."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...


Made = TypeVar("Made", bound=_Made)
AnyProducer = Producer | PartitionedProducer


class Client:
    def __init__(
        self,
        service_url: str,
        authentication: Authentication | None = None,
        operation_timeout_seconds: float = 30,
        connection_timeout_ms: int = 10_000,
        listener_name: str | None = None,
        use_tls: bool = False,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = False,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        admin_url: str | None = None,
        *,
        follow_lookups: bool = True,
        logger: ConsoleLogger | logging.Logger | None = None,
        clock: Clock | None = None,
        backoff_first_s: float = FIRST_S,
        backoff_max_s: float = MAX_S,
        **ignored: Any,
    ) -> None:
        """`admin_url`: of an Apache Pulsar's HTTP service, for what its binary protocol lacks.

        `follow_lookups=False` connects to the service URL alone, whatever address the broker gives
        for itself: for one broker behind a tunnel or a mapped port.

        Options of the official package that tune its threads and files (`io_threads`, ...) are taken
        and have no effect. This client logs to `logging`, under `milepost.client`.
        """
        _check_ignored(ignored)
        loggers.use(logger)
        check("connection_timeout_ms", connection_timeout_ms, 1)
        if operation_timeout_seconds <= 0:
            raise InvalidInput(f"operation_timeout_seconds {operation_timeout_seconds}")
        if use_tls and service_url.startswith("pulsar://"):
            service_url = service_url.replace("pulsar://", "pulsar+ssl://", 1)
        self._service_url = ServiceUrl.parse(service_url).text
        self._authentication = authentication or Authentication()
        self._tls = TlsOptions(
            tls_trust_certs_file_path,
            tls_allow_insecure_connection,
            tls_validate_hostname,
            tls_certificate_file_path,
            tls_private_key_file_path,
        )
        self._operation_timeout_s = float(operation_timeout_seconds)
        self._connect_timeout_s = connection_timeout_ms / 1000
        self._listener_name = listener_name
        self._admin_url = admin_url
        self._follow_lookups = follow_lookups
        self._clock: Clock = clock or SystemClock()
        self._backoff = (backoff_first_s, backoff_max_s)
        self._fork = ForkGuard()
        # Made on the loop of the first call.
        self._pool: ConnectionPool | None = None
        self._shared: Context | None = None
        # Weakly: what was closed and forgotten need not be closed again.
        self._made: weakref.WeakSet[_Made] = weakref.WeakSet()
        self._is_closed = False

    # -- make ----------------------------------------------------------------------------------------

    async def create_producer(
        self, topic: str, producer_name: str | None = None, **options: Any
    ) -> AnyProducer:
        """A producer. Options are those of the official package, by name (`ProducerOptions`)."""
        context = self._context()
        options.setdefault("batching_enabled", not options.get("chunking_enabled", False))
        chosen = made_of(ProducerOptions, producer_name=producer_name, **options)
        name = TopicName.parse(topic)
        partitions = await context.lookup.partitions(str(name))
        if partitions:
            return await self._opened(PartitionedProducer(context, name, partitions, chosen))
        return await self._opened(Producer(context, name, chosen))

    async def subscribe(
        self,
        topic: Topics,
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        *,
        pattern_auto_discovery_period: float = 60,
        regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly,
        is_pattern_topic: bool = False,
        **options: Any,
    ) -> AnyConsumer:
        """A consumer of a topic, a list of topics, or all that match a compiled pattern.

        Options are those of the official package, by name (`ConsumerOptions`).
        """
        context = self._context()
        chosen = made_of(
            ConsumerOptions,
            subscription_name=subscription_name,
            consumer_type=ConsumerType(consumer_type),
            **options,
        )
        if is_pattern_topic and isinstance(topic, str):
            topic = re.compile(topic)
        maker = ConsumerMaker(context, chosen, self._letter_producer)
        return await self._keep(
            await maker.make(
                topic,
                pattern_period_s=pattern_auto_discovery_period,
                mode=regex_subscription_mode,
            )
        )

    async def _letter_producer(self, topic: str, subscription: str | None) -> AnyProducer:
        return await self.create_producer(
            topic, batching_enabled=False, initial_subscription_name=subscription
        )

    async def create_reader(
        self,
        topic: str,
        start_message_id: MessageId | None = None,
        *,
        start_index: int | None = None,
        start_timestamp: int | None = None,
        start_message_id_inclusive: bool = False,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        **options: Any,
    ) -> Reader:
        """A reader that begins at an id, an index or a time. Options are those of a consumer."""
        context = self._context()
        target = Target.of(
            start_message_id,
            timestamp=start_timestamp,
            index=start_index,
            inclusive=start_message_id_inclusive,
        )
        name = f"reader-{context.random_name()}"
        if subscription_role_prefix:
            name = f"{subscription_role_prefix}-{name}"
        chosen = made_of(
            ConsumerOptions,
            subscription_name=name,
            consumer_name=reader_name,
            start_message_id_inclusive=start_message_id_inclusive,
            is_durable=False,
            ack_receipt_enabled=False,
            **options,
        )
        maker = ConsumerMaker(context, chosen, self._letter_producer, target=target)
        return Reader(await self._keep(await maker.make(topic)))

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
            if self._admin_url is None:
                raise NotAllowed(
                    f"{connection.url} ({connection.server}) finds ids by index over HTTP only:"
                    " give the client its admin_url"
                )
            return await self._admin_id_by_index(self._admin_url, topic, index)
        answer = await connection.request(
            pb.CommandGetMessageIdByIndex(request_id=0, topic=str(topic), index=index),
            self._operation_timeout_s,
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
        """Close everything that was made, then the connections; closing twice changes nothing."""
        if self._is_closed or self._fork.is_forked:
            return
        self._is_closed = True
        await asyncio.gather(*(one.close() for one in self._made), return_exceptions=True)
        if self._pool is not None:
            await self._pool.close()

    async def shutdown(self) -> None:
        """Close the connections at once, without saying good-bye."""
        if self._pool is not None:
            await self._pool.close()
        await self.close()

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
            self._pool = ConnectionPool(self._authentication, self._tls, self._connect_timeout_s)
            lookup = Lookup(
                self._pool,
                self._service_url,
                timeout_s=self._operation_timeout_s,
                listener_name=self._listener_name,
                follows=self._follow_lookups,
            )
            first_s, max_s = self._backoff
            self._shared = Context(
                lookup,
                self._clock,
                operation_timeout_s=self._operation_timeout_s,
                id_by_index=self._id_by_index,
                backoff_first_s=first_s,
                backoff_max_s=max_s,
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


# Of the official package; they tune what this client does not have.
_IGNORED = re.compile(
    "io_threads|message_listener_threads|concurrent_lookup_requests|log_conf_file_path"
    "|stats_interval_in_seconds"
)


def _check_ignored(options: dict[str, Any]) -> None:
    for name in options:
        if not _IGNORED.fullmatch(name):
            raise TypeError(f"Client() has no option {name!r}")
