"""What every request passes: limits on paths and bodies, HEAD, and the last resort."""

from __future__ import annotations

import logging

import pytest

from milepost.broker.broker import Broker
from milepost.rest.edge import BODY_SIZE_MAX
from rest.conftest import Ask, Request

PARTITIONS = "/admin/v2/persistent/public/default/orders/partitions"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/lookup/v2/topic/persistent/public/default/%FF", "the path is not UTF-8"),
        ("/lookup/v2/topic/persistent/public/default/%00", "the path has a control character"),
        ("/status.html%0a", "the path has a control character"),
        ("/" + "x" * 8192, "the path is longer than 8192 bytes"),
    ],
)
def test_a_path_that_is_none_is_400(ask: Ask, path: str, reason: str) -> None:
    (answer,) = ask(f"GET {path}")
    assert (answer.status, answer.reason) == (400, reason)


def test_a_large_body_is_413_however_it_comes(ask: Ask) -> None:
    whole = Request("PUT", PARTITIONS, b"1" * (BODY_SIZE_MAX + 1))
    parts = Request("PUT", PARTITIONS, [b" " * 65536] * 17)
    for answer in ask(whole, parts):
        assert answer.status == 413
        assert "larger than 1048576 bytes" in answer.reason


def test_head_is_get(ask: Ask) -> None:
    """The server leaves the body out; the application says the same as for GET."""
    head, get = ask("HEAD /status.html", "GET /status.html")
    assert head == get


def test_what_nobody_foresaw_is_500_and_logged(ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(*_: object, **__: object) -> int:
        raise KeyError("a secret")

    def break_it(broker: Broker) -> None:
        broker.partitions_of = fail  # type: ignore[method-assign]

    with caplog.at_level(logging.ERROR):
        answer, after = ask(break_it, f"GET {PARTITIONS}", "GET /status.html")
    assert (answer.status, answer.reason) == (500, "an internal error; the broker's log has it")
    assert after.status == 200
    (record,) = [one for one in caplog.records if one.name == "milepost.rest.edge"]
    assert record.getMessage() == f"GET {PARTITIONS} failed"
    assert record.exc_info is not None
