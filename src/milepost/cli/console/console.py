"""`milepost console`: serves the console's pages on this machine for another broker.

    milepost console --url http://broker:8080
    milepost --context staging console --port 8000 --read-only

The pages are those of this version; what they ask for goes on to the broker, with the credentials that the
browser gives: none are added, so that another user of this machine has no more rights by it. Only names and
addresses of this machine are answered, a page of another site may change nothing, and nothing but the routes
that the pages use is passed on. For an Apache Pulsar, which has no such routes, answers are made here from
what it has (`pulsar`).
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import webbrowser
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit

if TYPE_CHECKING:
    from milepost.admin.transport import Origin
    from milepost.cli.console.pulsar import Pulsar
    from milepost.client.connection.endpoint import Endpoint

HOST = "127.0.0.1"
# What the pages ask for. Other paths of a broker stay behind it.
PASSED_ON = re.compile(r"/(?:milepost/v1|admin/v[23])/|/openapi\.json\Z")
# Headers that go on, each way; others are between two neighbours only, or tell where this runs.
ASKED = (
    "accept",
    "authorization",
    "content-type",
    "cache-control",
    "if-none-match",
    "x-milepost-console",
)
ANSWERED = (
    "content-type",
    "content-disposition",
    "etag",
    "x-content-type-options",
    "www-authenticate",
)
BODY_SIZE_MAX = 1024 * 1024
ANSWER_SIZE_MAX = 256 * 1024 * 1024
SAFE = ("GET", "HEAD")
SESSION = "/milepost/v1/session"
READ_ONLY = "the console is read only here (milepost console --read-only)"


@click.command(cls=RemoteCommand, has_output=False)
@click.option("--url", "http_url", metavar="URL", help="The broker's HTTP port.")
@click.option(
    "-p",
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Where the console listens; 0 takes a free port.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option("--read-only", is_flag=True, help="Offer no changes, and pass none on.")
def console(http_url: str | None, port: int, opens: bool, read_only: bool) -> None:
    """Serve the console for a Milepost or an Apache Pulsar on this machine, until Ctrl-C."""
    where = connection()
    if http_url is not None:
        where = replace(where, admin_url=http_url)
    is_pulsar = not _is_milepost(where)
    try:
        server = make_server(where, port, is_pulsar=is_pulsar, read_only=read_only)
    except OSError as error:
        raise CommandFailed(
            f"cannot listen on {HOST}:{port}: {error.strerror}; choose another --port",
            Exit.CONFLICT,
        ) from None
    with server:
        address = f"http://{HOST}:{server.server_port}/console/"
        click.echo(f"Console of {where.http_url}: {address}")
        if is_pulsar:
            click.echo(
                "It is an Apache Pulsar: positions are counted in entries, as far as it tells them."
            )
        if opens:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _is_milepost(where: Endpoint) -> bool:
    """Which of the two the broker is: a Milepost says so in every answer, also when it asks who is there."""
    from milepost.admin.brokers import PRODUCT_HEADER
    from milepost.admin.transport import parse_origins

    broker = Broker(parse_origins(where.http_url)[0], _tls(where), where.timeout_s)
    try:
        return broker.has_header("/admin/v2/brokers/version", PRODUCT_HEADER)
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(f"cannot reach {where.http_url}: {_why(error)}", Exit.CONNECT) from None


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _tls(where: Endpoint) -> ssl.SSLContext | None:
    """Without the operator's certificate, for the same reason that no token is added."""
    from milepost.admin.transport import parse_origins

    if parse_origins(where.http_url)[0].scheme != "https":
        return None
    return replace(where, tls_certificate=None, tls_key=None).tls().context()


def make_server(
    where: Endpoint, port: int, *, is_pulsar: bool = False, read_only: bool = False
) -> ThreadingHTTPServer:
    """A server for the pages of a broker, which listens already; port 0 is any."""
    from milepost.admin.transport import parse_origins

    made = None
    if is_pulsar:
        from milepost.cli.console.pulsar import Pulsar

        made = Pulsar(where, read_only)

    class Handler(_Handler):
        # A list of brokers: the first is asked, as each knows the same.
        broker = Broker(parse_origins(where.http_url)[0], _tls(where), where.timeout_s)
        pulsar = made
        is_read_only = read_only

    return _Server((HOST, port), Handler)


