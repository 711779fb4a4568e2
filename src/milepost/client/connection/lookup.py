"""Asks which broker serves a topic, how many partitions it has, which topics there are.

Asks over the connection to the service URL, and follows redirects a bounded number of times. Knows
nothing of what is done with the answer.

    where = await lookup.broker_of("persistent://public/default/orders")
    connection = await lookup.connect(where)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from milepost.client.connection.connection import Connection
from milepost.client.connection.pool import ConnectionPool
from milepost.errors import ConnectError
from milepost.wire import pulsar_pb2 as pb

T = TypeVar("T")

REDIRECTS_MAX: Final = 20
# How often the client asks a question whose connection is lost before the answer. Several processes of a
# broker listen at one address, and each of them ends with its shard; one that goes takes connections until it
# is gone. The pause before the next question doubles: two and a half seconds in all.
ASKS_MAX: Final = 9
PAUSE_FIRST_S: Final = 0.01


class BrokerAddress(NamedTuple):
    url: str
    """The broker itself."""
    through: str | None = None
    """The proxy that its connections go through, if there is one."""


class Lookup:
    def __init__(
        self,
        pool: ConnectionPool,
        service_url: str,
        *,
        timeout_s: float,
        listener_name: str | None = None,
        follows: bool = True,
    ) -> None:
        """`follows`: False for a broker whose own address cannot be reached from here."""
        self._follows = follows
        self._pool = pool
        self._service_url = service_url
        self._timeout_s = timeout_s
        self._listener_name = listener_name

    async def broker_of(self, topic: str) -> BrokerAddress:
        """The broker that serves a topic, which must not be a partitioned one."""
        return await self._asked_again(self._broker_of, topic)

    async def _broker_of(self, asked: Connection, topic: str) -> BrokerAddress:
        url: str | None = None
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            command = pb.CommandLookupTopic(topic=topic, request_id=0, authoritative=authoritative)
            if self._listener_name is not None:
                command.advertised_listener_name = self._listener_name
            answer = await asked.request(command, self._timeout_s)
            if not self._follows:
                # Asked all the same: an Apache Pulsar serves a topic only after a lookup.
                return BrokerAddress(self._service_url)
            is_tls = self._service_url.startswith("pulsar+ssl")
            url = answer.brokerServiceUrlTls if is_tls else answer.brokerServiceUrl
            if not url:
                raise ConnectError(f"lookup of {topic} gave no address of the kind asked for")
            through = self._service_url if answer.proxy_through_service_url else None
            found = BrokerAddress(url, through)
            if answer.response == pb.CommandLookupTopicResponse.Connect:
                return found
            authoritative = answer.authoritative
            asked = await self.connect(found)
        raise ConnectError(f"lookup of {topic} was redirected {REDIRECTS_MAX} times, last to {url}")

    async def connect(self, where: BrokerAddress) -> Connection:
        if where.through is not None:
            proxied = where.url.partition("://")[2]
            return await self._pool.get(where.through, behind_proxy=proxied)
        return await self._pool.get(where.url)

    async def partitions(self, topic: str) -> int:
        """How many partitions; 0 for a topic that is not partitioned."""
        answer = await self._ask(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=0))
        return int(answer.partitions)

    async def topics(self, namespace: str, mode: int) -> list[str]:
        """Full names of a namespace's topics, partitions by themselves."""
        answer = await self._ask(
            pb.CommandGetTopicsOfNamespace(
                request_id=0,
                namespace=namespace,
                mode=pb.CommandGetTopicsOfNamespace.Mode.Name(mode),
            )
        )
        return list(answer.topics)

    def abandon(self) -> None:
        """Close the connections that are left when no caller asks any more."""
        self._pool.abandon()

    async def service(self) -> Connection:
        """The connection to the service URL."""
        return await self._pool.get(self._service_url)

    async def _ask(self, command: Any) -> Any:
        return await self._asked_again(self._ask_once, command)

    async def _ask_once(self, connection: Connection, command: Any) -> Any:
        return await connection.request(command, self._timeout_s)

    async def _asked_again(self, ask: Callable[[Connection, Any], Awaitable[T]], what: Any) -> T:
        """Ask over the service URL, and again if that connection is lost meanwhile: nothing changes by it. A
        service URL at which no broker listens is told at once."""
        for number in range(1, ASKS_MAX + 1):
            connection = await self.service()
            try:
                return await ask(connection, what)
            except ConnectError:
                if connection.is_open or number == ASKS_MAX:
                    raise
            await asyncio.sleep(PAUSE_FIRST_S * 2 ** (number - 1))
        raise AssertionError("the last attempt returns or raises")
