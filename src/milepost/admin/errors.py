"""The exceptions of calls, with the server's status and reason.

    AdminError                  any of these; `status`, `reason`, `request`, `url`
    ├── Unreachable             no answer: refused, unknown host, TLS, time out; status 0
    ├── BadAnswer               an answer that is not what the call promises
    ├── InvalidRequest          400, 413, 415, 422; also an InvalidInput
    ├── Unauthorized            401: no credentials, or none that are accepted
    ├── Forbidden               403: known, and without the right
    ├── Missing                 404; also a NotFound
    ├── Refused                 405, 406; also a NotAllowed
    ├── Conflict                409: it exists, or another client has it
    ├── PreconditionFailed      412: not in its present state; also milepost.errors' own
    └── ServerFault             5xx

What has a meaning in `milepost.errors` is that error too, so that one `except NotFound` serves the
admin client, the messaging client and the broker alike. Nothing here knows a socket.
"""

from __future__ import annotations

import json

from milepost import errors

REASON_LENGTH_MAX = 500


class AdminError(errors.MilepostError):
    """A call that did not succeed. The text says what was asked, of whom, and why not."""

    def __init__(self, request: str, url: str, status: int, reason: str) -> None:
        super().__init__(request, url, status, reason)  # all of it, so that it survives pickling
        # Method and path, as "GET /admin/v2/tenants".
        self.request = request
        # The service that was asked, without credentials.
        self.url = url
        # The HTTP status; 0 if there was no answer.
        self.status = status
        # The server's own words, or why there are none.
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} ({self.status}, {self.request})" if self.status else self.reason


class Unreachable(AdminError):
    """No answer from any address of the service."""


class BadAnswer(AdminError):
    """Understood by neither side: another kind of server, or a newer one."""


class InvalidRequest(AdminError, errors.InvalidInput):
    pass


class Unauthorized(AdminError):
    pass


class Forbidden(AdminError):
    pass


class Missing(AdminError, errors.NotFound):
    pass


class Refused(AdminError, errors.NotAllowed):
    pass


class Conflict(AdminError):
    pass


class PreconditionFailed(AdminError, errors.PreconditionFailed):
    pass


class ServerFault(AdminError):
    pass


_KINDS: dict[int, type[AdminError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: Missing,
    405: Refused,
    406: Refused,
    409: Conflict,
    412: PreconditionFailed,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
}


def error_of(request: str, url: str, status: int, body: bytes) -> AdminError:
    """The error that an answer with this status stands for."""
    kind = _KINDS.get(status, ServerFault if status >= 500 else AdminError)
    return kind(request, url, status, _reason(body) or f"status {status} without a reason")


def _reason(body: bytes) -> str:
    """The server's words: `{"reason": …}`, or plain text; a page of HTML says nothing useful."""
    text = body.decode("utf-8", "replace").strip()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith("<") else text[:REASON_LENGTH_MAX]
    if isinstance(document, dict):
        words = [document.get("reason"), document.get("hint")]
        text = "; ".join(str(word) for word in words if word)
    return text[:REASON_LENGTH_MAX]
