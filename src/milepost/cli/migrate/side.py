"""One of the two brokers: its HTTP side and its binary side.

async with Side("source", endpoint) as source:
    await source.locate(topic)
    connection = await source.connection(topic)
    await source.admin.get_stats(topic)
"""

from __future__ import annotations

import asyncio
import itertools
from types import TracebackType
from typing import Any, Self

from milepost.admin import AsyncAdmin
from milepost.client.connection.connection import Connection
from milepost.client.connection.endpoint import Endpoint
from milepost.client.connection.lookup import Lookup
from milepost.client.connection.pool import ConnectionPool


class Side:
    def __init__(self, word: str, endpoint: Endpoint) -> None:
        self.word = word
        """`source` or `target`, for messages."""
        self.endpoint = endpoint
        self.is_milepost = True
        """Else it is an Apache Pulsar, which counts entries; `recognise` finds out."""
        self.admin = AsyncAdmin(
            endpoint.http_url,
            credentials=endpoint.credentials(),
            tls=endpoint.tls(),
            timeout_s=endpoint.timeout_s,
        )
        self._pool = ConnectionPool(
            endpoint.authentication(), endpoint.tls_options(), endpoint.timeout_s
        )
        self._lookup: Lookup | None = None
        self._locating = asyncio.Lock()
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pool.close()
        await self.admin.close()

    async def recognise(self) -> None:
        self.is_milepost = await self.admin.is_milepost()

    @property
    def timeout_s(self) -> float:
        return self.endpoint.timeout_s

    def next_id(self) -> int:
        """A number for a consumer or a producer."""
        return next(self._ids)

    async def connection(self, topic: str) -> Connection:
        """A connection to the broker that serves a topic."""
        lookup = await self._locate(topic)
        return await lookup.connect(await lookup.broker_of(topic))

    async def _locate(self, topic: str) -> Lookup:
        """The address of the binary side: as given, or as the HTTP side tells it for the first topic."""
        async with self._locating:
            if self._lookup is None:
                found = await asyncio.to_thread(self.endpoint.located, topic)
                self._lookup = Lookup(self._pool, str(found.url), timeout_s=self.timeout_s)
        return self._lookup

    async def service(self, topic: str) -> Connection:
        """A connection to the address that the HTTP side tells for a topic, which need not exist."""
        return await (await self._locate(topic)).service()

    async def request(self, connection: Connection, command: Any) -> Any:
        return await connection.request(command, self.timeout_s)
