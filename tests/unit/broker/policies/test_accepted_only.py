"""Policies that nothing depends on: they say so, and are set and answered like the others."""

from __future__ import annotations

from milepost.broker.policies.accepted_only import NOT_BUILT, SINGLE_PROCESS
from milepost.broker.policies.table import TABLE


def test_they_are_all_of_those_that_do_not_act() -> None:
    assert [one for one in TABLE if not one.acts] == [*SINGLE_PROCESS, *NOT_BUILT]


def test_the_original_asks_for_its_brokers_own_rate_with_less_than_none() -> None:
    (persistence,) = [one for one in SINGLE_PROCESS if one.name == "persistence"]
    value = persistence.shape.read({"managedLedgerMaxMarkDeleteRate": -1}, "persistence")
    assert value["managedLedgerMaxMarkDeleteRate"] == -1.0
