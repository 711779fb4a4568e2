"""HTTP: kept connections, credentials, TLS, redirects, timeouts.

Owns the sockets. It knows no call and no path; what an answer means is the script's business, and a
status that is a refusal is raised as the error it stands for.

    transport = HttpTransport("https://broker:8443", credentials=Credentials(token="eyJ…"))
    transport.exchange(get("/admin/v2/tenants")).strings()
"""

from __future__ import annotations

import base64
import http.client
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from milepost.admin.errors import AdminError, BadAnswer, Unreachable, error_of
from milepost.admin.request import Answer, Request
from milepost.errors import InvalidInput, MissingFile

if TYPE_CHECKING:
    import ssl

REQUEST_TIMEOUT_S = 60.0
REDIRECTS_MAX = 5
IDLE_CONNECTIONS_MAX = 16
ANSWER_SIZE_BYTES_MAX = 256 * 1024 * 1024

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = (301, 302, 307, 308)


@dataclass(frozen=True)
class Credentials:
    """Who asks. A token may be a function, asked again for every request."""

    token: str | Callable[[], str] | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def header(self) -> dict[str, str]:
        if self.token is not None:
            token = self.token if isinstance(self.token, str) else self.token()
            return {"Authorization": f"Bearer {_one_line('token', token.strip())}"}
        if self.user is not None:
            pair = f"{self.user}:{self.password or ''}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}


@dataclass(frozen=True)
class Tls:
    """How a server is trusted, and how this client proves itself. Paths are of PEM files."""

    trust_certs: str | None = None
    certificate: str | None = None
    key: str | None = None
    allow_insecure: bool = False
    verify_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.trust_certs)
        except FileNotFoundError:
            raise MissingFile(
                f"trusted certificates {self.trust_certs}: there is no such file"
            ) from None
        except OSError as error:
            raise InvalidInput(f"trusted certificates {self.trust_certs}: {_why(error)}") from None
        if self.allow_insecure or not self.verify_hostname:
            context.check_hostname = False
        if self.allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except FileNotFoundError:
                raise MissingFile(
                    f"certificate {self.certificate} with key {self.key}: there is no such file"
                ) from None
            except OSError as error:
                raise InvalidInput(
                    f"certificate {self.certificate} with key {self.key}: {_why(error)}"
                ) from None
        return context


@dataclass(frozen=True, slots=True)
class Origin:
    """Where requests go: scheme, host and port, and what stands before every path."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def parse_origins(url: str) -> list[Origin]:
    """The addresses of a service URL; after the first, hosts may follow behind commas."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _PORTS:
        raise InvalidInput(f"admin URL {url!a}: expected http://host:port or https://host:port")
    hosts, slash, path = rest.partition("/")
    origins = []
    for host in hosts.split(","):
        try:
            parts = urlsplit(f"{scheme}://{host}")
            port = parts.port or _PORTS[scheme]
        except ValueError:
            raise InvalidInput(
                f"admin URL {url!a}: {host!a} is no host, or has no usable port"
            ) from None
        if not parts.hostname or "@" in host:
            raise InvalidInput(f"admin URL {url!a}: expected {scheme}://host:port")
        origins.append(Origin(scheme, parts.hostname, port, (slash + path).rstrip("/")))
    return origins


class HttpTransport:
    """Exchanges requests for answers. Threads may share it."""

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        # Tried in order; one that answered is tried first the next time. Invariant: not empty.
        self._origins = parse_origins(url)
        self._credentials = credentials or Credentials()
        self._tls = tls or Tls()
        self._timeout_s = timeout_s
        self._context: ssl.SSLContext | None = None
        # Connections that are not in use. A connection is taken out for an exchange and put back
        # when its answer is read to the end.
        self._idle: dict[Origin, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()

    def exchange(self, request: Request) -> Answer:
        """The answer to a request, after redirects. Refusals and failures raise `AdminError`."""
        failure: AdminError | None = None
        for origin in tuple(self._origins):
            try:
                answer = self._follow(origin, request)
            except Unreachable as error:
                failure = failure or error
                continue
            self._prefer(origin)
            if answer.status >= 400:
                raise error_of(str(request), answer.url, answer.status, answer.body)
            return answer
        assert failure is not None
        raise failure

    def close(self) -> None:
        with self._lock:
            idle = [one for kept in self._idle.values() for one in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _prefer(self, origin: Origin) -> None:
        if self._origins[0] != origin:
            self._origins = [origin, *(one for one in self._origins if one != origin)]

    def _follow(self, origin: Origin, request: Request) -> Answer:
        """One request at one address, and wherever that sends it."""
        target = origin.prefix + request.target
        for _ in range(REDIRECTS_MAX + 1):
            answer = self._send(origin, request, target)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            parts = urlsplit(location)
            if parts.scheme:
                if origin.scheme == "https" and parts.scheme != "https":
                    raise BadAnswer(
                        str(request), str(origin), answer.status, f"sent on to {location}: not TLS"
                    )
                (origin,) = parse_origins(f"{parts.scheme}://{parts.netloc}")
            target = parts.path + (f"?{parts.query}" if parts.query else "")
        raise BadAnswer(str(request), str(origin), answer.status, f"sent on {REDIRECTS_MAX} times")

    def _send(self, origin: Origin, request: Request, target: str) -> Answer:
        headers = {"Accept": "application/json, */*", **self._credentials.header()}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        connection = self._take(origin)
        try:
            connection.request(request.method, target, request.body, headers)
            with connection.getresponse() as response:
                body = response.read(ANSWER_SIZE_BYTES_MAX + 1)
                if response.length and len(body) <= ANSWER_SIZE_BYTES_MAX:
                    # A read with a limit does not raise when the connection ends early.
                    raise http.client.IncompleteRead(body, response.length)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(
                str(request), str(origin), 0, f"cannot reach {origin}: {_why(error)}"
            ) from None
        except BaseException:
            connection.close()
            raise
        if len(body) > ANSWER_SIZE_BYTES_MAX:
            connection.close()
            raise BadAnswer(
                str(request),
                str(origin),
                response.status,
                f"the answer is larger than {ANSWER_SIZE_BYTES_MAX} bytes",
            )
        self._put_back(origin, connection)
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(request, str(origin), response.status, found, body)

    def _take(self, origin: Origin) -> http.client.HTTPConnection:
        with self._lock:
            kept = self._idle.get(origin, [])
            while kept:
                connection = kept.pop()
                if not _was_left(connection):
                    return connection
                connection.close()
        if origin.scheme == "http":
            return http.client.HTTPConnection(origin.host, origin.port, timeout=self._timeout_s)
        if self._context is None:
            self._context = self._tls.context()
        return http.client.HTTPSConnection(
            origin.host, origin.port, timeout=self._timeout_s, context=self._context
        )

    def _put_back(self, origin: Origin, connection: http.client.HTTPConnection) -> None:
        if connection.sock is None:  # the server closes after this answer
            return
        with self._lock:
            kept = self._idle.setdefault(origin, [])
            if len(kept) < IDLE_CONNECTIONS_MAX:
                kept.append(connection)
                return
        connection.close()


def _was_left(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed it. Asked first, because a request that fails on a connection
    which looked alive may have been carried out, and must not be repeated."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _why(error: Exception) -> str:
    """An error of the network in words that an operator knows."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
        return "the connection was closed before an answer"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    if isinstance(error, http.client.HTTPException):
        return "what answers is not HTTP"
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    if reason:
        return f"TLS: {reason}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _one_line(what: str, text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise InvalidInput(f"the {what} has characters that no header may hold")
    return text
