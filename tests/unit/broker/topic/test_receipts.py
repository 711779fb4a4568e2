"""What is remembered of sends on their way."""

from __future__ import annotations

from stage.frames import message
from stage.stage import Stage

from milepost.broker.topic.receipts import Publication


def test_it_is_answered_when_its_block_is_durable(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.engine.holds_journal = True
    stage.publish(producer, message(0), message(1))
    waiting = list(producer.pending)
    assert [(type(one), one.count, one.is_answered) for one in waiting] == [(Publication, 2, False)]
    assert waiting[0].is_whole
    stage.engine.holds_journal = False
    stage.turn()
    assert not producer.pending
    assert topic.messages_in == 2
