"""Upstream's own paths for a reset. What a reset does: tests/unit/broker/operations/test_reset.py."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import batch, message
from stage.http import Web

RESET = "t/subscription/s/resetcursor"


@pytest.fixture
def web(web: Web) -> Web:
    """Messages 0 to 5, the middle three in a batch, ten seconds apart; all acked."""
    stage = web.stage
    producer = stage.producer(stage.topic())
    for frame in (message(0), batch(1, 3), message(4), message(5)):
        stage.publish(producer, frame)
        stage.clock.advance(10)
    web("PUT t/subscription/s")
    return web


def mark_delete(web: Web) -> int:
    found: int = web("GET t/stats").json["subscriptions"]["s"]["markDeleteIndex"]
    return found


@pytest.mark.parametrize(
    ("body", "index"),
    [
        ({"ledgerId": 1, "entryId": 2}, 4),
        ({"ledgerId": 1, "entryId": 1}, 1),
        ({"ledgerId": 1, "entryId": 1, "batchIndex": 1}, 2),
        ({"ledgerId": 1, "entryId": 1, "batchIndex": 1, "excluded": True}, 3),
        ({"ledgerId": 1, "entryId": 1, "isExcluded": True}, 4),
        ({"ledgerId": -1, "entryId": -1}, 0),
        ({"ledgerId": 1, "entryId": -1}, 0),
        ({"ledgerId": 99999, "entryId": 1}, 6),
        ({"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}, 6),
    ],
)
def test_to_a_position(web: Web, body: dict[str, Any], index: int) -> None:
    assert web(f"POST {RESET}", body).status == 204
    assert mark_delete(web) == index - 1
    assert mark_delete(Web(web.stage.restarted())) == index - 1


def test_to_a_time(web: Web) -> None:
    now_ms = web.stage.clock.wall_ms()
    assert web(f"POST {RESET}/{now_ms - 25_000}").status == 204
    assert mark_delete(web) == 3
    assert web(f"POST {RESET}/0").status == 204
    assert mark_delete(web) == -1


def test_a_dry_run_says_what_it_would_do(web: Web) -> None:
    answer = web(f"POST {RESET}/0?dryRun=true")
    (move,) = answer.json
    assert (answer.status, move["was"], move["to"], move["redelivered"]) == (200, 6, 0, 6)
    assert mark_delete(web) == 5


def test_who_is_not_there_is_not_moved(web: Web) -> None:
    other = RESET.replace("/s/", "/none/")
    assert web.statuses(f"POST {other}/0", f"POST {RESET}/-1", f"POST {RESET}/x") == [404, 400, 400]
    assert web(f"POST {other}", {"ledgerId": 1, "entryId": 0}).status == 404
    assert web(f"POST {RESET}").status == 400


def test_a_partitioned_topic_is_reset_by_time_only(web: Web) -> None:
    web("PUT many/partitions", 2)
    web("PUT many/subscription/s", "latest")
    assert web("POST many/subscription/s/resetcursor/0").status == 204
    body = {"ledgerId": 1, "entryId": 0}
    assert web("POST many/subscription/s/resetcursor", body).status == 405
