"""How a listening socket ends. On a real port: what is tested is what asyncio does with one."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from milepost.broker.connection.listener import stop_listening


class Accepted(asyncio.Protocol):
    """A protocol that remembers its transport."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


@pytest.mark.parametrize("turns", range(4))
def test_who_was_accepted_has_a_protocol(turns: int) -> None:
    """Whenever it ends; a socket that nobody has would fail this test as it is collected."""
    made: list[asyncio.BaseTransport] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Accepted(made), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        with socket.create_connection(address):
            for _ in range(turns):
                await asyncio.sleep(0)
            await stop_listening(server)
            assert not server.is_serving()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)
            for transport in made:
                transport.abort()  # type: ignore[attr-defined]
            await asyncio.sleep(0)

    asyncio.run(test())
    assert len(made) == (turns >= 2)
    gc.collect()


def test_a_server_that_is_closed_already() -> None:
    async def test() -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        server.close()
        await stop_listening(server, server)
        assert not server.is_serving()

    asyncio.run(test())
