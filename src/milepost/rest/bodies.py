"""Reads request bodies: limits of size and time, strict JSON.

A body is refused that is larger than `SIZE_MAX`, does not end, is not JSON, nests deeper than `DEPTH_MAX`,
says NaN, or names a key twice: of two readers of that, one would take the first and one the last.

    >>> check_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    milepost.rest.bodies.BadBody: (400, 'the body names the key a twice')
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from starlette.types import Message, Receive

SIZE_MAX = 1024 * 1024
DEPTH_MAX = 64
TIMEOUT_S = 30.0

# Upstream's clients send these as bare texts, and call them JSON.
PLAIN_PATHS = ("/antiAffinity",)

_JSON = re.compile(rb"application/(?:[\w.+-]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


class BadBody(Exception):
    """A status and the reason for it."""


def check_head(headers: list[tuple[bytes, bytes]]) -> None:
    """What the headers say of a body that is to come."""
    said = dict(headers)
    size = said.get(b"content-length", b"0")
    if size.isdigit() and int(size) > SIZE_MAX:
        raise BadBody(413, f"the body is larger than {SIZE_MAX} bytes")
    if said.get(b"content-encoding", b"identity").lower() != b"identity":
        raise BadBody(415, "a body is taken as it is, not compressed")


async def read(receive: Receive) -> bytes:
    """The whole body."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BadBody(400, "the connection ended before the body")
                part = message.get("body", b"")
                size += len(part)
                if size > SIZE_MAX:
                    raise BadBody(413, f"the body is larger than {SIZE_MAX} bytes")
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise BadBody(408, f"the body did not come within {TIMEOUT_S:g} s") from None


def quoted(body: bytes) -> bytes:
    """A bare text as the JSON that it should have been."""
    if not body or body.lstrip().startswith(b'"') or body.strip() == b"null":
        return body
    return json.dumps(body.decode("utf-8", "replace")).encode()


def check(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """The kind of a body that is there, and its JSON."""
    if not body:
        return
    kind = dict(headers).get(b"content-type", b"")
    if not _JSON.match(kind):
        raise BadBody(415, "the body must be application/json, and say so")
    check_json(body)


def check_json(body: bytes) -> None:
    depth = 0
    for found in _OUTSIDE_STRINGS.finditer(body):
        mark = found[0]
        depth += 1 if mark in b"[{" else -1 if mark in b"]}" else 0
        if depth > DEPTH_MAX:
            raise BadBody(400, f"the body nests deeper than {DEPTH_MAX}")
    try:
        json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadBody(400, "the body is not JSON") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadBody(400, f"the body names the key {key[:80]} twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise BadBody(400, f"the body says {name}, which is not JSON")


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and then whatever still comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
