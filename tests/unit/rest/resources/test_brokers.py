"""Health as probes see it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from milepost import __version__
from milepost.broker.broker import Broker
from milepost.broker.monitoring.self_check import SelfCheck
from milepost.errors import DiskFull
from milepost.rest.resources import brokers
from rest.conftest import Ask

HEALTH = "GET /admin/v2/brokers/health"


def test_a_broker_that_is_well_says_ok(ask: Ask) -> None:
    answers = ask(HEALTH, "GET /admin/v2/brokers/ready", "GET /status.html")
    assert [(one.status, one.body) for one in answers] == [(200, b"ok"), (200, b"ok"), (200, b"OK")]
    assert all(one.headers["content-type"].startswith("text/plain") for one in answers)


def test_a_disk_that_says_no_is_503(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(self: SelfCheck) -> None:
        raise DiskFull("no space for 4096 bytes")

    monkeypatch.setattr(SelfCheck, "check", full)
    (broken,) = ask(HEALTH)
    assert (broken.status, broken.reason) == (503, "no space for 4096 bytes")


def test_a_message_that_does_not_come_through_is_503(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(self: SelfCheck) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(SelfCheck, "check", hang)
    monkeypatch.setattr(brokers, "HEALTH_TIMEOUT_S", 0.01)
    (answer,) = ask(HEALTH)
    assert (answer.status, answer.reason) == (503, "no message came through within 0.01 s")


def test_on_the_way_out_it_is_not_ready(ask: Ask) -> None:
    def leave(broker: Broker) -> None:
        broker.is_closing = True

    (answer,) = ask(leave, "GET /admin/v2/brokers/ready")
    assert (answer.status, answer.reason) == (503, "the broker is shutting down")


def test_there_is_one_broker(ask: Ask) -> None:
    answers = ask(
        "GET /admin/v2/brokers",
        "GET /admin/v2/brokers/standalone",
        "GET /admin/v2/brokers/leaderBroker",
        "GET /admin/v2/brokers/version",
        http_port=8080,
    )
    assert [one.status for one in answers] == [200] * 4
    assert answers[0].json == answers[1].json == ["127.0.0.1:8080"]
    assert answers[2].json == {"serviceUrl": "http://127.0.0.1:8080", "brokerId": "127.0.0.1:8080"}
    assert answers[3].body.decode() == __version__