class Broker:
    """Where questions go on to."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self.origin = origin
        self._tls = tls
        self._timeout_s = timeout_s

    def ask(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Its answer; `OSError` or `HTTPException` if there is none."""
        connection = self._connection()
        try:
            connection.request(method, self.origin.prefix + target, body, headers)
            answer = connection.getresponse()
            data = answer.read(ANSWER_SIZE_MAX)
        finally:
            connection.close()
        told = {name: value for name in ANSWERED if (value := answer.getheader(name)) is not None}
        return answer.status, told, data

    def has_header(self, target: str, name: str) -> bool:
        """Whether its answer has that header, a refusal too."""
        connection = self._connection()
        try:
            connection.request("GET", self.origin.prefix + target)
            return connection.getresponse().getheader(name) is not None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        origin = self.origin
        if self._tls is not None:
            return http.client.HTTPSConnection(
                origin.host, origin.port, timeout=self._timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(origin.host, origin.port, timeout=self._timeout_s)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_close(self) -> None:
        super().server_close()
        pulsar = getattr(self.RequestHandlerClass, "pulsar", None)
        if pulsar is not None:
            pulsar.close()


class _Handler(BaseHTTPRequestHandler):
    """Answers a browser. A class of its own for each server names the broker."""

    broker: Broker
    pulsar: Pulsar | None
    is_read_only: bool
    protocol_version = "HTTP/1.1"
    server_version = "milepost"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not self._is_welcome():
            return
        if path in ("/", "/console"):
            self._answer(307, {"location": "console/"}, b"")
        elif path == "/docs":
            self._answer(307, {"location": "console/docs.html"}, b"")
        elif path.startswith("/console/"):
            self._answer_file(path.removeprefix("/console/") or "index.html")
        else:
            self._pass_on(path, None)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        if not self._is_welcome():
            return
        size = self.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > BODY_SIZE_MAX:
            self.close_connection = True
            self._refuse(413, f"a body has a length, up to {BODY_SIZE_MAX} bytes")
            return
        self._pass_on(urlsplit(self.path).path, self.rfile.read(int(size)))

    def _is_welcome(self) -> bool:
        """A page of another site may resolve to this machine, or send requests here: both are refused."""
        host = self.headers.get("host", "").lower()
        name, _, port = host.rpartition(":")
        if name not in ("localhost", HOST) or port != str(self._port()):
            self.close_connection = True
            self._refuse(403, "this is not an address of this console")
            return False
        if not self.path.startswith("/") or self.path.startswith("//"):
            self._refuse(400, "a path begins with one slash")
            return False
        origin = self.headers.get("origin")
        if self.command not in SAFE and origin is not None and urlsplit(origin).netloc != host:
            self.close_connection = True
            self._refuse(403, "a page of another site may not change anything here")
            return False
        return True

    def _port(self) -> int:
        assert isinstance(self.server, ThreadingHTTPServer)
        return self.server.server_port

    def _answer_file(self, path: str) -> None:
        from milepost.rest.console.files import files
        from milepost.rest.console.pages import HEADERS

        found = files().get(path)
        if found is None:
            self._refuse(404, f"the console has no file {path}")
        elif self.headers.get("if-none-match") == found.tag:
            self._answer(304, {**HEADERS, "etag": found.tag}, b"")
        else:
            headers = {**HEADERS, "etag": found.tag, "content-type": found.kind}
            self._answer(200, headers, found.body)

    def _pass_on(self, path: str, body: bytes | None) -> None:
        if not PASSED_ON.match(path) or "/../" in f"{path}/":
            self._refuse(404, f"the console has nothing at {path}")
            return
        if self.is_read_only and self.command not in SAFE:
            self._refuse(403, READ_ONLY)
            return
        if self.pulsar is not None:
            authorization = self.headers.get("authorization", "")
            made = self.pulsar.answer(self.command, self.path, authorization, body)
            if made is not None:
                status, kind, data = made
                self._answer(
                    status, {"content-type": kind, "x-content-type-options": "nosniff"}, data
                )
                return
        asked = {name: value for name in ASKED if (value := self.headers.get(name)) is not None}
        try:
            status, headers, data = self.broker.ask(self.command, self.path, asked, body)
        except (OSError, http.client.HTTPException) as error:
            self._refuse(502, f"{self.broker.origin} does not answer: {_why(error)}")
            return
        if self.is_read_only and path == SESSION and status == 200:
            data = json.dumps({**json.loads(data), "read_only": True}).encode()
        self._answer(status, headers, data)

    def _refuse(self, status: int, reason: str) -> None:
        body = json.dumps({"reason": reason}).encode()
        self._answer(status, {"content-type": "application/json"}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person looks at the page, and addresses name topics and groups."""
