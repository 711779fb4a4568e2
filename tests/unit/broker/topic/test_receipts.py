"""What is remembered of sends on their way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import batch, chunk, message, sends
from stage.stage import Stage

from milepost.broker.topic.receipts import Publication

MakeStage = Callable[..., Stage]


def test_it_is_answered_when_its_block_is_durable(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.engine.holds_journal = True
    stage.publish(producer, message(0), message(1))
    waiting = list(producer.pending)
    assert [(type(one), one.count, one.is_answered) for one in waiting] == [(Publication, 2, False)]
    assert waiting[0].ids == [(0, 0), (1, 0)]
    stage.engine.holds_journal = False
    stage.turn()
    assert not producer.pending
    assert topic.messages_in == 2


@pytest.mark.parametrize("deduplicated", [False, True])
def test_what_is_counted_is_what_was_sent(make_stage: MakeStage, deduplicated: bool) -> None:
    """Neither the header of an entry on the disk nor what a chunk has beside it is counted."""
    stage = make_stage(deduplication=deduplicated)
    topic = stage.topic()
    producer = stage.producer(topic)
    frames = [message(0), message(1), batch(2, 3), chunk(5, 0, 2), chunk(5, 1, 2)]
    sent = [len(one.entry) for frame in frames for one in sends(frame)]
    stage.publish(producer, *frames)
    assert (producer.bytes_in, topic.bytes_in) == (sum(sent), sum(sent))
    topic.entry_sizes.roll()
    assert (topic.entry_sizes.count, topic.entry_sizes.total) == (len(sent), sum(sent))
