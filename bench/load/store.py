"""An object store in memory that speaks S3, in a process of its own, as slow as it is told to be.

    with store(latency_s=0.04) as url:
        milepost serve --bucket s3://bench/prefix --set bucket_endpoint={url}

It has what a broker needs: conditional writes, ranges, lists and deletions. Every answer waits
for the latency.

A public store has machines of its own, and this one takes its part of the broker's. So it does as little as
it can: the kernel writes a body into the very bytes that are kept, and an object's tag is a number, no hash.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Body = bytes | bytearray | memoryview
Answer = tuple[int, dict[str, str], Body]

_HEAD_MAX = 64 * 1024
_REASONS = {200: "OK", 204: "No Content", 206: "Partial", 404: "Not Found", 412: "Refused"}


@contextmanager
def store(latency_s: float = 0.0) -> Iterator[str]:
    """The address of a store; it is gone at the end."""
    command = [sys.executable, "-m", "bench.load.store", str(latency_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Store:
    """The objects, and what requests do to them."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[Body, str]] = {}
        self._tags = count(1)

    def answer(self, method: str, target: str, headers: dict[str, str], body: Body) -> Answer:
        parts = urlsplit(target)
        key = unquote(parts.path)[1:]
        if method == "PUT":
            return self.put(key, headers, body)
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        query = parse_qs(parts.query, keep_blank_values=True)
        if "list-type" in query:
            return self.listed(key.partition("/")[0], query.get("prefix", [""])[0])
        if key not in self.objects:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        data, tag = self.objects[key]
        known = {"ETag": tag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if (asked := headers.get("range")) is None:
            return 200, known, data
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = memoryview(data)[int(first) : int(last) + 1]
        known["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        return 206, known, part

    def put(self, key: str, headers: dict[str, str], body: Body) -> Answer:
        there = self.objects.get(key)
        wanted = headers.get("if-match")
        is_taken = headers.get("if-none-match") == "*" and there is not None
        if is_taken or (wanted is not None and (there is None or there[1] != wanted)):
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        tag = f'"{next(self._tags)}"'
        self.objects[key] = body, tag
        return 200, {"ETag": tag}, b""

    def listed(self, bucket: str, prefix: str) -> Answer:
        rows = "".join(
            f"<Contents><Key>{escape(key.removeprefix(f'{bucket}/'))}</Key><Size>{len(data)}</Size>"
            f"<ETag>{escape(tag)}</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, (data, tag) in sorted(self.objects.items())
            if key.startswith(f"{bucket}/{prefix}")
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        return 200, {}, text.encode()


class Talk(asyncio.BufferedProtocol):
    """One connection of the broker: a request at a time."""

    def __init__(self, store: Store, latency_s: float) -> None:
        self._store = store
        self._latency_s = latency_s
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(_HEAD_MAX)
        self._request: tuple[str, str, dict[str, str]] | None = None
        # What is being filled, the head or a body, and how much of it is there.
        self._into = memoryview(self._head)
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._into[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._request is None:
            end = self._head.find(b"\r\n\r\n", 0, self._filled)
            if end < 0:
                assert self._filled < _HEAD_MAX, "a request whose head does not end"
                return
            self._begin(end)
        if self._request is not None and self._filled == len(self._into):
            self._wait(self._request, self._into.obj)

    def _begin(self, end: int) -> None:
        """The head is there: fill the body from now on."""
        first, *lines = self._head[:end].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = bytearray(int(headers.get("content-length", 0)))
        begun = self._head[end + 4 : self._filled]
        body[: len(begun)] = begun
        self._request = method, target, headers
        self._into, self._filled = memoryview(body), len(begun)

    def _wait(self, request: tuple[str, str, dict[str, str]], body: bytearray) -> None:
        self._request, self._into, self._filled = None, memoryview(self._head), 0
        if self._latency_s:
            loop = asyncio.get_running_loop()
            loop.call_later(self._latency_s, self._answer, request, body)
        else:
            self._answer(request, body)

    def _answer(self, request: tuple[str, str, dict[str, str]], body: bytearray) -> None:
        status, more, data = self._store.answer(*request, body)
        assert self._transport is not None
        if self._transport.is_closing():
            return  # the broker is gone
        head = [f"HTTP/1.1 {status} {_REASONS[status]}", f"Content-Length: {len(data)}"]
        head += [f"{name}: {value}" for name, value in more.items()]
        self._transport.write(("\r\n".join(head) + "\r\n\r\n").encode())
        if data and request[0] != "HEAD":
            self._transport.write(data)


def new_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def main(latency_s: float) -> None:
    store = Store()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Talk(store, latency_s), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop()) as runner:
        runner.run(main(float(sys.argv[1])))
