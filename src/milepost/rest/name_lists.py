"""Sends long lists of names in pieces.

A namespace may have a hundred thousand topics. Their names are a few megabytes, and no client needs all of
them in one buffer, nor the broker's loop for as long as encoding them takes.

    return name_list(broker.directory.topics("public/default"))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

from fastapi.responses import Response, StreamingResponse

# Names in one piece.
PIECE_NAMES = 1000

_JSON = "application/json"


def name_list(names: Sequence[str]) -> Response:
    """The names as a JSON array."""
    if len(names) <= PIECE_NAMES:
        return Response(json.dumps(names), media_type=_JSON)
    return StreamingResponse(_pieces(names), media_type=_JSON)


async def _pieces(names: Sequence[str]) -> AsyncIterator[bytes]:
    for at in range(0, len(names), PIECE_NAMES):
        piece = json.dumps(names[at : at + PIECE_NAMES])[1:-1]
        yield f"{'[' if at == 0 else ', '}{piece}".encode()
        await asyncio.sleep(0)
    yield b"]"
