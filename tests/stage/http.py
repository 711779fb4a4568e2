"""The HTTP edge called without a socket: one request as an ASGI server would pass it on."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from milepost.rest.app import create_app
from stage.stage import Stage


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        assert set(self.json) == {"reason"}
        assert self.headers["content-type"] == "application/json"
        return str(self.json["reason"])


class Request(NamedTuple):
    method: str
    target: str
    body: bytes | list[bytes] = b""
    headers: Mapping[str, str] = MappingProxyType({})


Send = Callable[[dict[str, Any]], Awaitable[None]]


async def call(app: Any, request: Request) -> Answer:
    """One request as an ASGI server would pass it on."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await stream(app, request, send)
    start, *rest = sent
    return Answer(
        start["status"],
        {name.decode().lower(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in rest),
    )


async def stream(app: Any, request: Request, send: Send) -> None:
    """The same, for whoever wants to see the answer as it comes."""
    path, _, query = request.target.partition("?")
    chunks = request.body if isinstance(request.body, list) else [request.body]
    headers = {"host": "localhost", **request.headers}
    if request.method in ("PUT", "POST"):
        headers.setdefault("content-type", "application/json")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5),
        "server": ("broker", 8080),
    }
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    await app(scope, receive, send)


class Web:
    """The HTTP edge of a broker on a stage.

    web("PUT /admin/v2/persistent/public/default/t/partitions", 4).status == 204
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.app = create_app(stage.broker)

    def __call__(self, line: str, body: Any = None, **headers: str) -> Answer:
        """A line without a slash in front is of the topics of `public/default`."""
        method, _, target = line.partition(" ")
        if not target.startswith("/"):
            target = f"/admin/v2/persistent/public/default/{target}".rstrip("/")
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(
            method, target, data, {k.replace("_", "-"): v for k, v in headers.items()}
        )
        return self.stage.run(call(self.app, request))

    def statuses(self, *lines: str) -> list[int]:
        return [self(line).status for line in lines]
