"""The connections of a client, one to each broker.

    connection = await pool.get("pulsar://broker-1:6650")

Two that ask at once get the same one. A connection that was lost is forgotten; the next who asks makes
a new one. With a proxy the same host is connected to once for each broker behind it.

A program that ends an event loop cancels its tasks. One of them stands guard here: when it is cancelled
before the pool is closed, the client was forgotten, and its sockets are closed with one warning that says so.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import warnings
from typing import Final

from milepost.client.connection.auth import Authentication
from milepost.client.connection.connection import Connection
from milepost.client.connection.service_url import ServiceUrl
from milepost.client.connection.tls import TlsOptions
from milepost.errors import AlreadyClosed, ConnectError, MilepostError
from milepost.wire.protocol import RunReader

# (where the socket goes, the broker behind the proxy if there is one)
Key = tuple[str, str | None]


# A guard sleeps so long at a time; the loop's timer keeps it alive.
GUARD_SLEEP_S: Final = 3600.0

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")

# How long a TLS connection may take to say good-bye.
GOOD_BYE_S: Final = 1.0


class ConnectionPool:
    def __init__(
        self,
        authentication: Authentication,
        tls: TlsOptions,
        connect_timeout_s: float,
        *,
        read_run: RunReader | None = None,
    ) -> None:
        """`read_run` takes the messages of every connection, many at once."""
        self._read_run = read_run
        self._authentication = authentication
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, asyncio.Task[Connection]] = {}
        # Which host of a URL with several is tried first; moves on when one does not answer.
        self._turns: dict[str, int] = {}
        self._is_closed = False
        self._guard = asyncio.create_task(self._stand_guard(), name="milepost guard")

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
        """Close everything, and return when the sockets are closed."""
        tasks = [self._guard, *self._opening.values()]
        connections = list(self._open.values())
        self.shut()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(connection.gone(GOOD_BYE_S) for connection in connections))

    def shut(self, *, at_once: bool = False) -> None:
        """Close what is open, and open nothing more."""
        self._is_closed = True
        self._guard.cancel()
        for opening in self._opening.values():
            opening.cancel()
        for connection in self._open.values():
            connection.close(AlreadyClosed("the client is closed"), at_once=at_once)
        self._open.clear()

    def abandon(self) -> None:
        """Close it, since no caller will any more, and log that."""
        if self._is_closed:
            return
        urls = ", ".join(sorted({url for url, _ in (*self._open, *self._opening)}))
        self.shut(at_once=True)
        if urls:
            # No caller is left to point at.
            text = f"a milepost client of {urls} was never closed: use it with `with`"
            warnings.warn(text, ResourceWarning, stacklevel=1)

    async def _stand_guard(self) -> None:
        try:
            while True:
                await asyncio.sleep(GUARD_SLEEP_S)
        finally:
            self.abandon()

    def _opened(self, key: Key, task: asyncio.Task[Connection]) -> None:
        del self._opening[key]
        if task.cancelled() or task.exception() is not None:
            return  # the caller that waited has it
        if self._is_closed:  # between its last step and this one
            task.result().close(AlreadyClosed("the client is closed"))
        else:
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
                    lambda: Connection(shown, self._authentication, self._read_run),
                    host,
                    port,
                    ssl=context,
                    server_hostname=host if context is not None else None,
                )
        except TimeoutError:
            raise ConnectError(f"{shown} did not answer in {self._connect_timeout_s:g} s") from None
        except OSError as error:
            # A port without TLS hangs up without a word.
            silent = "the connection was closed" + (" during the TLS handshake" if context else "")
            raise ConnectError(f"{shown}: {_why(error) or silent}") from error
        try:
            await made.handshake(self._connect_timeout_s, behind_proxy)
        except BaseException:
            made.close(at_once=True)
            raise
        return made


def _why(error: OSError) -> str:
    """Why no connection was made, in the admin client's words for it."""
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    # Of a host with several addresses asyncio says what each of them said.
    numbers = {error.errno} if error.errno else {int(n) for n in _ERRNO.findall(str(error))}
    if numbers == {errno.ECONNREFUSED}:
        return "connection refused: nothing listens there"
    return str(error)
