"""A group is as well as its worst partition, in whatever order the partitions come."""

from __future__ import annotations

from itertools import permutations

import pytest

from milepost.positions.severity import Verdict, is_trouble, severity, worst


def test_from_none_to_most() -> None:
    assert [one.severity for one in Verdict] == list(range(len(Verdict)))
    assert {one for one in Verdict if one.is_trouble} == {
        Verdict.NO_CONSUMER,
        Verdict.STARVED,
        Verdict.STALLED,
        Verdict.BLOCKED_BY_HOLE,
        Verdict.DAMAGED,
    }


@pytest.mark.parametrize(
    ("verdicts", "counts"),
    [
        (("CAUGHT_UP", "NO_CONSUMER"), "NO_CONSUMER"),
        (("CAUGHT_UP", "CONSUMING", "SLOW"), "SLOW"),
        (("STALLED", "DAMAGED", "CAUGHT_UP"), "DAMAGED"),
        (("CAUGHT_UP", "CAUGHT_UP"), "CAUGHT_UP"),
    ],
)
def test_the_worst_counts(verdicts: tuple[str, ...], counts: str) -> None:
    assert {worst(order) for order in permutations(verdicts)} == {counts}


def test_one_of_a_newer_broker_is_looked_at() -> None:
    assert is_trouble("ON_FIRE")
    assert worst(["DAMAGED", "ON_FIRE"]) == "ON_FIRE"
    assert severity("ON_FIRE") > Verdict.DAMAGED.severity
