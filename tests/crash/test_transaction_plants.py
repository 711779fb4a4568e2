"""Bugs planted in transactions, each of which must turn the campaign of their crash images red.

Those that a crash does not show are in `tests/mutations/planted.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from crash.test_transaction_images import failures
from milepost.broker.subscription import pending_acks
from milepost.broker.subscription.ack_journal import AckJournal
from milepost.broker.topic import dedup_state
from milepost.broker.transactions.coordinator import Coordinator, Outcome
from milepost.broker.transactions.topic_transactions import TopicTransactions
from milepost.positions.ranges import IndexRanges
from milepost.storage.store import Store

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]

BUDGET_SEEDS = 12
BUDGET_IMAGES = 30


def objection(*, faults: bool) -> str | None:
    """What the campaign says first."""
    for seed in range(BUDGET_SEEDS):
        try:
            found, _ = failures(seed, faults=faults, count=BUDGET_IMAGES)
        except Exception as error:  # what a plant does to a broker is not foreseen
            return f"{type(error).__name__}: {error}"
        if found:
            return found[0]
    return None


def _pending_acks_not_restored(patch: Patch) -> None:
    patch.setattr(pending_acks, "pend_again", lambda topic: None)


def _commit_applied_twice(patch: Patch) -> None:
    """An end leaves the transaction open, and is not remembered."""
    patch.setattr(Coordinator, "_end", lambda coordinator, least, outcome: None)


def _snapshot_counts_an_end_in_flight(patch: Patch) -> None:
    patch.setattr(Store, "when_unplanned", lambda store, step: step())


def _state_in_place_of_the_end(patch: Patch) -> None:
    """Behind a refusal the state is journaled, without the fact that is still to come."""
    patch.setattr(Store, "fact_to_come", Store.fact)


def _hidden_forgotten(patch: Patch) -> None:
    snapshot = TopicTransactions.snapshot

    def forgets(of_topic: TopicTransactions, *arguments: Any) -> bytes:
        hidden, of_topic.hidden = of_topic.hidden, IndexRanges()
        try:
            return snapshot(of_topic, *arguments)
        finally:
            of_topic.hidden = hidden

    patch.setattr(TopicTransactions, "snapshot", forgets)


def _acks_outside_of_the_end(patch: Patch) -> None:
    """The acks of a committed transaction are true in memory alone."""
    patch.setattr(AckJournal, "fact_to_come", lambda journal, fact, done: None)


def _abort_shows(patch: Patch) -> None:
    ended = TopicTransactions.ended

    def shows(of_topic: TopicTransactions, txn_id: Any, outcome: Outcome, **fields: Any) -> None:
        ended(of_topic, txn_id, Outcome.COMMIT, **fields)

    patch.setattr(TopicTransactions, "ended", shows)


def _sequence_ids_not_read_from_the_log(patch: Patch) -> None:
    """What a producer sends again behind a crash is stored twice, in transactions too."""
    patch.setattr(dedup_state, "_replay", lambda dedup, entry, now: None)


PLANTS: list[tuple[Plant, bool]] = [
    (_pending_acks_not_restored, False),
    (_commit_applied_twice, False),
    (_snapshot_counts_an_end_in_flight, False),
    (_state_in_place_of_the_end, True),
    (_hidden_forgotten, False),
    (_acks_outside_of_the_end, False),
    (_abort_shows, False),
    (_sequence_ids_not_read_from_the_log, False),
]


@pytest.mark.parametrize(("plant", "faults"), PLANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_planted_bug_is_found(
    plant: Plant, faults: bool, monkeypatch: Patch, summary: Callable[[str], None]
) -> None:
    plant(monkeypatch)
    found = objection(faults=faults)
    assert found is not None
    # A plant that does not even run proves nothing.
    assert not re.search("TypeError|AttributeError|NameError", found), found
    summary(found)
