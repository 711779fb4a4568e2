"""Subscriptions by pulsar-admin's words: what is asked, and dry runs that only ask."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.conftest import Line

TOPIC = "persistent://acme/shop/orders"
T = "/admin/v2/persistent/acme/shop/orders"
S = f"{T}/subscription/billing"
RESET = "/milepost/v1/topics/acme/shop/orders/subscriptions/billing/reset"
END = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
AT = {"ledgerId": 3, "entryId": 7, "partitionIndex": -1, "batchIndex": -1}

ROWS: list[tuple[str, str, Any]] = [
    ("create-subscription TOPIC -s billing", f"PUT {S}", END),
    ("create-subscription TOPIC -s billing -m 3:7", f"PUT {S}", AT),
    (
        "create-subscription TOPIC --subscription billing -m earliest -p a=b",
        f"PUT {S}",
        {"ledgerId": -1, "entryId": -1, "properties": {"a": "b"}},
    ),
    ("unsubscribe TOPIC -s billing -f", f"DELETE {S}?force=true", None),
    ("update-subscription-properties TOPIC -s billing -p a=b", f"PUT {S}/properties", {"a": "b"}),
    ("update-subscription-properties TOPIC -s billing -c", f"PUT {S}/properties", {}),
    ("skip TOPIC -s billing -n 3", f"POST {S}/skip/3", None),
    ("clear-backlog TOPIC -s billing", f"POST {S}/skip_all", None),
    ("expire-messages TOPIC -s billing -t 2m", f"POST {S}/expireMessages/120", None),
    (
        "expire-messages TOPIC -s billing -p 3:7 -e",
        f"POST {S}/expireMessages",
        {**AT, "excluded": True},
    ),
    (
        "expire-messages-all-subscriptions TOPIC -t 60",
        f"POST {T}/all_subscription/expireMessages/60",
        None,
    ),
    ("analyze-backlog TOPIC -s billing", f"POST {S}/analyzeBacklog", None),
]


@pytest.mark.parametrize(("words", "request_line", "body"), ROWS, ids=[row[0][:50] for row in ROWS])
def test_a_line_asks_this(line: Line, words: str, request_line: str, body: Any) -> None:
    there = (({"x-pulsar-message-id": "3:7"}, b""),) if "3:7" in words else ()
    line("topics", *words.replace("TOPIC", TOPIC).split(), answers=(*there, {}))
    assert (line.code, line.err) == (0, "")
    assert line.asked[-1:] == [request_line]
    assert line.asked[:-1] == [f"GET {T}/ledger/3/entry/7"] * len(there)
    assert line.body == body


def test_a_reset_to_a_message_that_is_there(line: Line) -> None:
    line(
        "topics", "reset-cursor", TOPIC, "-s", "billing", "-m", "14:30", "-e", answers=(outcome(),)
    )
    assert (line.code, line.out, line.err) == (0, "", "")
    assert line.body == {"id": "14:30:-1", "after": True, "exact": True, "dry_run": False}
    line.is_pulsar = True
    words = ("topics", "reset-cursor", TOPIC, "-s", "billing", "-m", "3:7")
    line(*words, answers=(({"x-pulsar-message-id": "3:7"}, b""), {}))
    assert line.asked == [f"GET {T}/ledger/3/entry/7", f"POST {S}/resetcursor"]
    assert line.body == {**AT, "excluded": False}
    line(*words, answers=(404,))
    assert (line.code, line.asked) == (5, [f"GET {T}/ledger/3/entry/7"])
    line("topics", "reset-cursor", TOPIC, "-s", "billing", "-m", "latest", "-e", answers=({},))
    assert line.body == {**END, "excluded": True}


def test_a_reset_by_time_counts_back_from_now(line: Line) -> None:
    line("topics", "reset-cursor", TOPIC, "-s", "billing", "-t", "0")
    (asked,) = line.asked
    assert asked.startswith(f"POST {S}/resetcursor/1")


def test_names_and_properties(line: Line) -> None:
    assert line("topics", "subscriptions", TOPIC, answers=(["a", "b"],)) == "a\nb\n"
    words = ("topics", "get-subscription-properties", TOPIC, "-s", "billing")
    assert line(*words, answers=({"a": "b"},)) == '{"a":"b"}\n'


def outcome(**changes: Any) -> dict[str, Any]:
    move = {
        "topic": TOPIC, "partition": -1, "first": 0, "end": 200, "was": 100, "to": 40, "epoch": 1,
        "redelivered": 60, "skipped": 0, "released": 0, "note": "", **changes,
    }  # fmt: skip
    return {"dry_run": True, "redelivered": 60, "skipped": 0, "moves": [move]}


DRY = (
    f"{TOPIC} billing: from index 100 to 40 of [0, 200): 60 indexes delivered again, 0 skipped\n"
    "nothing was changed: this was a dry run\n"
)


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("reset-cursor TOPIC -s billing -m idx:40", {"index": 40, "after": False}),
        ("reset-cursor TOPIC -s billing -m 3:7 -e", {"id": "3:7:-1", "after": True}),
        ("clear-backlog TOPIC -s billing", {"position": "latest", "after": False}),
        ("unsubscribe TOPIC -s billing", {"position": "latest", "after": False}),
        ("skip TOPIC -s billing -n 0", {"by": 0, "after": False}),
        ("expire-messages TOPIC -s billing -p 3:7", {"id": "3:7:-1", "after": True}),
    ],
)
def test_a_dry_run_asks_for_numbers_and_nothing_else(
    line: Line, words: str, target: dict[str, Any]
) -> None:
    shown = line(
        "topics", *words.replace("TOPIC", TOPIC).split(), "--dry-run", answers=(outcome(),)
    )
    assert line.asked[-1] == f"POST {RESET}"
    assert all(one.startswith("GET ") for one in line.asked[:-1])
    exact = {"exact": True} if words.startswith("reset") else {}
    assert line.body == {**target, "dry_run": True, **exact}
    assert shown == DRY


def test_a_dry_run_of_a_skip_ends_behind_the_last_entry(line: Line) -> None:
    entry = ({"x-pulsar-message-id": "3:9"}, b"m")
    words = ("topics", "skip", TOPIC, "-s", "billing", "-n", "3", "--dry-run")
    line(*words, answers=(entry, outcome()))
    assert line.asked == [f"GET {S}/position/3?create=false", f"POST {RESET}"]
    assert line.body == {"id": "3:9:-1", "after": True, "dry_run": True}
    line(*words, answers=(404, outcome()))
    assert line.body == {"position": "latest", "after": False, "dry_run": True}


def test_dry_runs_of_all_subscriptions(line: Line) -> None:
    words = ("topics", "expire-messages-all-subscriptions", TOPIC, "-t", "0", "--dry-run")
    shown = line(*words, answers=(["billing", "other"], outcome(), outcome()))
    assert shown.count("delivered again") == 2


def test_a_broker_that_cannot_count_says_so(line: Line) -> None:
    words = ("topics", "clear-backlog", TOPIC, "-s", "billing", "--dry-run")
    line(*words, answers=(404,))
    assert line.code == 5
    line.is_pulsar = True
    line(*words)
    assert (line.code, line.asked) == (2, [])
    assert "nothing was changed" in line.err


@pytest.mark.parametrize(
    "words",
    [
        "reset-cursor TOPIC -s billing",
        "reset-cursor TOPIC -s billing -t 1h -m 3:7",
        "reset-cursor TOPIC -s billing -t later",
        "reset-cursor TOPIC -s billing -m later",
        "reset-cursor TOPIC",
        "expire-messages TOPIC -s billing",
        "skip TOPIC -s billing -n -1",
        "update-subscription-properties TOPIC -s billing",
        "update-subscription-properties TOPIC -s billing -c -p a=b",
    ],
)
def test_a_line_that_makes_no_sense_asks_nothing(line: Line, words: str) -> None:
    line("topics", *words.replace("TOPIC", TOPIC).split())
    assert (line.code, line.asked, line.err.count("\n")) == (2, [], 1)
