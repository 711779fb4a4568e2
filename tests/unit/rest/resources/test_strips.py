"""The strip over REST: columns and single messages, as `progress` counts them."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.http import Web
from stage.stage import Stage

from milepost.rest.resources.strips import StripAnswer
from milepost.wire.events import WireId

STRIP = "/milepost/v1/topics/public/default/t/subscriptions/s/strip"
PROGRESS = "/milepost/v1/topics/public/default/t/progress"
STATES = ("acked", "inflight", "ready", "delayed", "trimmed")


@pytest.fixture
def web(stage: Stage) -> Web:
    """Index 0 and 4 acked, 1 to 3 with a consumer, 5 to 7 ready."""
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic, "s"), permits=5)
    frames = (message(0), batch(1, 3), message(4), *map(message, range(5, 8)))
    stage.publish(stage.producer(topic), *frames)
    stage.ack(consumer, WireId(1, 0), WireId(1, 2))
    return Web(stage)


def test_columns_add_up_to_progress_at_every_zoom(web: Web) -> None:
    (line,) = web(f"GET {PROGRESS}").json["subscriptions"]
    for columns in (1, 3, 8, 2000):
        strip = web(f"GET {STRIP}?columns={columns}").json
        assert strip["columns"] == min(columns, 8)
        assert (strip["first"], strip["end"]) == (line["first"], line["end"]) == (0, 8)
        for state in STATES[:4]:
            assert sum(strip[state]) == line[state], (columns, state)
        assert {len(strip[state]) for state in STATES} == {strip["columns"]}


def test_what_is_written_by_hand_is_what_is_described(web: Web) -> None:
    found = web(f"GET {STRIP}?columns=4").json
    assert StripAnswer(**found).model_dump() == found


def test_a_range_of_its_own(web: Web) -> None:
    strip = web(f"GET {STRIP}?first=3&end=10&columns=7").json
    assert strip["inflight"] == [1, 0, 0, 0, 0, 0, 0]
    assert strip["acked"] == [0, 1, 0, 0, 0, 0, 0]
    assert strip["ready"] == [0, 0, 1, 1, 1, 0, 0]
    assert (strip["retained_first"], strip["retained_end"]) == (0, 8)


def test_single_messages_with_their_holders(web: Web) -> None:
    marks = web(f"GET {STRIP}/messages?first=0&end=6").json["messages"]
    assert [mark["state"] for mark in marks] == ["acked", *["inflight"] * 3, "acked", "ready"]
    assert [mark["holder"] for mark in marks] == ["", "c", "c", "c", "", ""]
    assert [mark["deliveries"] for mark in marks] == [0, 1, 1, 1, 0, 0]
    assert [mark["id"] for mark in marks][:3] == ["1:0:-1", "1:1:-1:0", "1:1:-1:1"]
    assert web(f"GET {STRIP}/messages?first=8&end=9").json["messages"] == []


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?columns=0", 400),
        ("?columns=2001", 400),
        ("?first=5&end=4", 400),
        ("?first=-1", 400),
        ("/messages?first=0&end=201", 400),
        ("/messages?first=1&end=0", 400),
        ("/messages", 400),
    ],
)
def test_what_is_no_range_is_refused(web: Web, query: str, status: int) -> None:
    answer = web(f"GET {STRIP}{query}")
    assert (answer.status, bool(answer.reason)) == (status, True)


def test_what_is_not_there_is_not_found(web: Web) -> None:
    assert web(f"GET {STRIP.replace('/s/', '/other/')}").status == 404
    assert web(f"GET {STRIP.replace('/t/', '/other/')}").status == 404
