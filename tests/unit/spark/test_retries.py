"""Patience: tried again while the broker is away, and not for other errors."""

from __future__ import annotations

import pytest

from milepost.errors import ConnectError, NotAllowed, ProducerBusy, ServiceNotReady
from milepost.spark import retries
from milepost.spark.retries import patiently
from milepost.testing import ManualClock


def test_an_attempt_is_repeated_until_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(retries.time, "sleep", pauses.append)
    left = [ConnectError("away"), ConnectError("away")]

    def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    assert patiently(10, attempt) == "done"
    assert pauses == [0.05, 0.1]


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = ManualClock(), list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(seconds)

    monkeypatch.setattr(retries.time, "sleep", sleep)

    def attempt() -> None:
        raise ConnectError("away")

    with pytest.raises(ConnectError):
        patiently(5, attempt, clock=clock)
    assert 5 <= sum(pauses) < 8
    assert max(pauses) == retries.RETRY_MAX_S


def test_what_attempts_take_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, attempts = ManualClock(), list[int]()
    monkeypatch.setattr(retries.time, "sleep", clock.advance)

    def attempt() -> None:
        attempts.append(1)
        clock.advance(10)
        raise ServiceNotReady("nothing came for 10 s")

    with pytest.raises(ServiceNotReady):
        patiently(30, attempt, clock=clock)
    assert len(attempts) == 3


def test_other_errors_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt() -> None:
        raise NotAllowed("no")

    with pytest.raises(NotAllowed):
        patiently(5, attempt)


def test_what_is_awaited_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries.time, "sleep", lambda _: None)
    left: list[Exception] = [ProducerBusy("it dies soon"), ConnectError("away")]

    def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    assert patiently(10, attempt, (*retries.AWAY, ProducerBusy)) == "done"
