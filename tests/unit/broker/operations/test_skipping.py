"""Skipping: plans change nothing, and what they say is what happens."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.stage import Stage

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.operations import skipping, topic_lifecycle
from milepost.broker.operations.skipping import Skip
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import ServiceNotReady
from milepost.positions.ids import Position
from milepost.wire.events import WireId


@pytest.fixture
def subscription(stage: Stage) -> Subscription:
    """Entries [0], [1 2 3], [4], [5 6], [7]; acked are 2 and 4."""
    topic = stage.topic()
    frames = (message(0), batch(1, 3), message(4), batch(5, 2), message(7))
    stage.publish(stage.producer(topic), *frames)
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    stage.ack(consumer, WireId(1, 2), WireId(1, 1, ack_set=(0b101,)))
    return consumer.subscription


@pytest.mark.parametrize(
    ("entries", "plan"),
    [
        (-1, Skip(0, 0, 0)),
        (0, Skip(0, 0, 0)),
        (1, Skip(0, 1, 1)),
        (2, Skip(0, 4, 3)),
        (3, Skip(0, 7, 5)),
        (4, Skip(0, 8, 6)),
        (99, Skip(0, 8, 6)),
    ],
)
def test_entries(stage: Stage, subscription: Subscription, entries: int, plan: Skip) -> None:
    before = subscription.cursor.state()
    assert (
        stage.run(
            skipping.plan_entries(subscription, entries, TimeSlices(stage.clock), stage.engine)
        )
        == plan
    )
    assert subscription.cursor.state() == before
    backlog = subscription.cursor.backlog
    stage.run(skipping.carry_out(stage.broker, subscription, plan))
    assert subscription.cursor.backlog == backlog - plan.count
    again = stage.restarted().topic().subscriptions["s"]
    assert again.cursor.backlog == backlog - plan.count


def test_positions(subscription: Subscription) -> None:
    def plan(ledger_id: int, entry_id: int, excluded: bool = False) -> tuple[int, int]:
        found = skipping.plan_position(
            subscription, Position(ledger_id, entry_id), excluded=excluded
        )
        return found.end_index, found.count

    assert [plan(1, 0), plan(1, 1), plan(1, 1, True), plan(1, 99), plan(-1, -1)] == [
        (1, 1),
        (4, 3),
        (1, 1),
        (8, 6),
        (0, 0),
    ]


def test_what_expires_is_counted(stage: Stage, subscription: Subscription) -> None:
    plan = skipping.plan_older(subscription, stage.clock.wall_ms() + 1)
    assert plan == skipping.plan_all(subscription)
    stage.run(skipping.carry_out(stage.broker, subscription, plan, expires=True))
    assert subscription.counts.expired == 6
    assert subscription.counts.expired_ms == stage.clock.wall_ms()
    assert subscription.counts.messages_acked == 2


def test_what_was_unloaded_since_it_was_planned_is_not_skipped(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), message(0), message(1))
    plan = skipping.plan_all(subscription)
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    with pytest.raises(ServiceNotReady):
        stage.run(skipping.carry_out(stage.broker, subscription, plan))
    assert stage.topic().subscriptions["s"].cursor.backlog == 2
