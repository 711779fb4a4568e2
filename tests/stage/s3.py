"""An object store that speaks S3 over HTTP: enough for a broker, with conditional writes and lists.

with S3Server() as store:
    milepost serve --bucket s3://bucket/prefix --set bucket_endpoint={store.url}

Several servers may share their objects: requests to one of them can be held up, as a cut in the network does.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class S3Server:
    def __init__(self, other: S3Server | None = None) -> None:
        """With `other` it has the same objects."""
        self.objects: dict[str, bytes] = {} if other is None else other.objects
        self.lock = threading.Lock() if other is None else other.lock
        self.is_cut = threading.Event()
        """While it is set no request is answered."""
        self.refusal: Callable[[str, str], tuple[int, str] | None] = lambda method, path: None
        """With which status and code a request is refused, by its method and path; None if it is not."""
        store = self

        class Handler(_Handler):
            s3 = store

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> S3Server:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    s3: S3Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", headers.pop("length", str(len(body))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path)[1:]

    def parse_request(self) -> bool:
        """Refuse requests that are to be refused; what this gives is whether to go on with one."""
        if not super().parse_request():
            return False
        refused = self.s3.refusal(self.command, self.path)
        if refused is None:
            return True
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, code = refused
        self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())
        return False

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.s3.lock:
            there = self.s3.objects.get(self._key)
            tag = self.headers.get("If-Match")
            is_refused = (self.headers.get("If-None-Match") == "*" and there is not None) or (
                tag is not None and (there is None or tag != _tag(there))
            )
            if not is_refused:
                self.s3.objects[self._key] = data
        if is_refused:
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._answer(200, ETag=_tag(data))

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0])
            return
        data = self.s3.objects.get(self._key)
        if data is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        headers = {"ETag": _tag(data), "Last_Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        asked = self.headers.get("Range")
        if asked is None:
            self._answer(200, data, **headers)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1]
        where = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        self._answer(206, part, Content_Range=where, **headers)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        with self.s3.lock:
            self.s3.objects.pop(self._key, None)
        self._answer(204)

    def do_POST(self) -> None:
        """DeleteObjects."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        bucket = self._key.partition("/")[0]
        keys = [part.partition("</Key>")[0] for part in body.split("<Key>")[1:]]
        with self.s3.lock:
            for key in keys:
                self.s3.objects.pop(f"{bucket}/{key}", None)
        gone = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())

    def _list(self, prefix: str) -> None:
        bucket = self._key.partition("/")[0]
        with self.s3.lock:
            found = sorted(
                (key.removeprefix(f"{bucket}/"), data)
                for key, data in self.s3.objects.items()
                if key.startswith(f"{bucket}/{prefix}")
            )
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>{escape(_tag(data))}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, data in found
        )
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode(),
        )

    def handle_one_request(self) -> None:
        while self.s3.is_cut.is_set():
            time.sleep(0.02)  # sleep: as a network that loses everything
        super().handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read the brokers' logs."""


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'
