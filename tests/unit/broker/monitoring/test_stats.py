"""Statistics against counting by hand, with many holes."""

from __future__ import annotations

import random

from stage.frames import batch, message
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring import stats


def test_entries_of_a_backlog_with_holes(make_stage: type[Stage]) -> None:
    """More entries than are counted in one go, over several ledgers."""
    rng = random.Random(7)
    stage = make_stage(ledger_entries_max=400)
    topic = stage.topic()
    producer = stage.producer(topic)
    owner: list[int] = []
    for entry in range(1500):
        size = rng.randint(1, 4)
        stage.publish(producer, batch(len(owner), size)) if size > 1 else stage.publish(
            producer, message(len(owner))
        )
        owner += [entry] * size
    subscription = stage.subscription(topic)
    acked = [index for index in range(len(owner)) if rng.random() < 0.5]
    subscription.cursor.ack([(index, index + 1) for index in acked])
    left = set(range(len(owner))) - set(acked)
    backlog = stage.run(stats.backlog_of(subscription, TimeSlices(stage.clock), stage.engine))
    assert backlog.messages == len(left)
    assert backlog.entries == len({owner[index] for index in left})
    assert backlog.first_index == min(left)
    assert backlog.oldest_ms == topic.log.locate(min(left)).timestamp_ms
    assert backlog.size_bytes == topic.log.size_from(min(left))


def test_nothing_is_nothing(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    assert stage.run(stats.backlog_of(subscription, TimeSlices(stage.clock), stage.engine)) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert stats.slowest(topic) is None
    assert str(stats.mark_delete_position(subscription)) == "-1:-1"
    assert str(stats.read_position(subscription)) == "-1:-1"


def test_the_slowest_is_named(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), *(message(number) for number in range(5)))
    stage.subscription(topic, "fast", 4)
    slow = stage.subscription(topic, "slow", 2)
    stage.subscription(topic, "done", 5)
    stage.subscription(topic, "reader", 0, durable=False)
    assert stats.slowest(topic) == (slow, 2)


def test_whole_entries_acked_behind_the_first_that_is_not(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), *(message(number) for number in range(6)), batch(6, 3))
    subscription = stage.subscription(topic)
    stage.consumer(subscription, SHARED, permits=0)
    subscription.cursor.ack([(1, 3), (4, 5), (6, 7)])
    slices = TimeSlices(stage.clock)
    holes = stage.run(stats.ack_holes(subscription.cursor.backlog_ranges(), 9, slices))
    assert holes == subscription.cursor.ack_holes(9) == [(0, 1), (3, 4), (5, 6)]
    text = stage.run(stats.individually_acked(subscription, holes, slices, stage.engine))
    assert text == "[(1:0..1:2],(1:3..1:4]]"
