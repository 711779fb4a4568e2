"""Closes a listening socket.

CPython's selector loop makes the transport of an accepted socket a turn after it accepted. A server that
was closed in that turn refuses the transport by an assertion, and the socket stays open until it is
collected. So: accept nothing more, let those that were accepted become transports, then close.
"""

from __future__ import annotations

import asyncio

# Accepted in one turn, a transport in the next, its protocol told in the third, a stream's task behind it.
TURNS = 5


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
