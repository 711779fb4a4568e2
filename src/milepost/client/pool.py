"""Connections, one to each broker, shared by all producers and consumers of a client.

    connection = await pool.get("pulsar://broker-1:6650")

Two that ask at once get the same one. A connection that was lost is forgotten; the next who asks makes
a new one. With a proxy the same host is connected to once for each broker behind it.
"""

from __future__ import annotations

import asyncio

from milepost.client.auth import Authentication
from milepost.client.connection import Connection
from milepost.client.service_url import ServiceUrl
from milepost.client.tls import TlsOptions
from milepost.errors import AlreadyClosed, ConnectError, MilepostError

# (where the socket goes, the broker behind the proxy if there is one)
Key = tuple[str, str | None]


class ConnectionPool:
    def __init__(
        self, authentication: Authentication, tls: TlsOptions, connect_timeout_s: float
    ) -> None:
        self._authentication = authentication
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, asyncio.Task[Connection]] = {}
        # Which host of a URL with several is tried first; moves on when one does not answer.
        self._turns: dict[str, int] = {}
        self._is_closed = False

    async def get(self, url: str, *, behind_proxy: str | None = None) -> Connection:
        """A connection that is ready; `ConnectError` (or the broker's refusal) if there is none."""
        if self._is_closed:
            raise AlreadyClosed("the client is closed")
        key = (url, behind_proxy)
        found = self._open.get(key)
        if found is not None and found.is_open:
            return found
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.create_task(self._connect(key), name=f"connect {url}")
            self._opening[key] = opening
            opening.add_done_callback(lambda task: self._opened(key, task))
        # Another may wait for it too: who is cancelled only stops waiting.
        return await asyncio.shield(opening)

    async def close(self) -> None:
        opening = list(self._opening.values())
        self.shut()
        await asyncio.gather(*opening, return_exceptions=True)

    def shut(self) -> None:
        """Close what is open, and open nothing more."""
        self._is_closed = True
        for opening in self._opening.values():
            opening.cancel()
        for connection in self._open.values():
            connection.close(AlreadyClosed("the client is closed"))
        self._open.clear()

    def _opened(self, key: Key, task: asyncio.Task[Connection]) -> None:
        del self._opening[key]
        if task.cancelled() or task.exception() is not None:
            return  # whoever waited has it
        self._open[key] = task.result()

    async def _connect(self, key: Key) -> Connection:
        url, behind_proxy = key
        service = ServiceUrl.parse(url)
        turn = self._turns.get(url, 0)
        failure: MilepostError | None = None
        for attempt in range(len(service.hosts)):
            host, port = service.hosts[(turn + attempt) % len(service.hosts)]
            try:
                connection = await self._connect_to(service, host, port, behind_proxy)
            except ConnectError as error:
                failure = error
                self._turns[url] = turn + attempt + 1
            else:
                return connection
        assert failure is not None
        raise failure

    async def _connect_to(
        self, service: ServiceUrl, host: str, port: int, behind_proxy: str | None
    ) -> Connection:
        scheme = "pulsar+ssl" if service.is_tls else "pulsar"
        shown = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        context = self._tls.context(self._authentication) if service.is_tls else None
        loop = asyncio.get_running_loop()
        made: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, made = await loop.create_connection(
                    lambda: Connection(shown, self._authentication),
                    host,
                    port,
                    ssl=context,
                    server_hostname=host if context is not None else None,
                )
        except TimeoutError:
            raise ConnectError(f"{shown} did not answer in {self._connect_timeout_s:g} s") from None
        except OSError as error:
            raise ConnectError(f"{shown}: {error}") from error
        try:
            await made.handshake(self._connect_timeout_s, behind_proxy)
        except BaseException:
            made.close()
            raise
        return made
