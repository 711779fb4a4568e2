"""Mistakes, planted one at a time: the first seeds must find every one of them.

`make test` plants every fourth, `make campaign` all.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from stage.summaries import KEY as SUMMARY

from milepost.testing import MemoryFiles
from simulation.plants import BUGS, Bug
from simulation.world import hurried, run_seed

BUDGET_SEEDS = 2000
PLANTED = BUGS if os.environ.get("MILEPOST_CAMPAIGN") == "long" else BUGS[::4]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def first_caught(**options: Callable[[], MemoryFiles]) -> tuple[int, str] | None:
    """The first seed that finds something wrong, and what."""
    with hurried():
        for seed in range(BUDGET_SEEDS):
            try:
                run_seed(seed, **{name: make() for name, make in options.items()})
            except AssertionError as error:
                return seed, str(error)
    return None


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(
    bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    bug.plant(monkeypatch)
    caught = first_caught()
    assert caught is not None, f"went unnoticed: {bug.name}"
    seed, objection = caught
    # A plant that does not even run proves nothing.
    assert not any(name in objection for name in ("TypeError", "NameError", "AttributeError")), (
        objection
    )
    record_property(SUMMARY, f"seed {seed}: {objection}")


@pytest.mark.parametrize("lie", ["sync_lies", "sync_dir_lies"])
def test_a_disk_that_lies_is_found(
    lie: str, record_property: Callable[[str, object], None]
) -> None:
    caught = first_caught(files=lambda: MemoryFiles(**{lie: True}))
    assert caught is not None
    record_property(SUMMARY, f"seed {caught[0]}: {caught[1]}")
