"""Resets over REST: what is asked, answered and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from stage.frames import message, sends

from milepost.broker.broker import Broker
from milepost.broker.topic.producer import Producer
from milepost.positions.names import TopicName
from milepost.testing.peer import RecordingPeer
from rest.conftest import Ask, Request

TOPIC = TopicName.parse("persistent://public/default/orders")
PATH = "/milepost/v1/topics/public/default/orders/subscriptions"


async def fill(broker: Broker) -> None:
    """Four messages, and the subscriptions `s` and `team/reports` at the first of them."""
    topic = await broker.topic(TOPIC)
    for name in ("s", "team/reports"):
        await broker.create_subscription(topic, name, 0)
    producer = Producer(0, "p", RecordingPeer(), topic)
    topic.publish(producer, sends(*(message(number) for number in range(4))))
    await broker.engine.flush()


def post(body: dict[str, Any] | bytes, name: str = "s", path: str = PATH) -> Request:
    return Request(
        "POST",
        f"{path}/{name}/reset",
        body if isinstance(body, bytes) else json.dumps(body).encode(),
    )


def test_a_reset_answers_what_it_did(ask: Ask) -> None:
    (answer,) = ask(fill, post({"index": 3}))
    assert answer.status == 200, answer.body
    assert answer.json == {
        "dry_run": False,
        "redelivered": 0,
        "skipped": 3,
        "moves": [
            {
                "topic": str(TOPIC), "partition": -1, "first": 0, "end": 4, "was": 0, "to": 3,
                "epoch": 1, "redelivered": 0, "skipped": 3, "released": 0, "note": "",
            }
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "index"),
    [
        ({"index": 0}, 0),
        ({"index": 4}, 4),
        ({"index": 2, "after": True}, 3),
        ({"id": "1:2"}, 2),
        ({"id": "1:2:-1", "after": True}, 3),
        ({"time": 0}, 0),
        ({"time": 2**53}, 4),
        ({"position": "earliest"}, 0),
        ({"position": "latest"}, 4),
        ({"by": 3}, 3),
        ({"index": 1, "expected": 0}, 1),
    ],
)
def test_where_it_goes(ask: Ask, body: dict[str, Any], index: int) -> None:
    dry, answer = ask(fill, post({**body, "dry_run": True}), post(body))
    assert dry.json["moves"] == answer.json["moves"]
    assert answer.json["moves"][0]["to"] == index


def test_its_history(ask: Ask) -> None:
    one, two, history = ask(fill, post({"index": 3}), post({"by": -1}), f"GET {PATH}/s/resets")
    assert (one.status, two.status) == (200, 200)
    assert [(line["asked"], line["was"], line["to"], line["epoch"]) for line in history.json] == [
        ("index 3", 0, 3, 1),
        ("-1", 3, 2, 2),
    ]
    assert {line["by"] for line in history.json} == {"127.0.0.1"}


def test_a_name_with_a_slash(ask: Ask) -> None:
    plain, quoted = ask(
        fill, post({"index": 1}, "team/reports"), post({"index": 2}, "team%2Freports")
    )
    assert (plain.status, quoted.status) == (200, 200)


@pytest.mark.parametrize(
    "body",
    [
        {}, {"index": 1, "by": 1}, {"index": -1}, {"index": "1"}, {"index": True}, {"index": 1.5},
        {"index": 2**70}, {"id": "x"}, {"id": "1"}, {"id": "1" * 300}, {"time": -1}, {"time": "now"},
        {"position": "here"}, {"by": 2**70}, {"index": 1, "other": 1}, {"index": 0, "partition": -1},
        b"", b"[]", b"null", b"{",
    ],
)  # fmt: skip
def test_a_body_that_says_nothing_clear_is_refused(ask: Ask, body: Any) -> None:
    answer, history = ask(fill, post(body), f"GET {PATH}/s/resets")
    assert answer.status == 400, answer.body
    assert answer.reason
    assert history.json == []


@pytest.mark.parametrize(
    ("body", "name", "path", "status"),
    [
        ({"index": 5}, "s", PATH, 404),
        ({"by": -1}, "s", PATH, 404),
        ({"id": "9:0"}, "s", PATH, 404),
        ({"index": 0, "expected": 1}, "s", PATH, 412),
        ({"index": 0, "expected": 0, "create": True}, "s", PATH, 400),
        ({"index": 9, "create": True}, "other", PATH, 404),
        ({"index": 0}, "other", PATH, 404),
        ({"index": 0}, "s", PATH.replace("orders", "none"), 404),
        ({"index": 0}, "s", PATH.replace("default", "none"), 404),
        ({"index": 0, "partition": 1}, "s", PATH, 404),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    ask: Ask, body: dict[str, Any], name: str, path: str, status: int
) -> None:
    answer, history = ask(fill, post(body, name, path), f"GET {PATH}/s/resets")
    assert answer.status == status, answer.body
    assert history.json == []


def test_one_that_is_not_there_is_made_if_asked(ask: Ask) -> None:
    made, again, history = ask(
        fill,
        post({"index": 3, "create": True}, "new"),
        post({"index": 1}, "new"),
        f"GET {PATH}/new/resets",
    )
    assert (made.status, made.json["moves"][0]["note"]) == (200, "the subscription is new")
    assert (again.json["moves"][0]["was"], again.json["moves"][0]["to"]) == (3, 1)
    assert [line["to"] for line in history.json] == [3, 1]


def test_the_history_of_what_is_not_there(ask: Ask) -> None:
    (answer,) = ask(fill, f"GET {PATH}/none/resets")
    assert answer.status == 404
