"""Faults: which call fails is a matter of plan, not of luck."""

from __future__ import annotations

import errno

import pytest

from milepost.testing.faults import Call, Faults


def failing(faults: Faults, *calls: Call, path: str = "a") -> list[int]:
    """Which of these calls fail, counted from 1."""
    return [number for number, call in enumerate(calls, 1) if faults.due(call, path) is not None]


def test_the_nth_call_fails_once() -> None:
    faults = Faults()
    faults.fail("sync", 2)
    assert failing(faults, "sync", "append", "sync", "sync", "sync") == [3]
    assert faults.fired == ["sync a: EIO"]
    assert faults.calls == {"sync": 4, "append": 1}


def test_from_the_nth_call_on_all_fail() -> None:
    faults = Faults()
    faults.fail("append", 2, error=errno.ENOSPC, forever=True)
    assert failing(faults, "append", "append", "sync", "append") == [2, 4]
    assert faults.fired == ["append a: ENOSPC"] * 2


def test_any_counts_every_call() -> None:
    faults = Faults()
    faults.fail("any", 3)
    assert failing(faults, "create", "append", "sync", "read") == [3]


def test_only_paths_under_a_prefix_count() -> None:
    faults = Faults()
    faults.fail("sync", 1, under="journal/")
    assert faults.due("sync", "ledgers/1") is None
    assert faults.due("sync", "journal/1") is not None


def test_two_plans_count_the_same_calls() -> None:
    faults = Faults()
    faults.fail("sync", 1)
    faults.fail("sync", 3)
    assert failing(faults, "sync", "sync", "sync", "sync") == [1, 3]


def test_when_two_plans_meet_the_first_one_speaks() -> None:
    faults = Faults()
    faults.fail("sync", error=errno.EIO)
    faults.fail("any", error=errno.ENOSPC)
    assert failing(faults, "sync", "sync") == [1]
    assert faults.fired == ["sync a: EIO"]


def test_healing_forgets_the_plan_and_keeps_the_record() -> None:
    faults = Faults()
    faults.fail("sync", forever=True)
    faults.fail_randomly(1.0, seed=1)
    assert failing(faults, "sync", "read") == [1, 2]
    faults.heal()
    assert failing(faults, "sync", "read") == []
    assert len(faults.fired) == 2


def test_a_random_share_is_reproducible() -> None:
    def run(seed: int) -> list[str]:
        faults = Faults()
        faults.fail_randomly(0.1, seed)
        calls: list[Call] = ["sync", "append"] * 1_000
        failing(faults, *calls)
        return faults.fired

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert 100 < len(run(1)) < 300  # 200 expected, standard deviation 13
    assert {line.rpartition(" ")[2] for line in run(1)} == {"EIO", "ENOSPC"}


def test_the_error_names_the_path() -> None:
    faults = Faults()
    faults.fail("rename", error=errno.EACCES)
    fault = faults.due("rename", "x.new")
    assert fault is not None
    error = fault.os_error("x.new")
    assert isinstance(error, PermissionError)
    assert error.filename == "x.new"


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Faults().fail_randomly(share, 1)


def test_there_is_no_call_zero() -> None:
    with pytest.raises(ValueError, match="got 0"):
        Faults().fail("sync", 0)
