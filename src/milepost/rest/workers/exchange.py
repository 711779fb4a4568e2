"""A request and its answer as values, to be carried from worker to worker.

The worker that has the topic answers as if the client had asked there: with the client's address, headers
and certificate, all its own checks included. Only the listener is another.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from milepost.broker.auth.certificates import CERTIFICATE

# In the scope of a request that another worker has taken: it is answered here.
FORWARDED = "milepost.forwarded"

Doc = dict[str, Any]


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def document(self) -> Doc:
        return {"status": self.status, "headers": self.headers}

    @classmethod
    def of_document(cls, document: Doc, body: bytes) -> Answer:
        headers = [(str(name), str(value)) for name, value in document["headers"]]
        return cls(document["status"], headers, body)

    async def send(self, send: Send) -> None:
        kept = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in self.headers
            if name not in ("content-length", "transfer-encoding")
        ]
        size = (b"content-length", b"%d" % len(self.body))
        start = {"type": "http.response.start", "status": self.status, "headers": [*kept, size]}
        await send(start)
        await send({"type": "http.response.body", "body": self.body})


def json_answer(status: int, value: object) -> Answer:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Answer(status, [("content-type", "application/json")], body)


async def body_of(receive: Receive) -> bytes:
    """The body of a request, which the edge has read already."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def document_of(scope: Scope) -> Doc:
    """A request without its body."""
    return {
        "method": scope["method"],
        "scheme": scope["scheme"],
        "path": scope["path"],
        "raw_path": (scope.get("raw_path") or scope["path"].encode()).decode("latin-1"),
        "query": scope["query_string"].decode("latin-1"),
        "headers": [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ],
        "client": scope.get("client"),
        "server": scope.get("server"),
        "certificate": scope.get(CERTIFICATE),
    }


def scope_of(document: Doc) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": document["method"],
        "scheme": document["scheme"],
        "path": document["path"],
        "raw_path": document["raw_path"].encode("latin-1"),
        "query_string": document["query"].encode("latin-1"),
        "root_path": "",
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in document["headers"]
        ],
        "client": None if document["client"] is None else tuple(document["client"]),
        "server": None if document["server"] is None else tuple(document["server"]),
        CERTIFICATE: document["certificate"],
        FORWARDED: True,
    }


async def answer_of(app: ASGIApp, scope: Scope, body: bytes) -> Answer:
    """What the application answers to a request."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    status, headers, parts = 500, list[tuple[str, str]](), list[bytes]()

    async def receive() -> Message:
        if not waiting:
            # The worker that asks stays. If it were said to be gone, the framework would cut an answer that
            # comes in pieces at the first rest between two of them.
            await asyncio.get_running_loop().create_future()
        return waiting.pop()

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.extend(
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in message["headers"]
            )
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Answer(status, headers, b"".join(parts))
