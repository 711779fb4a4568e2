"""Simulated brokers by the seed: none breaks a promise, a seed repeats itself, planted mistakes are found."""

from __future__ import annotations

import os
from typing import Any

import pytest

from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.dedup import Dedup
from milepost.testing import MemoryFiles
from scenarios.simulation import first_caught, run_seed

SEEDS = 5000 if os.environ.get("MILEPOST_CAMPAIGN") == "long" else 80
BLOCKS = 4


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_seed_breaks_a_promise(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        run_seed(seed)


def test_a_seed_repeats_itself() -> None:
    hashes = [run_seed(seed) for seed in range(5)]
    assert hashes == [run_seed(seed) for seed in range(5)]
    assert len(set(hashes)) == len(hashes)


# Mistakes, planted one at a time.


def test_a_disk_that_lies_is_found() -> None:
    assert first_caught(range(40), files=lambda: MemoryFiles(sync_lies=True)) is not None


def _plant_resets_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset is answered before it is on disk."""
    real = Subscription.seek

    def seek(subscription: Subscription, index: int, done: Any, **options: Any) -> Any:
        done(None)
        return real(subscription, index, lambda error: None, **options)

    monkeypatch.setattr(Subscription, "seek", seek)


def _plant_forgetful_deduplication(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a producer has sent is forgotten with the process."""
    monkeypatch.setattr(Dedup, "restore", lambda dedup, *arguments, **options: None)
    monkeypatch.setattr(Dedup, "replay", lambda dedup, *arguments, **options: None)


@pytest.mark.parametrize("plant", [_plant_resets_from_memory, _plant_forgetful_deduplication])
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, plant: Any) -> None:
    plant(monkeypatch)
    assert first_caught(range(150)) is not None, f"went unnoticed: {plant.__doc__}"
