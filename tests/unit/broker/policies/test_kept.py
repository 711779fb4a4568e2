"""Policies that nothing depends on: they say so, and are set and answered like the others."""

from __future__ import annotations

from milepost.broker.policies.elsewhere import ELSEWHERE
from milepost.broker.policies.kept import KEPT
from milepost.broker.policies.table import TABLE


def test_they_are_all_of_those_that_do_not_act() -> None:
    assert [one for one in TABLE if not one.acts] == [*KEPT, *ELSEWHERE]


def test_the_original_asks_for_its_brokers_own_rate_with_less_than_none() -> None:
    (persistence,) = [one for one in KEPT if one.name == "persistence"]
    value = persistence.shape.read({"managedLedgerMaxMarkDeleteRate": -1}, "persistence")
    assert value["managedLedgerMaxMarkDeleteRate"] == -1.0
