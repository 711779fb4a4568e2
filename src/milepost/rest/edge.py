"""What every request passes before a route sees it: limits, and the last resort behind it.

- a path that is too long, not UTF-8 or holds a control character is a 400;
- a body larger than `BODY_SIZE_MAX` is a 413, whether or not it says its size;
- HEAD is answered as GET, without the body;
- an error that nobody foresaw is a 500 that says so, and one log record with the traceback.
"""

from __future__ import annotations

import json
import logging
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

PATH_SIZE_MAX = 8 * 1024
BODY_SIZE_MAX = 1024 * 1024


class Edge:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        fault = _fault_of_path(scope)
        if fault is not None:
            await _answer(send, 400, fault)
            return
        if scope["method"] == "HEAD":
            # A copy: the server goes by its own to leave the body out.
            scope = {**scope, "method": "GET"}
        taken = 0
        answering = False

        async def receive_limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_SIZE_MAX:
                # Of all exceptions, the framework lets only this kind out of its body parsing.
                raise HTTPException(413, f"the body is larger than {BODY_SIZE_MAX} bytes")
            return message

        async def send_noting(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, receive_limited, send_noting)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if not answering:
                await _answer(send, 500, "an internal error; the broker's log has it")


def _fault_of_path(scope: Scope) -> str | None:
    raw = scope.get("raw_path") or scope["path"].encode()
    if len(raw) > PATH_SIZE_MAX:
        return f"the path is longer than {PATH_SIZE_MAX} bytes"
    try:
        path = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return "the path is not UTF-8"
    if any(character < " " or character == "\x7f" for character in path):
        return "the path has a control character"
    return None


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"reason": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
