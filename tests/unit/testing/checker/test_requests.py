"""Requests that meet: topics and subscriptions that are made again, answers that come late or say no."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost.testing.checker import BadHistory, judge

GROUP = {"topic": "t", "sub": "s"}
START, KILL, DRAINED = {"op": "start"}, {"op": "kill", "t": 9.0}, {"op": "drained", **GROUP}
SUBSCRIBED, GONE = {"op": "subscribe", **GROUP}, {"op": "unsubscribe", **GROUP}
Event = dict[str, Any]


def found(*events: Event) -> list[str]:
    """The anomalies by name."""
    lines = [json.dumps(event) + "\n" for event in ({"history": 1}, START, *events)]
    return [one.name for one in judge(lines).anomalies]


def asked(op: str, n: int, **fields: Any) -> Event:
    return {"is": "invoke", "op": op, "n": n, **fields}


def heard(n: int, outcome: str = "ok", **fields: Any) -> Event:
    return {"is": outcome, "n": n, **fields}


def place(name: str) -> Event:
    """Message `a` has index 0, and so on; those of a topic that was made again have capitals."""
    index = ord(name.lower()) - ord("a")
    return {"id": [1 + name.isupper(), index, -1], "index": index}


def publish(name: str, n: int = 100, **fields: Any) -> Event:
    return asked("publish", n, topic="t", message=name, by="p", **fields)


def published(name: str, **fields: Any) -> list[Event]:
    return [publish(name, **fields), heard(100, **place(name))]


def received(name: str) -> Event:
    return {"op": "receive", **GROUP, "by": "c", "message": name, **place(name)}


def ack(n: int, *names: str, **fields: Any) -> Event:
    return asked("ack", n, **GROUP, by="c", messages=[*names], **fields)


def scan(*names: str, first: int = 0) -> list[Event]:
    stored = [{"op": "stored", "topic": "t", "message": name, **place(name)} for name in names]
    end = first + len(names)
    return [
        {"op": "scan", "topic": "t", "first": first},
        *stored,
        {"op": "scanned", "topic": "t", "end": end},
    ]


TAKEN = [*published("a"), received("a")]
BOTH_TAKEN = [*published("a"), *published("b"), received("a"), received("b")]

# -- subscriptions and topics that are made again ------------------------------------------------------


def test_an_ack_of_a_subscription_that_is_gone_says_nothing_of_the_next() -> None:
    again = [GONE, SUBSCRIBED, heard(2), received("a")]
    assert not found(*TAKEN, ack(2, "a"), *again)
    assert found(*TAKEN, ack(2, "a"), again[-2], received("a"))


def test_an_ack_that_was_too_old_is_judged_though_its_subscription_is_gone() -> None:
    given = {"op": "ack", "t": 1.0, **GROUP, "by": "c", "messages": ["a"]}
    lost = [given, KILL, START, received("a")]
    assert found(*TAKEN, *lost) == ["ack-window-exceeded"]
    assert found(*TAKEN, *lost, GONE) == ["ack-window-exceeded"]
    deleted = [asked("delete", 3, topic="t"), heard(3)]
    assert found(*TAKEN, *lost, *deleted) == ["ack-window-exceeded"]


DELETE, DELETED = asked("delete", 3, topic="t"), heard(3)


@pytest.mark.parametrize(
    "events",
    [
        [DELETE, publish("A"), DELETED, heard(100, **place("A")), received("A"), *scan("A")],
        [DELETE, *published("A"), DELETED, received("A"), *scan("A")],
        [DELETE, *published("A"), received("A"), DELETED, *scan("A"), received("A")],
        [publish("A"), DELETE, DELETED, heard(100, "unknown"), *scan("A"), received("A")],
        [publish("A"), heard(100, "unknown"), DELETE, DELETED, received("A"), *scan("A")],
        [publish("A"), DELETE, DELETED, heard(100, "unknown"), *scan()],
        [publish("A"), DELETE, DELETED, heard(100, **place("A")), *scan()],
    ],
    ids=["asked", "answered", "received", "late", "unknown", "gone", "gone though answered"],
)
def test_a_message_may_be_of_the_topic_that_was_made_again(events: list[Event]) -> None:
    """Before anyone hears that the old one is deleted. The last was stored in the old one."""
    assert not found(*TAKEN, *events)


def test_behind_a_deletion_the_topic_is_judged_anew() -> None:
    assert found(*TAKEN, DELETE, DELETED, received("a")) == ["phantom"]
    assert found(*TAKEN, DELETE, DELETED, *published("A"), *scan()) == ["lost"]
    late = [DELETE, publish("A"), DELETED, heard(100, "fail"), received("A")]
    assert found(*TAKEN, *late) == ["aborted-read"]


@pytest.mark.parametrize("outcome", ["unknown", "none"])
def test_a_topic_that_may_be_deleted_may_be_another_one(outcome: str) -> None:
    end = [heard(3, outcome)] * (outcome != "none")
    counts = {"op": "counts", **GROUP, "delayed": 0, "inflight": 0, "acked": 0, "first": 0}
    seek = [asked("seek", 4, **GROUP, by="c", index=1), heard(4)]
    opened = [{"op": "opened", "topic": "t", "state": state} for state in "ab"]
    before = [*BOTH_TAKEN, *seek, counts | {"ready": 2, "end": 2}, opened[0]]
    behind = [*published("A"), received("A"), counts | {"ready": 1, "end": 1}, opened[1]]
    assert not found(*before, DELETE, *end, *behind, *scan("A"), DRAINED)
    # One that was refused has not happened.
    assert "reused-index" in found(*before, DELETE, heard(3, "fail"), *behind)


@pytest.mark.parametrize("outcome", ["ok", "fail", "unknown"])
def test_a_topic_may_be_deleted_by_two_at_once(outcome: str) -> None:
    second = asked("delete", 4, topic="t")
    assert not found(*TAKEN, DELETE, second, DELETED, heard(4, outcome))
    if outcome != "unknown":
        anew = [*published("A"), *scan()]
        assert found(*TAKEN, DELETE, second, DELETED, heard(4, outcome), *anew) == ["lost"]


def test_a_trim_that_was_refused_excuses_nothing() -> None:
    trim = asked("trim", 4, topic="t", index=1, policy="age")
    assert not found(*BOTH_TAKEN, trim, *scan("b", first=1))
    assert found(*BOTH_TAKEN, trim, heard(4, "fail"), *scan("b", first=1)) == ["lost"]
    sooner = asked("trim", 5, topic="t", index=1, policy="age")
    assert not found(*BOTH_TAKEN, sooner, trim, heard(4, "fail"), *scan("b", first=1))


# -- acks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_that_was_refused_keeps_nothing_away(cumulative: bool) -> None:
    refused = [ack(2, "a", cumulative=cumulative), heard(2, "fail")]
    ended = [KILL, START, DRAINED | {"again": True}]
    assert not found(*TAKEN, *refused, *ended[:2], received("a"), ended[2])
    assert found(*TAKEN, *refused, *ended) == ["stuck"]
    assert not found(*TAKEN, ack(3, "a"), *refused, heard(3), *ended)
    assert not found(*TAKEN, refused[0], ack(3, "a"), refused[1], heard(3, "unknown"), *ended)
    trim = [asked("trim", 4, topic="t", index=1), heard(4)]
    assert found(*TAKEN, *refused, *trim) == ["trimmed-unacked"]
    assert not found(*TAKEN, ack(3, "a"), *refused, *trim)


def test_an_ack_without_an_answer_need_not_be_part_of_its_transaction() -> None:
    committed = [asked("commit", 3, txn="x"), heard(3)]
    one = ack(2, "a", txn="x")
    assert not found(*TAKEN, one, *committed, received("a"))
    assert not found(*TAKEN, one, *committed, heard(2, "unknown"), received("a"))
    for events in ([one, heard(2), *committed], [one, *committed, heard(2)]):
        assert found(*TAKEN, *events, received("a")) == ["redelivered-after-durable-ack"]


def test_what_a_cumulative_ack_of_a_transaction_speaks_for_comes_no_more() -> None:
    both = [ack(2, "b", cumulative=True, txn="x"), heard(2)]
    committed = [asked("commit", 3, txn="x"), heard(3)]
    for name in "ab":
        assert found(*BOTH_TAKEN, *both, *committed, received(name)) == [
            "redelivered-after-durable-ack"
        ]
    # An open transaction had acked it alone: the other ack need not speak for it.
    other = [ack(4, "a", txn="y"), heard(4)]
    aborted = [asked("abort", 5, txn="y"), heard(5)]
    assert not found(*BOTH_TAKEN, *other, *both, *committed, *aborted, received("a"))


def test_everything_that_an_aborted_cumulative_ack_spoke_for_comes_again() -> None:
    both = [ack(2, "b", cumulative=True, txn="x"), heard(2)]
    aborted = [asked("abort", 3, txn="x"), heard(3)]
    again = [received("a"), received("b")]
    assert not found(*BOTH_TAKEN, *both, *aborted, *again, DRAINED)
    for one in again:
        assert found(*BOTH_TAKEN, *both, *aborted, one, DRAINED) == ["aborted-ack"]
    alone = [ack(4, "a"), heard(4)]
    assert not found(*BOTH_TAKEN, *alone, *both, *aborted, again[1], DRAINED)
    inside = [ack(4, "a", txn="y"), heard(4), asked("commit", 5, txn="y"), heard(5)]
    assert not found(*BOTH_TAKEN, *inside, *both, *aborted, again[1], DRAINED)


def test_a_commit_that_was_refused_says_nothing_of_one_before_it() -> None:
    """It may have been obeyed, and its answer lost: then there is nothing to be committed any more."""
    sent = published("a", txn="x")
    first, second = asked("commit", 3, txn="x"), asked("commit", 4, txn="x")
    assert not found(*sent, first, heard(3, "unknown"), second, heard(4, "fail"), received("a"))
    assert found(*sent, first, heard(3, "fail"), received("a")) == ["dirty-read"]
    both = [first, second, heard(3, "fail"), heard(4, "fail")]
    assert found(*sent, *both, received("a")) == ["dirty-read"]


# -- numbers -------------------------------------------------------------------------------------------


def test_an_owner_that_is_fenced_is_one_though_it_tells_no_index() -> None:
    def answered(name: str, owner: int) -> list[Event]:
        return [publish(name), heard(100, id=place(name)["id"], owner=owner)]

    assert not found(*answered("a", 1), *answered("b", 2))
    assert found(*answered("a", 2), *answered("b", 1)) == ["split-brain"]


def test_nothing_is_below_index_0() -> None:
    counts = {"op": "counts", **GROUP, "ready": 1, "delayed": 0, "inflight": 0, "acked": 0}
    for first in (-1, -(2**63) + 1):
        below = counts | {"first": first, "end": first + 1, "now": True}
        assert found(*published("a"), below) == ["bad-accounting"]
    assert found({"op": "lookup", "topic": "t", "index": -1, "id": None}) == []


def test_a_target_does_not_move_back() -> None:
    join = {"op": "join", **GROUP, "by": "c", "alone": True}
    seek = asked("seek", 3, **GROUP, by="c", index=1, last=0)
    assert not found(*published("a"), *published("b"), join, seek, heard(3), received("b"))


def test_a_fill_does_not_go_back() -> None:
    fill = {"op": "fill", "topic": "t", "from": 1, "to": 0}
    with pytest.raises(BadHistory, match="a fill from 1 to 0"):
        found({"op": "scan", "topic": "t", "first": 0}, fill)
