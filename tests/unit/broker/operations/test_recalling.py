"""Recalling a delayed message: no subscription delivers it, whatever became of the subscription before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from stage.frames import message
from stage.heard import got
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.operations import recalling
from milepost.storage.engine import StorageEngine

MakeStage = Callable[..., Stage]

DELAY_S = 60


@pytest.mark.parametrize("before", ["nothing", "a restart and a seek", "an ack and a seek"])
def test_a_recalled_message_is_not_delivered_when_it_is_due(
    make_stage: MakeStage, before: str
) -> None:
    """Behind a seek it may pass for one that was delivered or acked before that, and waits for its time
    again."""
    stage = make_stage()
    topic = stage.topic()
    subscription = stage.subscription(topic)
    due_ms = stage.clock.wall_ms() + DELAY_S * 1000
    stage.publish(stage.producer(topic), message(0), message(1, deliver_at_time=due_ms))
    if before == "a restart and a seek":
        stage = stage.restarted()
        topic = stage.topic()
        subscription = topic.subscriptions["s"]
    elif before == "an ack and a seek":
        subscription.skip(2)
        stage.turn()
    if before != "nothing":
        stage.seek(subscription, 0)
    consumer = stage.consumer(subscription, SHARED, permits=10)
    assert got(consumer) == ["0"]
    engine = cast("StorageEngine", stage.engine)
    stage.run(recalling.prepare(topic, stage.broker))
    answers: list[Any] = []
    recalling.recall(topic, 1, due_ms, engine, answers.append)
    stage.turn()
    assert answers == [None]
    stage.tick(DELAY_S + 1)
    assert got(consumer) == []
    assert subscription.cursor.counts() == (0, 1, 0, 1)
    stage = stage.restarted()
    subscription = stage.topic().subscriptions["s"]
    consumer = stage.consumer(subscription, SHARED, permits=10)
    assert got(consumer) == ["0"]
