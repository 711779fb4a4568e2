"""What commands look like on terminals: golden files for each kind of terminal, and for a pipe.

`MILEPOST_GOLDEN=new` writes them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from unit.cli.conftest import Line, Screen
from unit.cli.progress.test_progress import answer, client, one

GOLDEN = Path(__file__).parent / "golden"
IS_NEW = os.environ.get("MILEPOST_GOLDEN") == "new"
TOPIC = "persistent://public/default/orders"

PROGRESS = answer(
    one(
        "an-audit-with-a-long-name",
        verdict="NO_CONSUMER",
        reason="1200 ready, and no consumer is connected",
        backlog=1200,
        ready=1200,
        inflight=0,
        rate_acked=0.0,
        behind_ms=5_400_000,
    ),
    one(
        "billing",
        verdict="BLOCKED_BY_HOLE",
        reason="index 4 is with c1 for 3 m, and 5 later ones are acked: they cannot be deleted",
        holes=1,
        consumers=[client("c1", 2)],
    ),
    one("reports", partition=0, topic="persistent://acme/shop/carts-partition-0", consumers=[client("r")]),
    one("reports", partition=1, topic="persistent://acme/shop/carts-partition-1", consumers=[client("r")]),
)  # fmt: skip
CALM = answer(one("billing", backlog=0, ready=0, inflight=0, rate_acked=0.0, behind_ms=0))
PARTS = answer(
    *(
        one("reports", partition=n, verdict="SLOW", consumers=[client("r1", 1), client("r2", 1)])
        for n in range(2)
    )
)
LISTED = {
    "name": TOPIC, "partitions": 0, "subscriptions": 2, "producers": 1, "consumers": 3, "messages": 12000,
    "backlog": 55, "stored_bytes": 4_404_019, "rate_in": 7.5, "rate_out": 7.0, "verdict": "SLOW",
}  # fmt: skip
TOPICS = {
    "found": 2,
    "after": None,
    "topics": [
        LISTED,
        {**LISTED, "name": "persistent://acme/shop/carts", "partitions": 4, "verdict": "CAUGHT_UP"},
    ],
}
STATS = {
    "msgRateIn": 7.5, "msgThroughputIn": 75.0, "msgRateOut": 0.0, "msgThroughputOut": 0.0,
    "storageSize": 4_404_019, "firstIndex": 3, "endIndex": 10,
    "publishers": [{"producerName": "app-1", "address": "/10.0.0.7:4711"}],
    "subscriptions": {
        "billing": {
            "type": "Shared", "msgBacklog": 5, "consumers": [{"consumerName": "c1"}],
            "subscriptionProperties": {"team": "a"},
        },
    },
}  # fmt: skip
OF_ORDERS = answer(
    one(
        "billing",
        verdict="STALLED",
        reason="2 with c1, none of them acked in the last 60 s",
        first=3,
        acked=2,
        consumers=[client("c1", 2)],
    )
)
STRIP = {
    "topic": TOPIC, "subscription": "billing", "at_ms": 1, "epoch": 0, "retained_first": 3,
    "retained_end": 10, "first": 0, "end": 10, "columns": 10,
    "acked": [0, 0, 0, 1, 0, 1, 0, 0, 0, 0], "inflight": [0, 0, 0, 0, 1, 0, 1, 0, 0, 0],
    "ready": [0, 0, 0, 0, 0, 0, 0, 1, 1, 0], "delayed": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    "trimmed": [1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
}  # fmt: skip
RESET = {
    "at_ms": 1_700_000_000_000, "by": "op", "partition": -1, "asked": "earliest", "was": 9, "to": 3,
    "redelivered": 6, "skipped": 0, "waiting": ["c1"],
}  # fmt: skip
SCHEMA = {"version": 3, "type": "AVRO", "data": "{}", "timestamp": 0, "properties": {}}

SHOWN: list[tuple[tuple[str, ...], tuple[Any, ...]]] = [
    (("progress",), (PROGRESS,)),
    (("progress", "-t", "orders"), (CALM,)),
    (("progress", "-g", "reports"), (PARTS,)),
    (("topics", "list", "public/default"), (TOPICS, ["non-persistent://public/default/ticks"])),
    (("topics", "describe", "orders"), ({"partitions": 0}, STATS, SCHEMA, OF_ORDERS, STRIP)),
    (
        ("subscriptions", "describe", "orders", "billing"),
        ({"partitions": 0}, STATS, OF_ORDERS, STRIP, [RESET]),
    ),
    (("topics", "stats", "orders", "-o", "table"), (STATS,)),
]  # fmt: skip
# A pipe gets names: two calls, one for each domain.
PIPED = {
    ("topics", "list", "public/default"): (
        [TOPIC, "persistent://acme/shop/carts-partition-0"],
        ["non-persistent://public/default/ticks"],
    )
}


def compare(name: str, shown: str) -> None:
    file = GOLDEN / f"{name}.txt"
    readable = shown.replace("\x1b", "\\e")
    if IS_NEW:
        file.write_text(readable, "utf-8")
    assert readable == file.read_text("utf-8")


def on(screen: Screen, width: int, **kind: str) -> str:
    return "".join(
        f"$ milepost {' '.join(words)}\n{screen(width, *words, answers=answers, **kind)}\n"
        for words, answers in SHOWN
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_on_a_terminal(screen: Screen, width: int) -> None:
    shown = on(screen, width)
    compare(str(width), shown)
    assert "\x1b[" in shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_table_is_wider_than_the_terminal(screen: Screen, width: int) -> None:
    """But for names and values that are longer than it, which the terminal wraps."""
    for words, answers in SHOWN[:4]:
        shown = screen(width, *words, answers=answers, NO_COLOR="1")
        assert max(map(len, shown.splitlines())) <= width, words


def test_nothing_to_show_is_said_in_words(screen: Screen, line: Line) -> None:
    nothing = {**TOPICS, "found": 0, "topics": []}
    assert screen(40, "progress", answers=(answer(),)) == ""
    assert line.err.startswith("no groups: ")
    assert screen(40, "topics", "list", "public/default", answers=(nothing, [])) == ""
    assert line.err == "no topics in public/default\n"


def test_without_colours(screen: Screen) -> None:
    shown = on(screen, 80, NO_COLOR="1")
    compare("no_color", shown)
    assert "\x1b" not in shown


def test_on_a_dumb_terminal(screen: Screen) -> None:
    shown = on(screen, 80, TERM="dumb")
    compare("dumb", shown)
    assert shown.isascii()


def test_in_a_pipe(line: Line) -> None:
    """Nothing is cut, coloured or left out; lists are names, as pulsar-admin prints them."""
    shown = "".join(
        f"$ milepost {' '.join(words)}\n{line(*words, answers=PIPED.get(words, answers))}\n"
        for words, answers in SHOWN
    )
    compare("piped", shown)


def test_the_words_of_pulsar_admin_print_names_on_a_terminal_too(screen: Screen) -> None:
    names = PIPED["topics", "list", "public/default"]
    shown = screen(80, "admin", "topics", "list", "public/default", answers=names)
    assert shown.splitlines() == [*names[0], *names[1]]


def test_the_variable_of_the_width_holds(screen: Screen) -> None:
    wide = screen(200, "progress", answers=(PROGRESS,), NO_COLOR="1")
    narrow = screen(200, "progress", answers=(PROGRESS,), NO_COLOR="1", COLUMNS="60")
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))


def test_an_empty_variable_forbids_no_colours(screen: Screen) -> None:
    assert "\x1b[" in screen(80, "progress", answers=(PROGRESS,), NO_COLOR="")


def test_what_a_broker_says_cannot_paint_the_screen(screen: Screen) -> None:
    found = answer(one("\x1b[31mred", verdict="STALLED", reason="\x1b[2J\nwhy"))
    shown = screen(60, "progress", answers=(found,), NO_COLOR="1")
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown
