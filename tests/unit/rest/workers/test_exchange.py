"""A request that another worker answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from milepost.rest.workers.exchange import answer_of, scope_of

PIECES = [b"one ", b"two ", b"three"]
DOCUMENT = {
    "method": "GET",
    "scheme": "http",
    "path": "/metrics",
    "raw_path": "/metrics",
    "query": "",
    "headers": [("host", "localhost")],
    "client": ["127.0.0.1", 5],
    "server": ["broker", 8080],
    "certificate": None,
}


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
def test_an_answer_in_pieces_is_whole(spec_version: str) -> None:
    """It rests between them, and meanwhile the framework looks whether the client is still there."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece
            await asyncio.sleep(0.001)  # sleep: as the metrics of very many topics do

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(pieces(), media_type="text/plain")(scope, receive, send)

    async def asked() -> bytes:
        scope = scope_of(DOCUMENT)
        scope["asgi"] = {"version": "3.0", "spec_version": spec_version}
        answer = await answer_of(app, scope, b"")
        assert answer.status == 200
        return answer.body

    assert asyncio.run(asked()) == b"".join(PIECES)
