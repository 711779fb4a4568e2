"""Health as probes see it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from milepost.broker.broker import Broker
from milepost.errors import DiskFull
from milepost.rest import brokers
from rest.conftest import Ask

HEALTH = "GET /admin/v2/brokers/health"


def test_a_broker_that_is_well_says_ok(ask: Ask) -> None:
    answers = ask(HEALTH, "GET /admin/v2/brokers/ready", "GET /status.html")
    assert [(one.status, one.body) for one in answers] == [(200, b"ok"), (200, b"ok"), (200, b"OK")]
    assert all(one.headers["content-type"].startswith("text/plain") for one in answers)


def test_a_disk_that_says_no_is_503(ask: Ask) -> None:
    async def full() -> None:
        raise DiskFull("no space for 4096 bytes")

    def break_it(broker: Broker) -> None:
        broker.health = full  # type: ignore[method-assign]

    _, broken = ask(HEALTH, break_it, HEALTH)
    assert (broken.status, broken.reason) == (503, "no space for 4096 bytes")


def test_a_disk_that_does_not_answer_is_503(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang() -> Any:
        await asyncio.Event().wait()

    def break_it(broker: Broker) -> None:
        broker.health = hang  # type: ignore[method-assign]

    monkeypatch.setattr(brokers, "HEALTH_TIMEOUT_S", 0.01)
    (answer,) = ask(break_it, HEALTH)
    assert (answer.status, answer.reason) == (503, "the disk did not answer within 0.01 s")


def test_on_the_way_out_it_is_not_ready(ask: Ask) -> None:
    def leave(broker: Broker) -> None:
        broker.is_closing = True

    (answer,) = ask(leave, "GET /admin/v2/brokers/ready")
    assert (answer.status, answer.reason) == (503, "the broker is shutting down")
