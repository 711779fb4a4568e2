"""ResetHistory: who waits, who has obeyed, and how much is kept."""

from __future__ import annotations

from typing import Any

from milepost.broker.subscription.reset_history import RECORDS_MAX, ResetHistory, ResetRecord


def record(epoch: int, **fields: Any) -> ResetRecord:
    return ResetRecord(
        at_ms=epoch, by="ann", asked="index 0", was=5, to=0, epoch=epoch, redelivered=5, skipped=0,
        **fields,
    )  # fmt: skip


def test_an_empty_history_waits_for_nobody() -> None:
    history = ResetHistory()
    assert (history.last, list(history.waiting), history.obeyed("c")) == (None, [], False)


def test_a_consumer_obeys_once() -> None:
    history = ResetHistory()
    history.add(record(1, waiting=["a", "b"]))
    assert history.obeyed("a")
    assert not history.obeyed("a")
    assert not history.obeyed("stranger")
    assert (history.waiting, history.last and history.last.obeyed) == (["b"], ["a"])


def test_who_has_not_obeyed_one_reset_has_not_obeyed_the_next() -> None:
    history = ResetHistory()
    history.add(record(1, waiting=["a", "b"]))
    history.obeyed("a")
    history.add(record(2, waiting=["a"]))
    assert history.waiting == ["a", "b"]
    assert history.records[0].obeyed == ["a"]


def test_the_newest_are_kept() -> None:
    history = ResetHistory()
    for epoch in range(RECORDS_MAX + 5):
        history.add(record(epoch))
    assert [one.epoch for one in history.records] == list(range(5, RECORDS_MAX + 5))
    assert len(ResetHistory.from_doc(history.to_doc() * 2).records) == RECORDS_MAX


def test_there_and_back() -> None:
    history = ResetHistory()
    history.add(record(1, waiting=["a"]))
    history.obeyed("a")
    history.add(record(2))
    assert ResetHistory.from_doc(history.to_doc()).records == history.records


def test_after_a_restart_nobody_waits() -> None:
    history = ResetHistory()
    history.add(record(1, waiting=["a"]))
    reopened = ResetHistory.from_doc(history.to_doc())
    assert (list(reopened.waiting), reopened.last and reopened.last.obeyed) == ([], ["a"])
