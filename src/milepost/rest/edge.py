"""What every request passes first: limits, timeouts, the last resort for errors.

- a path that is too long, not UTF-8 or holds a control character is a 400; one with a slash in a topic's name
  (`raw_path.py`) is a 412; headers too large are a 431;
- a name that this broker does not have, or a change asked for by another site's page, is a 403;
- a body that is too large, endless, of another kind or not plain JSON is refused (`bodies.py`);
- HEAD is answered as GET, without the body; TRACE is not answered (405);
- an unforeseen error is a 500 that says so, and one log record with the traceback;
- a call that is under way when the broker ends, and takes longer than that waits, is a 503.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from milepost.rest import bodies
from milepost.rest.hosts import HostRules
from milepost.rest.raw_path import SlashInTopic, path_of

logger = logging.getLogger(__name__)

PATH_SIZE_MAX = 8 * 1024
HEADERS_SIZE_MAX = 32 * 1024
WITH_BODY = {"PUT", "POST", "PATCH", "DELETE"}
# Methods that change nothing.
ASKING = {"GET", "HEAD", "OPTIONS"}

_ENDS = "the broker is shutting down"
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class Edge:
    def __init__(self, app: ASGIApp, hosts: HostRules) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        fault = self._fault(scope)
        if fault is not None:
            await _answer(send, *fault)
            return
        scope = {**scope, "path": path_of(_raw_path(scope))}
        method, headers = scope["method"], scope["headers"]
        if method == "HEAD":
            # A copy: the server goes by its own to leave the body out.
            scope = {**scope, "method": "GET"}
        elif method in WITH_BODY:
            try:
                bodies.check_head(headers)
                body = await bodies.read(receive)
                if scope["path"].endswith(bodies.PLAIN_PATHS):
                    body = bodies.quoted(body)
                bodies.check(headers, body)
            except bodies.BadBody as bad:
                await _answer(send, *bad.args)
                return
            except asyncio.CancelledError:  # as below, and nothing was begun
                await _answer(send, 503, f"{_ENDS}: try again")
                return
            receive = bodies.replayed(body, receive)
        answering = False

        async def send_noting(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except asyncio.CancelledError:  # the listener closes, and waits for this call no longer
            if answering:
                raise
            known = "try again" if method in ASKING else "it may have been carried out"
            await _answer(send, 503, f"{_ENDS}: {known}")
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if not answering:
                await _answer(send, 500, "an internal error; the broker's log has it")

    def _fault(self, scope: Scope) -> tuple[int, str] | None:
        headers = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > HEADERS_SIZE_MAX:
            return 431, f"the headers are larger than {HEADERS_SIZE_MAX} bytes"
        path = _fault_of_path(scope)
        if path is not None:
            return path
        host = self._hosts.fault(scope["method"], headers)
        if host is not None:
            return 403, host
        if scope["method"] == "TRACE":
            return 405, "TRACE is not answered"
        return None


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw


def _fault_of_path(scope: Scope) -> tuple[int, str] | None:
    raw = _raw_path(scope)
    if len(raw) > PATH_SIZE_MAX:
        return 400, f"the path is longer than {PATH_SIZE_MAX} bytes"
    if len(scope["query_string"]) > PATH_SIZE_MAX:
        return 400, f"the query is longer than {PATH_SIZE_MAX} bytes"
    try:
        path = path_of(raw)
    except UnicodeDecodeError:
        return 400, "the path is not UTF-8"
    except SlashInTopic as fault:
        return 412, str(fault)
    if _CONTROL.search(path):
        return 400, "the path has a control character"
    return None


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps({"reason": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 405:
        headers.append((b"allow", b"GET, HEAD, OPTIONS, PUT, POST, DELETE"))
    if status in (408, 413):
        # What is left of the body is not read.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
