"""The transactions of a topic as bytes: what a snapshot, entries and facts bring back is what there was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.transactions.coordinator import Outcome
from milepost.broker.transactions.topic_transactions import TopicTransactions
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions import TxnId
from milepost.positions.ranges import IndexRanges

ONE, TWO = TxnId(0, 1), TxnId(0, 2)

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


def test_bytes_that_are_none() -> None:
    topic = TopicTransactions()
    topic.wrote(TWO, 3, 9)
    whole, restore = topic.snapshot(9), TopicTransactions.restore
    restore(whole)
    with pytest.raises(UnknownFormat):
        restore(b"\x09" + whole[1:])
    for cut in range(len(whole)):
        with pytest.raises(CorruptData):
            restore(whole[:cut])
    with pytest.raises(CorruptData):
        restore(whole + b"\x00")


def test_what_holds_back_is_the_first_that_a_truncation_leaves() -> None:
    """The transaction that came first has lost its beginning, and another one is before it now."""
    topic = TopicTransactions()
    topic.wrote(ONE, 0, 2)
    topic.wrote(TWO, 2, 4)
    topic.wrote(ONE, 4, 6)
    topic.trim(2)
    assert (topic.visible_end(6), topic.holds_back()) == (2, TWO)
    restored, _ = TopicTransactions.restore(topic.snapshot(6))
    assert restored.visible_end(6) == 2
    topic.ended(TWO, Outcome.COMMIT)
    assert topic.visible_end(6) == 4
