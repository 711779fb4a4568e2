"""Ids by time, and the last one. By index: tests/pips/test_pip415.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage.frames import batch, marker, message
from stage.http import Request, call
from stage.stage import Stage

from milepost.rest.app import create_app

PATH = "/admin/v2/persistent/public/default"


def ask(stage: Stage, path: str) -> Any:
    answer = stage.run(call(create_app(stage.broker), Request("GET", f"{PATH}/{path}")))
    return answer.json if answer.status == 200 else answer.status


def the_id(ledger_id: int, entry_id: int, batch_index: int = -1, size: int = 0) -> dict[str, int]:
    return {
        "ledgerId": ledger_id,
        "entryId": entry_id,
        "partitionIndex": -1,
        "batchIndex": batch_index,
        "batchSize": size,
    }


def test_the_last_id_is_of_the_last_message(stage: Stage) -> None:
    topic = stage.topic()
    assert ask(stage, "t/lastMessageId") == the_id(-1, -1)
    producer = stage.producer(topic)
    stage.publish(producer, message(0))
    assert ask(stage, "t/lastMessageId") == the_id(1, 0)
    stage.publish(producer, batch(1, 3), marker(4))
    assert ask(stage, "t/lastMessageId") == the_id(1, 1, 2, 3)
    assert ask(stage, "none/lastMessageId") == 404


def test_an_id_by_time(make_stage: Callable[..., Stage]) -> None:
    """As a real Apache Pulsar answers: the earliest id for the time 0, and behind the last message the
    next position."""
    stage = make_stage()
    producer = stage.producer(stage.topic())
    times = []
    for sequence_id in range(3):
        stage.clock.advance(1.0)
        times.append(stage.clock.wall_ms())
        stage.publish(producer, message(sequence_id))
    assert ask(stage, "t/messageid/0") == the_id(-1, -1)
    assert ask(stage, f"t/messageid/{times[0]}") == the_id(1, 0)
    assert ask(stage, "t/messageid/1") == the_id(1, 0)
    assert ask(stage, f"t/messageid/{times[0] + 1}") == the_id(1, 1)
    assert ask(stage, f"t/messageid/{times[2]}") == the_id(1, 2)
    assert ask(stage, "t/messageid/99999999999999") == the_id(1, 3)
    assert ask(stage, "t/messageid/x") == 400
