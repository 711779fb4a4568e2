"""A backlog looked through, against the cursor's own count."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages import backlog_walk
from milepost.broker.messages.backlog_scan import Scan, scan
from milepost.wire.events import WireId


@pytest.mark.parametrize("step", [1, 2, 1024])
def test_entries_and_messages(stage: Stage, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(backlog_walk, "STEP_ENTRIES", step)
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=99)
    cursor, log = consumer.subscription.cursor, topic.log
    assert stage.run(scan(cursor, log, 0, TimeSlices(stage.clock), stage.engine)) == Scan()
    frames = (message(0), batch(1, 3), message(4), batch(5, 4), message(9, marker_type=10))
    for frame in frames:
        stage.publish(stage.producer(topic) if not topic.producers else topic.producers["p"], frame)
    # The middle of a batch is acked: one entry, in two ranges.
    stage.ack(consumer, WireId(1, 0), WireId(1, 1, ack_set=(0b101,)))
    found = stage.run(scan(cursor, log, 0, TimeSlices(stage.clock), stage.engine))
    assert (found.entries, found.messages) == (3 + found.markers, 7)
    assert found.messages + found.markers == cursor.backlog
    assert str(found.first) == "1:1"
    assert stage.run(scan(cursor, log, 5, TimeSlices(stage.clock), stage.engine)).messages == 4
    assert stage.run(scan(cursor, log, 99, TimeSlices(stage.clock), stage.engine)) == Scan()
