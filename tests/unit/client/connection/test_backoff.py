"""Waits grow, to a limit, and begin anew."""

from __future__ import annotations

from random import Random

import pytest

from milepost.client.connection.backoff import Backoff


def test_waits_double_up_to_a_limit_less_a_random_tenth() -> None:
    backoff = Backoff(Random(1), first_s=1.0, max_s=5.0)
    for full in (1.0, 2.0, 4.0, 5.0, 5.0):
        wait = backoff.next_s()
        assert full * 0.9 <= wait <= full


def test_success_begins_anew() -> None:
    backoff = Backoff(Random(1))
    for _ in range(20):
        assert backoff.next_s() <= 60.0
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.1, rel=0.1)
