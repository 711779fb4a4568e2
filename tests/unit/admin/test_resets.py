"""Resets that Pulsar has no path for: what is asked, and how the outcome is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.admin.conftest import Played

from milepost.admin import resets
from milepost.admin.errors import BadAnswer
from milepost.admin.face import SyncFace
from milepost.admin.resets import Move
from milepost.positions import MessageId

TOPIC = "persistent://a/b/c"
PATH = "/milepost/v1/topics/a/b/c/subscriptions/s%2F1"
MOVE = {
    "topic": TOPIC, "partition": -1, "first": 0, "end": 9, "was": 5, "to": 2, "epoch": 3,
    "redelivered": 3, "skipped": 0, "released": 1, "note": "",
}  # fmt: skip
OUTCOME = {"dry_run": False, "redelivered": 3, "skipped": 0, "moves": [MOVE]}


@pytest.mark.parametrize(
    ("asked", "body"),
    [
        ({"index": 0}, {"index": 0}),
        ({"message_id": MessageId(3, 7, -1, 2)}, {"id": "3:7:-1:2"}),
        ({"time_ms": 0}, {"time": 0}),
        ({"position": "latest"}, {"position": "latest"}),
        ({"by": 0, "expected": 0, "partition": 0}, {"by": 0, "expected": 0, "partition": 0}),
    ],
)
def test_a_reset(asked: dict[str, Any], body: dict[str, Any]) -> None:
    transport = Played(OUTCOME)
    outcome = SyncFace(transport).run(resets.reset_subscription(TOPIC, "s/1", **asked))
    (request,) = transport.asked
    assert f"{request.method} {request.target}" == f"POST {PATH}/reset"
    assert json.loads(request.body or b"") == {**body, "after": False, "dry_run": False}
    assert (outcome.redelivered, outcome.dry_run) == (3, False)
    assert outcome.moves == (Move(**MOVE),)  # type: ignore[arg-type]


def test_the_history() -> None:
    transport = Played([{"by": "ann"}], {})
    assert SyncFace(transport).run(resets.get_resets(TOPIC, "s/1")) == [{"by": "ann"}]
    assert transport.asked[0].target == f"{PATH}/resets"
    with pytest.raises(BadAnswer, match="not a list of resets"):
        SyncFace(transport).run(resets.get_resets(TOPIC, "s/1"))


@pytest.mark.parametrize("answer", [{}, {"moves": 1}, {**OUTCOME, "moves": [{}]}])
def test_an_outcome_that_is_none(answer: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer, match="not the outcome of a reset"):
        SyncFace(Played(answer)).run(resets.reset_subscription(TOPIC, "s", index=0))
