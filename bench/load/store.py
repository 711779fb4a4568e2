"""An object store in memory that speaks S3, in a process of its own, as slow as it is told to be.

    with store(latency_s=0.04) as url:
        milepost serve --bucket s3://bench/prefix --set bucket_endpoint={url}

It has what a broker needs: conditional writes, ranges, lists and deletions. Every answer waits
for the latency.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

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
    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.objects: dict[str, tuple[bytes, str]] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode("latin-1").split(" ", 2)
                headers: dict[str, str] = {}
                while (line := await reader.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if self.latency_s:
                    await asyncio.sleep(self.latency_s)
                status, more, data = self.answer(method, target, headers, body)
                head = [f"HTTP/1.1 {status} {_REASONS[status]}", f"Content-Length: {len(data)}"]
                head += [f"{name}: {value}" for name, value in more.items()]
                sent = b"" if method == "HEAD" else data
                writer.writelines((("\r\n".join(head) + "\r\n\r\n").encode(), sent))
                await writer.drain()
        except (OSError, EOFError):
            return  # the broker is gone
        finally:
            writer.close()

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
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
        part = data[int(first) : int(last) + 1]
        known["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        return 206, known, part

    def put(
        self, key: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        there = self.objects.get(key)
        wanted = headers.get("if-match")
        is_taken = headers.get("if-none-match") == "*" and there is not None
        if is_taken or (wanted is not None and (there is None or there[1] != wanted)):
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
        self.objects[key] = body, tag
        return 200, {"ETag": tag}, b""

    def listed(self, bucket: str, prefix: str) -> tuple[int, dict[str, str], bytes]:
        rows = "".join(
            f"<Contents><Key>{escape(key.removeprefix(f'{bucket}/'))}</Key><Size>{len(data)}</Size>"
            f"<ETag>{escape(tag)}</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, (data, tag) in sorted(self.objects.items())
            if key.startswith(f"{bucket}/{prefix}")
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        return 200, {}, text.encode()


async def main(latency_s: float) -> None:
    server = await asyncio.start_server(Store(latency_s).serve, "127.0.0.1", 0, limit=1 << 20)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
