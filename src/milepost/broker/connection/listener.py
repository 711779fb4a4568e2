"""Opens and closes listening sockets.

CPython's selector loop makes the transport of an accepted socket a turn after it accepted. A server that
was closed in that turn refuses the transport by an assertion, and the socket stays open until it is
collected. So: accept nothing more, let those that were accepted become transports, then close.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

# Accepted in one turn, a transport in the next, its protocol told in the third, a stream's task behind it.
TURNS = 5


async def start_listening(
    protocol: Callable[[], asyncio.BaseProtocol],
    tls: ssl.SSLContext | None,
    handshake_timeout_s: float,
    **where: Any,
) -> tuple[asyncio.Server, int]:
    """Listen on a `host` and `port`, 0 for a free one, or on a `sock`, with a `backlog`; which port it is."""
    server = await asyncio.get_running_loop().create_server(
        protocol,
        **where,
        ssl=tls,
        ssl_handshake_timeout=None if tls is None else handshake_timeout_s,
    )
    bound: int = server.sockets[0].getsockname()[1]
    return server, bound


async def stop_listening(*servers: asyncio.Server) -> None:
    """Close servers; every socket that they accepted has a protocol by then."""
    loop = asyncio.get_running_loop()
    for server in servers:
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())  # a loop that accepts by itself has none
    for _ in range(TURNS):
        await asyncio.sleep(0)
    for server in servers:
        server.close()
