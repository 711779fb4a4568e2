"""The pages about a topic and a subscription: what they ask, and what of it they show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.cli.conftest import Line
from unit.cli.progress.test_progress import answer, client, one
from unit.cli.test_terminal import OF_ORDERS, RESET, SCHEMA, STATS, STRIP, TOPIC

ORDERS = "/milepost/v1/topics/public/default/orders"


def test_what_is_asked_for_a_topic(line: Line) -> None:
    line(
        "topics", "describe", "orders", answers=({"partitions": 0}, STATS, SCHEMA, OF_ORDERS, STRIP)
    )
    assert line.code == 0, line.err
    assert line.asked[3:] == [
        f"GET {ORDERS}/progress",
        # As many columns as there is room for, in 80.
        f"GET {ORDERS}/subscriptions/billing/strip?columns=72",
    ]


def test_json_has_all_of_it(line: Line) -> None:
    answers = ({"partitions": 0}, STATS, OF_ORDERS, STRIP, [RESET])
    shown = json.loads(
        line("subscriptions", "describe", "orders", "billing", "-o", "json", answers=answers)
    )
    assert shown["topic"] == TOPIC
    assert shown["strips"] == [{**STRIP, "partition": -1}]
    assert shown["resets"] == [RESET]


def test_a_strip_for_each_partition(line: Line) -> None:
    parts = [
        one("billing", partition=n, first=0, acked=2, consumers=[client("c1", 1)]) for n in (0, 1)
    ]
    strips = [{**STRIP, "topic": f"{TOPIC}-partition-{n}"} for n in (0, 1)]
    shown = line(
        "topics",
        "describe",
        "orders",
        answers=({"partitions": 2}, STATS, 404, answer(*parts), *strips),
    )
    assert line.asked[-1] == (
        "GET /milepost/v1/topics/public/default/orders-partition-1/subscriptions/billing/strip?columns=64"
    )
    assert [text for text in shown.splitlines() if "part " in text] == [
        "  part 0  0 ···━●━●○○◌ 10",
        "  part 1  0 ···━●━●○○◌ 10",
    ]
    # Added up: the client is one, and holds what it holds of each.
    assert "c1 at 10.0.0.1:5 holds 2" in shown
    assert "backlog    10: 6 ready, 4 inflight, 0 delayed" in shown


def test_apache_pulsar_has_no_strips(line: Line) -> None:
    line.is_pulsar = True
    shown = line("topics", "describe", "orders", answers=({"partitions": 0}, STATS, 404))
    assert line.code == 0, line.err
    assert not any("/milepost/" in asked for asked in line.asked)
    assert "  backlog    5" in shown
    assert "  consumers  1: c1" in shown


def test_a_topic_that_no_group_reads(line: Line) -> None:
    stats: dict[str, Any] = {"storageSize": 0, "firstIndex": 0, "endIndex": 0, "publishers": []}
    shown = line("topics", "describe", "orders", answers=({"partitions": 0}, stats, 404, answer()))
    assert "messages   none" in shown
    assert "producers  none" in shown
    assert shown.endswith("no subscriptions\n")


def test_a_group_that_is_not_there(line: Line) -> None:
    line("subscriptions", "describe", "orders", "x", answers=({"partitions": 0}, STATS, answer()))
    assert line.code == 5
    assert "`milepost subscriptions list orders` shows them" in line.err


@pytest.mark.parametrize(
    ("progress", "told"),
    [("Exclusive", "billing  Exclusive"), ("", "billing  not consumed since its topic was opened")],
)
def test_a_group_without_consumers_has_the_type_that_it_had(
    line: Line, progress: str, told: str
) -> None:
    """Statistics say None of it, as Apache Pulsar's do."""
    billing = {**STATS["subscriptions"]["billing"], "type": "None", "consumers": []}
    stats = {**STATS, "subscriptions": {"billing": billing}}
    answers = ({"partitions": 0}, stats, answer(one("billing", type=progress)), STRIP, [])
    assert told in line("subscriptions", "describe", "orders", "billing", answers=answers)
