"""`milepost subscriptions`: the report, and what is changed."""

from __future__ import annotations

from unit.cli.admin.test_topic_subscriptions import RESET, TOPIC, S, T, outcome
from unit.cli.conftest import Line


def test_the_longest_backlog_comes_first(line: Line) -> None:
    stats = {
        "subscriptions": {
            "a": {"type": "Shared", "consumers": [{}], "msgBacklog": 3, "msgRateOut": 1.25},
            "b": {"type": "Exclusive", "consumers": [], "msgBacklog": 30, "unackedMessages": 2},
        }
    }
    shown = line("subscriptions", "list", TOPIC, "-o", "csv", answers=({"partitions": 0}, stats))
    assert shown.splitlines()[1:] == ["b,Exclusive,0,30,,2,0,0.0", "a,Shared,1,3,,,0,1.2"]
    line("subscriptions", "list", TOPIC, answers=({"partitions": 2}, stats))
    assert line.asked[1].startswith(f"GET {T}/partitioned-stats")


def test_one(line: Line) -> None:
    answers = ({"partitions": 0}, {"subscriptions": {"a": {"x": 1}}})
    assert line("subscriptions", "show", TOPIC, "a", answers=answers) == '{\n  "x" : 1\n}\n'
    line("subscriptions", "show", TOPIC, "b", answers=answers)
    assert line.code == 5


def test_changes(line: Line) -> None:
    line("subscriptions", "create", TOPIC, "billing", "--at", "earliest")
    assert (line.asked, line.body) == ([f"PUT {S}"], {"ledgerId": -1, "entryId": -1})
    line("subscriptions", "delete", TOPIC, "billing", "-f")
    assert line.asked == [f"DELETE {S}?force=true"]
    line("subscriptions", "delete", TOPIC, "billing", "--dry-run", answers=(outcome(),))
    assert line.asked == [f"POST {RESET}"]


def test_who_moved_it(line: Line) -> None:
    reset = {
        "at_ms": 1794751200000, "by": "ann", "partition": -1, "asked": "index 0", "was": 7, "to": 0,
        "redelivered": 7, "skipped": 0, "waiting": ["c-1", "c-2"],
    }  # fmt: skip
    shown = line("subscriptions", "resets", TOPIC, "billing", "-o", "csv", answers=([reset],))
    assert shown.splitlines()[1] == '2026-11-15T14:00:00Z,ann,-1,index 0,7,0,7,0,"c-1, c-2"'


def test_a_partitioned_topic_has_no_position_as_a_whole(line: Line) -> None:
    stats = {"subscriptions": {"a": {"messagesBacklog": 7, "endIndex": 0, "epoch": 0}}}
    shown = line("subscriptions", "show", TOPIC, "a", answers=({"partitions": 2}, stats))
    assert shown == '{\n  "messagesBacklog" : 7\n}\n'
    shown = line("subscriptions", "show", TOPIC, "a", answers=({"partitions": 0}, stats))
    assert "endIndex" in shown
