"""A status is an error with a type; the reason is the server's own."""

from __future__ import annotations

import pickle

import pytest

from milepost import errors as shared
from milepost.admin import errors
from milepost.admin.errors import AdminError, error_of


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.Missing),
        (405, errors.Refused),
        (406, errors.Refused),
        (409, errors.Conflict),
        (412, errors.PreconditionFailed),
        (500, errors.ServerFault),
        (503, errors.ServerFault),
        (418, AdminError),
    ],
)
def test_a_status_is_a_type(status: int, kind: type[AdminError]) -> None:
    error = error_of("GET /x", "http://h:1", status, b'{"reason": "because"}')
    assert type(error) is kind
    assert (error.status, error.reason, error.url) == (status, "because", "http://h:1")
    assert str(error) == f"because ({status}, GET /x)"


def test_what_is_missing_is_a_not_found_like_any_other() -> None:
    missing = error_of("GET /x", "u", 404, b"")
    assert isinstance(missing, shared.NotFound)
    assert isinstance(missing, shared.MilepostError)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"reason": "a", "hint": "b"}', "a; b"),
        (b"plain words", "plain words"),
        (b"<html><body>Jetty</body></html>", "status 409 without a reason"),
        (b"", "status 409 without a reason"),
        (b"{}", "status 409 without a reason"),
        (b"\xff", "\ufffd"),
        (b"[" * 100_000, ("[" * 500)),
    ],
)
def test_the_reason_is_the_servers_own_words(body: bytes, reason: str) -> None:
    assert error_of("GET /x", "u", 409, body).reason == reason


def test_an_error_survives_pickling() -> None:
    error = error_of("GET /x", "u", 404, b"words")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.status, again.reason) == (errors.Missing, 404, "words")
