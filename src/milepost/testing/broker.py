"""A broker for a test: on a free port of this machine, with a data directory of its own, gone afterwards.

In a test that has a loop, the broker runs on it; in one that has none (the official client's calls
block), on a thread of its own. Either way it is the real one, with a disk, threads and a socket.

    with milepost.testing.broker() as running:
        client = pulsar.Client(running.url)

    async with milepost.testing.broker(batch_index_ack=False) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)

    with milepost.testing.broker(http=True) as running:
        admin = milepost.admin.Admin(running.http_url)

Settings are those of `milepost.broker.settings.settings`. `data` names a directory to be used and kept: a
second broker on it finds what the first one stored.
"""

from __future__ import annotations

import asyncio
import difflib
import tempfile
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.broker.connection.server import RunningBroker
from milepost.broker.run import run_broker
from milepost.broker.settings.settings import TABLE, Settings
from milepost.clock import Clock
from milepost.errors import InvalidSetting

if TYPE_CHECKING:
    from milepost.rest.serve import HttpServer

T = TypeVar("T")

# A broker that has not begun or ended by then never will; no test waits this long on purpose.
PATIENCE_S = 30.0


class BrokerForTest:
    """What `broker()` makes: a context manager of both kinds, and the handle that it gives."""

    def __init__(
        self, data: Path | None, clock: Clock | None, settings: dict[str, Any], *, http: bool
    ) -> None:
        self._has_http = http
        self._http: HttpServer | None = None
        self._data = data
        self._clock = clock
        self._settings = settings
        self._cleanup = ExitStack()
        self._running: RunningBroker | None = None
        # Only while it has a thread of its own.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = asyncio.Event()

    @property
    def running(self) -> RunningBroker:
        """The broker itself; to be touched on its loop only."""
        assert self._running is not None, "the broker does not run: enter it, `with broker() as …`"
        return self._running

    @property
    def port(self) -> int:
        return self.running.port

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        """Where REST and metrics are, of a broker that was asked for with `http`."""
        assert self._http is not None, "say broker(http=True)"
        return self._http.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop of a broker that has a thread of its own; its result."""
        assert self._loop is not None, "without a thread, await it"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    # -- on the loop that is there -----------------------------------------------------------------

    async def __aenter__(self) -> BrokerForTest:
        data = self._data
        try:
            if data is None:
                made = tempfile.TemporaryDirectory("-milepost")
                data = Path(self._cleanup.enter_context(made))
            settings = Settings(**{"port": 0, "http_port": 0, **self._settings, "data": data})
            self._running = await run_broker(settings, clock=self._clock)
            if self._has_http:
                await self._start_http(settings, self._running)
        except BaseException:
            self._cleanup.close()
            raise
        return self

    async def _start_http(self, settings: Settings, running: RunningBroker) -> None:
        from milepost.rest.serve import start_http  # the heavier half, for who asks for it

        try:
            self._http = await start_http(running.broker, settings.host, settings.http_port)
        except BaseException:
            await running.close()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        with self._cleanup:
            running, self._running = self.running, None
            http, self._http = self._http, None
            if http is not None:
                await http.close()
            await running.close()

    # -- on a thread -------------------------------------------------------------------------------

    def __enter__(self) -> BrokerForTest:
        begun: Future[None] = Future()
        thread = threading.Thread(target=self._serve, args=(begun,), name="broker", daemon=True)
        thread.start()
        begun.result(PATIENCE_S)
        self._thread = thread
        return self

    def __exit__(self, *exc_info: object) -> None:
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        self._loop = self._thread = None
        loop.call_soon_threadsafe(self._stopped.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the broker did not end"

    def _serve(self, begun: Future[None]) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            self._stopped.clear()
            async with self:
                begun.set_result(None)
                await self._stopped.wait()

        try:
            asyncio.run(serve())
        except BaseException as error:
            if begun.done():
                raise
            begun.set_exception(error)


def broker(
    data: Path | str | None = None,
    *,
    clock: Clock | None = None,
    http: bool = False,
    **settings: Any,
) -> BrokerForTest:
    """A broker that runs as long as the `with` or `async with` block does; `http`: with REST."""
    for name in settings:
        if name not in TABLE:
            near = difflib.get_close_matches(name, TABLE, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidSetting(f"{name}: there is no such setting{hint}")
    return BrokerForTest(None if data is None else Path(data), clock, settings, http=http)
