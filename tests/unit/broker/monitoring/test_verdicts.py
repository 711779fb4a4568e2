"""Verdicts: each from the facts that make it, and none for a topic that is idle."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.metrics.samples import NOTHING_KNOWN, Recent
from milepost.broker.monitoring.verdicts import Asking, Hole, Verdict, judge
from milepost.cursor.outcomes import Counts

HOLE = Hole(3, 4, "1:3:-1", 900, "c-1", 2)
BUSY = Asking("c-1", permits=0, inflight=5, is_blocked=False, is_writable=True)
EAGER = Asking("c-2", permits=9, inflight=0, is_blocked=False, is_writable=True)


def recent(
    seconds: float = 10, came: int = 0, out: int = 0, acked: int = 0, moved: bool = True
) -> Recent:
    return Recent(seconds, came, out, acked, moved)


def counts(ready: int = 0, inflight: int = 0, delayed: int = 0, acked: int = 0) -> Counts:
    return Counts(ready, inflight, delayed, acked)


@pytest.mark.parametrize(
    ("verdict", "words", "args", "options"),
    [
        ("CAUGHT_UP", "everything is acked", (counts(acked=5), [], NOTHING_KNOWN), {}),
        ("CAUGHT_UP", "everything is acked", (counts(), [EAGER], recent()), {}),
        ("CAUGHT_UP", "4 delayed", (counts(delayed=4), [], NOTHING_KNOWN), {}),
        ("NO_CONSUMER", "7 ready", (counts(7), [], recent(came=9)), {}),
        ("NO_CONSUMER", "its Spark query", (counts(7), [], recent(came=9)), {"of_spark": True}),
        ("CONSUMING", "too short", (counts(7), [EAGER], NOTHING_KNOWN), {}),
        ("CONSUMING", "2.0/s acked, 1.0/s", (counts(7, 3), [BUSY], recent(came=10, acked=20)), {}),
        ("SLOW", "1.0/s acked, 2.0/s", (counts(7, 3), [BUSY], recent(came=20, acked=10)), {}),
        ("STALLED", "5 with c-1, none", (counts(0, 5), [BUSY, EAGER], recent(came=5)), {}),
        ("STALLED", "5 with c-1, none", (counts(7, 5), [BUSY], recent(came=5)), {}),
        ("STARVED", "c-1 asks for nothing", (counts(7), [BUSY._replace(inflight=0)], recent()), {}),
        ("STARVED", "nothing goes out", (counts(7), [EAGER], recent()), {}),
        ("STARVED", "does not read", (counts(7), [EAGER._replace(is_writable=False)], recent()), {}),
        ("STARVED", "no more unacked", (counts(7), [EAGER._replace(is_blocked=True)], recent()), {}),
        ("RESET_PENDING", "by c-1", (counts(acked=7), [BUSY], recent()), {"waiting": ["c-1"]}),
        (
            "BLOCKED_BY_HOLE",
            "index 3 (1:3:-1) is with c-1, delivered 2 times; 8 behind it",
            (counts(5, 1), [BUSY], recent(acked=8, moved=False)),
            {"hole": HOLE},
        ),
        (
            "BLOCKED_BY_HOLE",
            "with no consumer",
            (counts(5, 1), [BUSY], recent(acked=8, moved=False)),
            {"hole": HOLE._replace(holder="")},
        ),
        ("CONSUMING", "/s", (counts(5, 1), [BUSY], recent(acked=8)), {"hole": HOLE}),
        ("DAMAGED", "no messages: cut", (counts(5, 1), [BUSY], recent()), {"refusal": "cut"}),
    ],
)  # fmt: skip
def test_each_has_its_reason(verdict: str, words: str, args: Any, options: Any) -> None:
    judged = judge(*args, **options)
    assert (judged.verdict, words in judged.reason) == (verdict, True), judged


def test_when_it_will_be_done() -> None:
    assert judge(counts(90, 10), [BUSY], recent(came=10, acked=30)).drained_in_s == 50.0
    assert judge(counts(90, 10), [BUSY], recent(came=30, acked=30)).drained_in_s is None
    assert judge(counts(90, 10), [BUSY], recent(came=30, acked=3)).drained_in_s is None


def test_trouble_is_what_somebody_should_look_at() -> None:
    assert [verdict.is_trouble for verdict in Verdict] == [False] * 4 + [True] * 5
    assert [verdict.severity for verdict in Verdict] == list(range(9))


def test_many_names_are_counted() -> None:
    judged = judge(counts(1), [], NOTHING_KNOWN, waiting=list("abcde"))
    assert judged.reason.endswith("a, b, c and 2 more")
