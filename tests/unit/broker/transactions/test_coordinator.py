"""The coordinator as bytes: what a snapshot and facts bring back is what there was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.transactions.coordinator import ENDED_MAX, Coordinator, Outcome, Transaction
from milepost.broker.transactions.series import Series
from milepost.errors import CorruptData, TransactionNotFound, UnknownFormat
from milepost.positions import TxnId


def known(coordinator: Coordinator) -> Any:
    return (
        {
            least: (
                txn.timeout_ms,
                txn.opened_ms,
                txn.owner,
                sorted(txn.topics),
                sorted(txn.subscriptions),
                txn.series,
            )
            for least, txn in coordinator.open.items()
        },
        coordinator._ended,
        coordinator._owners,
        coordinator._next,
        coordinator.untold,
        coordinator.series.last,
        # A run without open transactions is remembered by the process alone, to refuse it sooner.
        {
            key: {name: run for name, run in runs.items() if run.open}
            for key, runs in coordinator.series._runs.items()
        },
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "new",
                "new of series",
                "topics",
                "subscriptions",
                "end",
                "end to tell",
                "told",
                "let go",
                "snapshot",
            ]
        ),
        st.integers(0, 5),
        st.sampled_from(["a", "b", "ü/é", ""]),
    ),
    max_size=40,
)


@given(steps)
def test_a_coordinator_comes_back(steps: list[tuple[str, int, str]]) -> None:
    coordinator = Coordinator()
    data, facts = coordinator.snapshot(), []
    for kind, number, text in steps:
        txns = list(coordinator.open.values())
        if kind.startswith("new"):
            series = Series(f"q{text}", f"r{number}", number or None)
            _, fact = coordinator.new(
                timeout_ms=1000 + number,
                now_ms=50,
                now_s=1.0,
                owner=text or None,
                series=series if kind == "new of series" else None,
            )
            facts.append(fact)
        elif kind == "told":
            if coordinator.untold:
                facts.append(coordinator.told(next(iter(coordinator.untold))))
        elif kind == "let go":
            facts += filter(None, [coordinator.let_go([(text, ""), (text, f"s{number}")])])
        elif kind == "snapshot":
            data, facts = coordinator.snapshot(), []
        elif txns:
            txn = txns[number % len(txns)]
            if kind == "topics":
                facts.append(coordinator.add_topics(txn, [text, f"{text}{number}"]))
            elif kind == "subscriptions":
                facts.append(coordinator.add_subscriptions(txn, [(text, f"s{number}")]))
            else:
                outcome = Outcome(number % 2)
                shards = range(1, 2 + number) if kind == "end to tell" else ()
                facts.append(coordinator.end_fact(txn.txn_id.least, outcome, shards))
                coordinator.ended(txn, outcome, shards)
    restored = Coordinator.restore(data, facts, now_ms=50, now_s=1.0)
    assert known(restored) == known(coordinator)
    assert restored.snapshot() == coordinator.snapshot()
    for one in (coordinator, restored):
        for txn in one.open.values():
            run = {txn.txn_id.least}
            if txn.series is not None:
                run.update(one.series.of_run(txn.owner or "", txn.series))
            assert one.parts_of(txn) == sum(one.open[least].size for least in run)


class _Looked(dict[int, Transaction]):
    """Counts how often something is looked up in it."""

    count = 0

    def __getitem__(self, least: int) -> Transaction:
        self.count += 1
        return super().__getitem__(least)


def test_the_parts_of_a_run_are_not_counted_anew_for_each_that_is_added() -> None:
    coordinator = Coordinator()
    series = Series("q", "r", 1)
    for number in range(100):
        txn, _ = coordinator.new(timeout_ms=9, now_ms=0, now_s=0, owner=None, series=series)
        coordinator.add_topics(txn, [f"t{number}", "t"])
    coordinator.take_topics(txn, ["t", "never was"])
    coordinator.never_opened(coordinator.open[1])
    coordinator.open = looked = _Looked(coordinator.open)
    assert coordinator.parts_of(txn) == 2 * 98 + 1
    assert not looked.count


@pytest.mark.parametrize(("later_ms", "left_s"), [(0, 5), (2000, 3), (9000, 0), (-4000, 5)])
def test_what_is_left_of_its_time(later_ms: int, left_s: float) -> None:
    coordinator = Coordinator()
    _, fact = coordinator.new(timeout_ms=5000, now_ms=100_000, now_s=1.0, owner=None)
    begun = Coordinator().snapshot()
    restored = Coordinator.restore(begun, [fact], now_ms=100_000 + later_ms, now_s=70.0)
    assert restored.open[1].deadline_s == 70.0 + left_s


def test_outcomes_are_forgotten_oldest_first() -> None:
    coordinator = Coordinator()
    for _ in range(ENDED_MAX + 1):
        txn, _ = coordinator.new(timeout_ms=1, now_ms=0, now_s=0, owner=None)
        coordinator.ended(txn, Outcome.COMMIT)
    assert coordinator.outcome_of(TxnId(0, 1)) is None
    assert coordinator.outcome_of(TxnId(0, 2)) is Outcome.COMMIT


def test_outcomes_of_those_without_a_part_here_are_forgotten_too() -> None:
    book = Coordinator(5)
    for least in range(1, ENDED_MAX + 2):
        book.remember(least, Outcome.COMMIT)
    assert book.outcome_of(TxnId(5, 1)) is None
    assert book.outcome_of(TxnId(5, 2)) is Outcome.COMMIT
    facts = [Coordinator.end_fact(least, Outcome.ABORT) for least in range(1, ENDED_MAX + 2)]
    restored = Coordinator.restore(Coordinator(5).snapshot(), facts, 0, 0, 5)
    assert restored.outcome_of(TxnId(5, 1)) is None
    assert restored.outcome_of(TxnId(5, 2)) is Outcome.ABORT


def test_an_end_that_others_have_to_be_told_is_remembered_until_they_are() -> None:
    coordinator = Coordinator(3)
    txns = [coordinator.new(timeout_ms=1, now_ms=0, now_s=0, owner=None)[0] for _ in range(2)]
    coordinator.ended(txns[0], Outcome.COMMIT, [1, 2])
    for _ in range(ENDED_MAX + 1):
        txn, _ = coordinator.new(timeout_ms=1, now_ms=0, now_s=0, owner=None)
        coordinator.ended(txn, Outcome.ABORT)
    assert coordinator.outcome_of(TxnId(3, 1)) is Outcome.COMMIT
    coordinator.told(1)
    assert coordinator.outcome_of(TxnId(3, 1)) is None


def test_of_another_coordinator_it_knows_what_has_a_part_here() -> None:
    coordinator = Coordinator(3)
    book = coordinator.guests[5] = Coordinator(5)
    txn, fact = book.admit(7, timeout_ms=9, now_ms=0, now_s=0, owner="me")
    book.add_topics(txn, ["t"])
    assert coordinator.find(TxnId(5, 7)) is txn
    coordinator.check_send(TxnId(5, 7), "t", "me")
    with pytest.raises(TransactionNotFound):
        coordinator.check_send(TxnId(5, 7), "t", "you")
    for foreign in (TxnId(3, 7), TxnId(4, 7)):
        with pytest.raises(TransactionNotFound):
            coordinator.check_send(foreign, "t", "me")
    restored = Coordinator.restore(Coordinator(5).snapshot(), [fact], 0, 0, 5)
    assert restored.open[7].txn_id == TxnId(5, 7)


def test_bytes_that_are_none() -> None:
    coordinator = Coordinator()
    coordinator.new(timeout_ms=5, now_ms=6, now_s=0, owner="me")
    whole = coordinator.snapshot()

    def restore(data: bytes) -> None:
        Coordinator.restore(data, [], 0, 0)

    restore(whole)
    with pytest.raises(UnknownFormat):
        restore(b"\x09" + whole[1:])
    for cut in range(len(whole)):
        with pytest.raises(CorruptData):
            restore(whole[:cut])
    with pytest.raises(CorruptData):
        restore(whole + b"\x00")
