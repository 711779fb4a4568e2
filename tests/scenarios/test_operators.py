"""Unloads, policies, kills and a bad disk against everything that clients do; and mistakes that are found."""

from __future__ import annotations

from typing import Any

import pytest
from stage.counts import campaign_count

from milepost.broker.operations.policy_enforcement import PolicyEnforcement
from milepost.broker.topic.topic import Topic
from scenarios.operators import first_caught, run_seed

SEEDS = campaign_count("MILEPOST_OPERATORS", 40, 3_000)
BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_interleaving_loses_anything_or_keeps_a_topic_shut(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        run_seed(seed)


# Mistakes, planted one at a time.


def _plant_late_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was being made when its topic was closed is opened all the same."""
    monkeypatch.setattr(Topic, "check_open", lambda topic: None)


def _plant_late_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic is closed while its deduplication is being switched."""

    async def settled(policies: PolicyEnforcement, topic: Topic) -> None:
        pass

    monkeypatch.setattr(PolicyEnforcement, "settled", settled)


PLANTED: Any = [
    _plant_late_subscriptions,
    # One interleaving in several hundred meets it.
    pytest.param(_plant_late_switches, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_mistake_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert first_caught(2000) is not None
