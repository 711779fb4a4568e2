"""The states of transactions as bytes: what a snapshot and facts bring back is what there was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.transactions.coordinator import ENDED_MAX, Coordinator, Outcome
from milepost.broker.transactions.topic_transactions import TopicTransactions
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions import TxnId
from milepost.positions.ranges import IndexRanges

ONE, TWO = TxnId(0, 1), TxnId(0, 2)


def known(coordinator: Coordinator) -> Any:
    return (
        {
            least: (
                txn.timeout_ms,
                txn.opened_ms,
                txn.owner,
                sorted(txn.topics),
                sorted(txn.subscriptions),
            )
            for least, txn in coordinator.open.items()
        },
        coordinator._ended,
        coordinator._next,
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(["new", "topics", "subscriptions", "end", "snapshot"]),
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
        if kind == "new":
            _, fact = coordinator.new(
                timeout_ms=1000 + number, now_ms=50, now_s=1.0, owner=text or None
            )
            facts.append(fact)
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
                facts.append(coordinator.end_fact(txn, outcome))
                coordinator.ended(txn, outcome)
    restored = Coordinator.restore(data, facts, now_ms=50, now_s=1.0)
    assert known(restored) == known(coordinator)
    assert restored.snapshot() == coordinator.snapshot()


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


ranges = st.lists(
    st.integers(0, 300).flatmap(
        lambda first: st.tuples(st.just(first), st.integers(first + 1, 310))
    ),
    min_size=1,
    max_size=4,
)
acts = st.lists(
    st.tuples(st.sampled_from(["wrote", "pend", "commit", "abort"]), st.integers(1, 4), ranges),
    max_size=30,
)


@given(acts)
def test_the_transactions_of_a_topic_come_back(acts: Any) -> None:
    topic = TopicTransactions()
    data, facts = topic.snapshot(0), []
    wrote: list[Any] = []
    end_index = 0
    ids = {number: number for number in range(1, 5)}
    for kind, number, some in acts:
        txn_id = TxnId(0, ids[number])
        if kind == "wrote":
            first, end_index = end_index, end_index + len(some)
            wrote.append((txn_id, first, end_index))
            topic.wrote(*wrote[-1])
        elif kind == "pend":
            facts.append(topic.pend(txn_id, 7, 2, list(IndexRanges(some))))
        else:
            outcome = Outcome.COMMIT if kind == "commit" else Outcome.ABORT
            facts.append(topic.end_fact(txn_id, outcome, marker=end_index))
            topic.ended(txn_id, outcome, marker=end_index)
            end_index += 1
            ids[number] += 10  # its entries lie before its end: what comes later is another's
    restored, unread = TopicTransactions.restore(data)
    assert unread == []
    for one in wrote:
        restored.wrote(*one)
    for fact in facts:
        restored.replay(fact)
    assert restored.snapshot(end_index) == topic.snapshot(end_index)
    assert restored.visible_end(end_index) == topic.visible_end(end_index)


def test_facts_wait_for_the_entries_before_them() -> None:
    topic = TopicTransactions()
    fact = topic.end_fact(ONE, Outcome.ABORT, marker=-1)
    restored, unread = TopicTransactions.restore(topic.snapshot(4, [fact, fact]))
    assert unread == [fact, fact]
    assert restored.scanned_end == 4


@pytest.mark.parametrize("of_topic", [False, True])
def test_bytes_that_are_none(of_topic: bool) -> None:
    coordinator = Coordinator()
    coordinator.new(timeout_ms=5, now_ms=6, now_s=0, owner="me")
    topic = TopicTransactions()
    topic.wrote(TWO, 3, 9)
    whole = topic.snapshot(9) if of_topic else coordinator.snapshot()

    def restore(data: bytes) -> None:
        if of_topic:
            TopicTransactions.restore(data)
        else:
            Coordinator.restore(data, [], 0, 0)

    restore(whole)
    with pytest.raises(UnknownFormat):
        restore(b"\x09" + whole[1:])
    for cut in range(len(whole)):
        with pytest.raises(CorruptData):
            restore(whole[:cut])
    with pytest.raises(CorruptData):
        restore(whole + b"\x00")
