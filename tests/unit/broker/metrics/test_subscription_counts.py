"""What is counted as messages go out, come back, and are acked."""

from __future__ import annotations

from stage.frames import batch, message
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.wire.events import WireId


def test_every_count_of_a_known_load(stage: Stage) -> None:
    topic = stage.topic()
    counters = stage.broker.counters
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=100)
    stage.clock.advance(5)
    stage.publish(stage.producer(topic), message(0), batch(1, 3), message(4))
    counts = consumer.subscription.counts
    assert (counters.entries_out, counters.messages_out) == (3, 5)
    assert (counts.entries_out, counts.messages_out, consumer.messages_out) == (3, 5, 5)
    assert counters.bytes_out == topic.bytes_out == counts.bytes_out == topic.bytes_in
    assert counts.consumed_ms == stage.clock.wall_ms()

    stage.clock.advance(5)
    stage.ack(consumer, WireId(1, 2))
    assert (counts.messages_acked, counts.settled_ms) == (1, stage.clock.wall_ms())
    assert counts.mark_delete_ms == 0
    stage.ack(consumer, WireId(1, 0))
    assert counts.mark_delete_ms == stage.clock.wall_ms()

    consumer.subscription.redeliver(consumer, [WireId(1, 1)], -1)
    stage.turn()
    assert counters.messages_redelivered == counts.messages_redelivered == 3
    assert counters.messages_out == 8


def test_acks_that_come_too_late_are_counted(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    subscription = stage.subscription(topic)
    stage.consumer(subscription, SHARED, permits=2)
    stage.seek(subscription, 0)
    late = stage.consumer(subscription, SHARED)
    stage.ack(late, WireId(1, 0), WireId(1, 1))
    assert stage.broker.counters.stale_dropped == {"ack": 2}


def test_entries_read_under_an_older_epoch_are_counted(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    subscription = stage.subscription(topic)
    stage.consumer(subscription, SHARED)
    entries = topic.log.read(topic.log.locate(0).position)
    epoch = subscription.cursor.epoch
    stage.seek(subscription, 0)
    stage.consumer(subscription, SHARED)
    subscription.offer(entries, epoch)
    assert stage.broker.counters.stale_dropped["delivery"] == 2
