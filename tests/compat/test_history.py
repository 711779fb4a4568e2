"""The judge is judged: a clean history has no problem, and each planted one is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from compat.history import DUPLICATE, Acked, History, Message, Place, Seen, Table, full_verdict

KILL_AT = 100.0


def clean() -> tuple[History, list[Message]]:
    """Two producers, two subscriptions, one kill: message n of each half is of generation n."""
    history = History(lanes={1: 2})
    stored: list[Message] = []
    for generation in (0, 1):
        for producer in (0, 1):
            for sequence in (2 * generation, 2 * generation + 1):
                key = producer, sequence
                place = 1 + generation, 2 * producer + sequence % 2, -1
                history.sent(key)
                history.receipt(key, place)
                stored.append(Message(len(stored), place, key))
                for subscription in ("one", "two"):
                    history.delivered(
                        Seen(subscription, "c", generation, key, place, stored[-1].index)
                    )
        if not generation:
            history.killed(KILL_AT)
    return history, stored


def ack(subscription: str, place: Place, *, cumulative: bool = False, at: float = 99.0) -> Acked:
    return Acked(subscription, "c", 0, (place,), cumulative, at, allowance=0.0)


def anomalies(history: History, stored: list[Message], *, deduplicated: bool = True) -> set[str]:
    table = Table(stored, len(stored))
    return {
        problem.anomaly
        for problem in full_verdict(history, table, deduplicated=deduplicated).problems
    }


def test_a_clean_history_has_no_problem() -> None:
    history, stored = clean()
    history.ack_answered(ack("one", stored[0].place), after=0.001)
    history.ack_answered(ack("two", stored[2].place, cumulative=True), after=0.001)
    history.given.append(ack("two", stored[3].place))
    history.accounts.append(("one", _counts(ready=2, delayed=1, inflight=1, acked=4)))
    assert anomalies(history, stored) == set()
    assert anomalies(history, stored, deduplicated=False) == set()


def test_an_unknown_publish_may_be_there_or_not() -> None:
    history, stored = clean()
    history.sent((0, 4))
    assert anomalies(history, stored) == set()
    place = (2, 9, -1)
    stored.append(Message(8, place, (0, 4)))
    for subscription in ("one", "two"):
        history.delivered(Seen(subscription, "c", 1, (0, 4), place))
    assert anomalies(history, stored) == set()


Plant = Callable[[History, list[Message]], object]


def undone(at: Place, *, answered: bool, cumulative: bool = False) -> Plant:
    """An ack up to or of a place, and the first message comes again in the next generation."""

    def plant(history: History, stored: list[Message]) -> None:
        given = ack("one", at, cumulative=cumulative, at=KILL_AT - 0.2)
        if answered:
            history.ack_answered(given, 0.001)
        else:
            history.given.append(given)
        history.delivered(Seen("one", "c", 1, (0, 0), (1, 0, -1)))

    return plant


PLANTS: dict[str, tuple[str, Plant]] = {
    "a receipt is lost": ("lost", lambda h, s: s.pop()),
    "bytes of nobody": ("phantom", lambda h, s: s.append(Message(8, (3, 0, -1), None))),
    "bytes that nobody sent": ("phantom", lambda h, s: s.append(Message(8, (3, 0, -1), (7, 7)))),
    "stored twice": ("duplicate", lambda h, s: s.append(Message(8, (3, 0, -1), (0, 0)))),
    "answered twice": ("duplicate", lambda h, s: h.receipt((0, 0), (1, 0, -1))),
    "another id than the receipt's": (
        "inconsistent-position",
        lambda h, s: s.__setitem__(7, s[7]._replace(place=(2, 9, -1))),
    ),
    "one index twice": ("reused-index", lambda h, s: s.__setitem__(7, s[7]._replace(index=6))),
    "the order of a producer": (
        "reordered",
        lambda h, s: s.__setitem__(
            slice(0, 2), [s[0]._replace(key=s[1].key), s[1]._replace(key=s[0].key)]
        ),
    ),
    "the order of receipts": (
        "reordered",
        lambda h, s: h.receipts.__setitem__(slice(0, 2), h.receipts[1::-1]),
    ),
    "seen with another index": (
        "inconsistent-position",
        lambda h, s: h.delivered(Seen("one", "c", 1, (0, 0), (1, 0, -1), 5)),
    ),
    "seen with another payload": (
        "inconsistent-position",
        lambda h, s: h.delivered(Seen("one", "c", 1, (0, 1), (1, 0, -1))),
    ),
    "seen and not stored": (
        "phantom",
        lambda h, s: h.delivered(Seen("one", "c", 1, (0, 0), (9, 0, -1))),
    ),
    "never delivered": ("undelivered", lambda h, s: h.reached["two"].discard((1, 1, -1))),
    "an answered ack undone": (
        "redelivered-after-durable-ack",
        undone((1, 0, -1), answered=True),
    ),
    "an answered cumulative ack undone": (
        "redelivered-after-durable-ack",
        undone((1, 2, -1), answered=True, cumulative=True),
    ),
    "acked, and again on the same connection": (
        "redelivered-after-durable-ack",
        lambda h, s: h.again.append("c: (1, 0, -1)"),
    ),
    "an old ack undone": ("ack-window-exceeded", undone((1, 0, -1), answered=False)),
    "an old cumulative ack undone": (
        "ack-window-exceeded",
        undone((1, 2, -1), answered=False, cumulative=True),
    ),
    "numbers that do not add up": (
        "bad-accounting",
        lambda h, s: h.accounts.append(("one", _counts(ready=3, inflight=1, acked=5))),
    ),
    "a number below zero": (
        "bad-accounting",
        lambda h, s: h.accounts.append(("one", _counts(ready=-1, inflight=4, acked=5))),
    ),
}


def _counts(ready: int = 0, delayed: int = 0, inflight: int = 0, acked: int = 0) -> dict[str, int]:
    parts = {"ready": ready, "delayed": delayed, "inflight": inflight, "acked": acked}
    return {**parts, "first": 0, "end": 8}


@pytest.mark.parametrize("name", PLANTS)
def test_each_anomaly_is_named(name: str) -> None:
    anomaly, plant = PLANTS[name]
    history, stored = clean()
    plant(history, stored)
    assert anomaly in anomalies(history, stored)


def test_a_young_ack_may_be_undone_and_its_age_is_told() -> None:
    history, stored = clean()
    history.given.append(ack("one", (1, 0, -1), at=KILL_AT - 0.03))
    history.given.append(ack("one", (1, 2, -1), cumulative=True, at=KILL_AT - 0.04))
    history.delivered(Seen("one", "c", 1, (0, 0), (1, 0, -1)))
    verdict = full_verdict(history, Table(stored, 8), deduplicated=True)
    assert verdict.problems == []
    assert verdict.redelivered == 2
    assert verdict.worst_age_s == pytest.approx(0.04)


def test_a_broker_that_had_no_time_is_not_blamed() -> None:
    history, stored = clean()
    history.given.append(ack("one", (1, 0, -1), at=KILL_AT - 0.5))
    history.delivered(Seen("one", "c", 1, (0, 0), (1, 0, -1)))
    assert anomalies(history, stored) == {"ack-window-exceeded"}
    history.ack_answered(ack("two", (1, 0, -1)), after=0.45)
    assert anomalies(history, stored) == set()


def test_without_deduplication_each_kill_may_store_a_message_once_more() -> None:
    history, stored = clean()
    history.sent((0, 4))
    history.publishes[0, 4] = history.publishes[0, 0]  # handed over before the kill
    for entry_id in (5, 6):
        place = (2, entry_id, -1)
        stored.append(Message(len(stored), place, (0, 4)))
        for subscription in ("one", "two"):
            history.delivered(Seen(subscription, "c", 1, (0, 4), place))
    assert anomalies(history, stored, deduplicated=False) == set()
    assert anomalies(history, stored) == {"duplicate"}
    history.receipt((0, 4), DUPLICATE)
    assert anomalies(history, stored, deduplicated=False) == {"inconsistent-position"}
