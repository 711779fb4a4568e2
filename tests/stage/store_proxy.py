"""A proxy in front of an object store that makes trouble: it is slow, refuses, loses answers, or is cut off.

with S3Server() as store, StoreProxy(store.url, seed=1) as proxy:
    proxy.weather = Weather(latency_s=0.05, refused=0.2, lost=0.1)
    milepost serve --bucket s3://bucket/prefix --set bucket_endpoint={proxy.url}

A *lost* request is carried out, and its answer never comes: the connection is closed instead. Requests are
passed on with the headers that they came with, so signatures stay good.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

# A request that the store does not answer within this time has failed.
STORE_S = 30


@dataclass(frozen=True)
class Weather:
    latency_s: float = 0.0
    """Each request waits up to twice as long."""
    refused: float = 0.0
    """The share of requests that are answered 503 and not carried out."""
    lost: float = 0.0
    """The share of requests that are carried out and not answered."""


FINE = Weather()


class StoreProxy:
    def __init__(self, url: str, seed: int) -> None:
        self.upstream = urlsplit(url)
        self.weather = FINE
        self.is_cut = threading.Event()
        """While it is set no request is answered."""
        self.faults: Counter[str] = Counter()
        self.rewrite: Callable[[str, bytes], bytes] | None = None
        """Changes objects on their way to the reader, by the path of the request."""
        self.spoil: Callable[[str], str] = lambda path: ""
        """What becomes of a GET, by its path: it is `refused` with 503, `cut` off in the middle of its body,
        answered with a `short` body that its headers agree with, or nothing of that."""
        self.random = random.Random(seed)
        proxy = self

        class Handler(_Handler):
            front = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> StoreProxy:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broker that is killed leaves connections behind."""
        self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    front: StoreProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        where = self.front.upstream
        assert where.hostname is not None
        self._store = http.client.HTTPConnection(where.hostname, where.port, timeout=STORE_S)

    def finish(self) -> None:
        self._store.close()
        super().finish()

    def _pass_on(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        front, weather = self.front, self.front.weather
        if front.is_cut.is_set():
            front.faults["cut"] += 1
        while front.is_cut.is_set():
            time.sleep(0.02)  # sleep: as a network that loses everything
        if weather.latency_s:
            time.sleep(front.random.uniform(0, 2 * weather.latency_s))  # sleep: the latency
        luck = front.random.random()
        spoiled = front.spoil(self.path) if self.command == "GET" else ""
        if spoiled:
            front.faults[spoiled] += 1
        if luck < weather.refused or spoiled == "refused":
            front.faults["refused"] += 1
            self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
            return
        try:
            self._store.request(self.command, self.path, data, dict(self.headers.items()))
            found = self._store.getresponse()
            body = found.read()
        except (OSError, http.client.HTTPException):
            self._store.close()
            front.faults["store"] += 1
            self.close_connection = True
            return
        if luck < weather.refused + weather.lost:
            front.faults["lost"] += 1
            self.close_connection = True
            return
        if front.rewrite is not None and self.command == "GET" and found.status == 200:
            body = front.rewrite(self.path, body)
        if spoiled == "short":
            body = body[: len(body) // 2]
        self._answer(found.status, found.getheaders(), body, is_cut=spoiled == "cut")

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, *, is_cut: bool = False
    ) -> None:
        self.send_response_only(status)
        length = str(len(body))
        for name, value in headers:
            if name.lower() == "content-length":
                length = value if self.command == "HEAD" else length  # without a body
            elif name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
        self.wfile.flush()
        if is_cut:
            self.close_connection = True

    do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = _pass_on

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read the brokers' logs."""
