"""The history of a cluster's clients is completed by its last scan, and shows an owner that was fenced."""

from __future__ import annotations

from collections import Counter

from compat.cluster_load import resolved

from milepost.testing.checker import EventHistory, judge


def anomalies_of(receipts: list[list[int]]) -> Counter[str]:
    """Of messages published one behind the other, whose receipts were these; all are stored in this order."""
    history = EventHistory()
    history.note("start")
    indexes = {f"m{index}": index for index in range(len(receipts))}
    for name, place in zip(indexes, receipts, strict=True):
        asked = history.invoke("publish", topic="t", message=name, by=name)
        history.ok(asked, id=place)
        history.note("receive", topic="t", sub="s", by="c", message=name, id=place)
    return judge(resolved(history.lines(), {"t": indexes})).found


def test_an_owner_that_answers_behind_its_successor_is_seen() -> None:
    assert not anomalies_of([[1, 0, -1], [1, 1, -1], [2, 0, -1], [2, 1, -1]])
    found = anomalies_of([[1, 0, -1], [2, 0, -1], [1, 1, -1]])
    assert found["split-brain"] == 1, found
    found = anomalies_of([[2, 0, -1], [1, 0, -1], [2, 1, -1]])
    assert found["split-brain"] >= 1, found


def test_a_message_without_a_scan_keeps_its_receipt() -> None:
    history = EventHistory()
    history.note("start")
    history.ok(history.invoke("publish", topic="t", message="m", by="p"), id=[1, 0, -1])
    assert [*resolved(history.lines(), {})] == [*history.lines()]
