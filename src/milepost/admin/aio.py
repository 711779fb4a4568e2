"""`AsyncAdmin`: the same calls, awaited.

    async with AsyncAdmin("http://localhost:8080") as admin:
        print(await admin.get_message_id_by_index("persistent://public/default/orders", 12345))

Bytes are exchanged in threads of its own: an administrator's call is rare and short, and one way of
speaking HTTP is easier to trust than two. A call that is cancelled stops being waited for; its
request may still arrive, as any request may that was sent.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from milepost.admin.calls import Calls
from milepost.admin.errors import AdminError
from milepost.admin.request import Script
from milepost.admin.transport import REQUEST_TIMEOUT_S, Credentials, HttpTransport, Tls

if TYPE_CHECKING:
    from typing import Self

    from milepost.admin.face import Transport

T = TypeVar("T")

# Requests of one client that are under way at once; the others wait for a thread.
CONCURRENCY_MAX = 16


class AsyncFace:
    """Calls are awaited."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._threads = ThreadPoolExecutor(CONCURRENCY_MAX, "milepost-admin")

    async def run(self, script: Script[T]) -> T:
        """Exchange what a script asks for until it returns. It hears refusals, and may go on."""
        loop = asyncio.get_running_loop()
        exchange = self._transport.exchange
        try:
            request = next(script)
            while True:
                try:
                    answer = await loop.run_in_executor(self._threads, exchange, request)
                except AdminError as error:
                    request = script.throw(error)
                else:
                    request = script.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    async def close(self) -> None:
        """Ends when requests under way have ended: each is bound by its time out."""
        await asyncio.to_thread(self._threads.shutdown)
        self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class AsyncAdmin(Calls, AsyncFace):
    """`Admin`, awaited."""

    def __init__(
        self,
        url: str = "http://localhost:8080",
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        super().__init__(HttpTransport(url, credentials=credentials, tls=tls, timeout_s=timeout_s))
