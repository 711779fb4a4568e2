"""How often one consumer may come back."""

from __future__ import annotations

import pytest

from milepost.broker.limits import subscribe_rate
from milepost.broker.limits.subscribe_rate import SubscribeGate
from milepost.broker.policies.effective import Rate
from milepost.testing.clock import ManualClock


def test_each_consumer_may_come_so_often() -> None:
    clock = ManualClock()
    gate = SubscribeGate(Rate(2, 0, 30), clock.monotonic)
    assert [gate.admits("a") for _ in range(3)] == [True, True, False]
    assert gate.admits("b")
    clock.advance(29)
    assert not gate.admits("a")
    clock.advance(1)
    assert [gate.admits("a") for _ in range(3)] == [True, True, False]


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribe_rate, "CONSUMERS_MAX", 2)
    gate = SubscribeGate(Rate(1, 0, 30), ManualClock().monotonic)
    assert [gate.admits(name) for name in "abca"] == [True, True, True, True]
