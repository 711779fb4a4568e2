"""Dry runs of what deletes: they say what would go, and only ask."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.conftest import Line

TOPIC = "persistent://acme/shop/orders"
STATS = {
    "storageSize": 500,
    "publishers": [{}],
    "subscriptions": {
        "billing": {"msgBacklog": 7, "messagesBacklog": 21, "consumers": [{}, {}]},
        "audit": {"msgBacklog": 0, "consumers": []},
    },
}
GONE = (
    f"{TOPIC} billing: 21 not acked would be lost\n"
    f"{TOPIC} audit: 0 not acked would be lost\n"
    f"{TOPIC}: 500 bytes, 2 subscriptions, 1 producers, 2 consumers\n"
)
SKIPPED = f"{TOPIC} billing: 21 would be skipped\n"
UNCHANGED = "nothing was changed: this was a dry run\n"
NONE: dict[str, Any] = {"partitions": 0}

ROWS: list[tuple[str, tuple[Any, ...], str]] = [
    (f"topics delete {TOPIC}", (NONE, STATS), GONE),
    (f"topics delete-partitioned-topic {TOPIC}", ({"partitions": 2}, STATS), GONE),
    (f"topics truncate {TOPIC}", (NONE, STATS), GONE),
    ("namespaces delete acme/shop", ([TOPIC], [], NONE, STATS), GONE),
    ("tenants delete acme", (["acme/shop"], [TOPIC], [], NONE, STATS), GONE),
    ("namespaces clear-backlog acme/shop -s billing", ([TOPIC], [], STATS), SKIPPED),
    ("namespaces unsubscribe acme/shop -s billing", ([TOPIC], [], STATS), SKIPPED),
]


@pytest.mark.parametrize(("words", "answers", "shown"), ROWS, ids=[row[0] for row in ROWS])
def test_it_says_what_would_go_and_only_asks(
    line: Line, words: str, answers: tuple[Any, ...], shown: str
) -> None:
    assert line(*words.split(), "--dry-run", answers=answers) == shown + UNCHANGED
    assert (line.code, line.err) == (0, "")
    assert all(one.startswith("GET ") for one in line.asked)


def ledgers(*marks: str) -> dict[str, Any]:
    return {
        "ledgers": [
            {"ledgerId": 3, "entries": 10, "size": 100},
            {"ledgerId": 5, "entries": 20, "size": 200},
            {"ledgerId": 8, "entries": 0, "size": 0},
        ],
        "cursors": {f"s{n}": {"markDeletePosition": mark} for n, mark in enumerate(marks)},
    }


@pytest.mark.parametrize(
    ("marks", "gone"),
    [
        (("8:-1",), "2 ledgers, 30 entries, 300 bytes"),
        (("5:18",), "1 ledgers, 10 entries, 100 bytes"),
        (("5:19",), "2 ledgers, 30 entries, 300 bytes"),
        (("8:-1", "3:4"), "0 ledgers, 0 entries, 0 bytes"),
        ((), "2 ledgers, 30 entries, 300 bytes"),
    ],
)
def test_trimming_takes_what_every_cursor_has_behind_it(
    line: Line, marks: tuple[str, ...], gone: str
) -> None:
    shown = line("topics", "trim-topic", TOPIC, "--dry-run", answers=(ledgers(*marks),))
    assert shown == f"{TOPIC}: at most {gone} would go\n{UNCHANGED}"
    assert all(one.startswith("GET ") for one in line.asked)
