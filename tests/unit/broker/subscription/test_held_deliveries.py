"""HeldDeliveries: what waits for a fact is nobody's to ack or to give back until it is out."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.heard import got
from stage.stage import Stage

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.wire.events import WireId


def filled(stage: Stage, count: int = 5) -> Subscription:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), *(message(number) for number in range(count)))
    return subscription


def sought(
    stage: Stage, sub_type: int = EXCLUSIVE, permits: int = 5
) -> tuple[Subscription, Consumer]:
    """Everything was delivered, the cursor was sought to 0, and what is delivered again is held."""
    subscription = filled(stage)
    stage.consumer(subscription, sub_type, permits=5)
    stage.seek(subscription, 0)
    stage.engine.holds_journal = True
    consumer = stage.consumer(subscription, sub_type, permits=permits)
    assert got(consumer) == []
    assert consumer.held is not None
    return subscription, consumer


def released(stage: Stage) -> None:
    stage.engine.holds_journal = False
    stage.turn()


def test_an_ack_of_what_is_held_is_of_the_older_delivery(stage: Stage) -> None:
    subscription, consumer = sought(stage, SHARED)
    answers = stage.ack(consumer, WireId(1, 0), WireId(1, 3))
    released(stage)
    assert answers == [None]
    assert got(consumer) == ["0", "1", "2", "3", "4"]
    assert subscription.cursor.counts().acked == 0
    stage.ack(consumer, WireId(1, 0))
    assert subscription.cursor.counts().acked == 1


def test_a_cumulative_ack_of_what_is_held_is_of_the_older_delivery(stage: Stage) -> None:
    subscription, consumer = sought(stage)
    stage.ack(consumer, WireId(1, 4), cumulative=True)
    released(stage)
    assert subscription.cursor.counts().acked == 0


def test_an_ack_out_of_the_blue_counts_though_its_first_delivery_is_held(stage: Stage) -> None:
    """A message that nobody ever had waits behind one that is held: its ack can mean nothing older."""
    subscription, consumer = sought(stage, SHARED, permits=9)
    stage.engine.holds_journal = False
    stage.turn()
    got(consumer)
    stage.seek(subscription, 0)
    stage.publish(stage.producer(subscription.topic), batch(5, 2))
    stage.engine.holds_journal = True
    back = stage.consumer(subscription, SHARED, permits=9)
    stage.ack(back, WireId(1, 5))
    assert subscription.cursor.counts().acked == 2
    released(stage)


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_what_is_held_is_sent_once_though_it_is_asked_for_again(
    stage: Stage, sub_type: int
) -> None:
    subscription, consumer = sought(stage, sub_type)
    subscription.redeliver(consumer, [WireId(1, 0), WireId(1, 1)], -1)
    subscription.redeliver(consumer, [], -1)
    stage.turn()
    assert got(consumer) == []
    released(stage)
    assert got(consumer) == ["0", "1", "2", "3", "4"]
    assert (consumer.permits, consumer.unacked) == (0, 5)


def test_what_is_asked_for_again_waits_for_the_fact_too(stage: Stage) -> None:
    """Or a crash would make its ack look like one from before the seek."""
    subscription, consumer = sought(stage)
    subscription.redeliver(consumer, [], -1)
    released(stage)
    assert stage.ack(consumer, WireId(1, 0), WireId(1, 1)) == [None]
    again = stage.restarted()
    assert again.subscription(again.topic()).cursor.counts().acked == 2


def test_a_redelivery_under_a_new_epoch_drops_the_frames_of_the_old(stage: Stage) -> None:
    """PIP-84: the client would drop them, and nobody would have them."""
    subscription, consumer = sought(stage)
    consumer.epoch = 0
    subscription.redeliver(consumer, [], 1)
    released(stage)
    frames = consumer.peer.take()  # type: ignore[attr-defined]
    assert [frame.consumer_epoch for frame in frames] == [1] * 5


def test_what_was_held_for_a_consumer_that_leaves_is_stale_again(stage: Stage) -> None:
    subscription, consumer = sought(stage, SHARED)
    subscription.remove_consumer(consumer)
    stage.turn()
    assert all(subscription.cursor.is_stale(index) for index in range(5))
    back = stage.consumer(subscription, SHARED)
    stage.ack(back, WireId(1, 2))
    assert subscription.cursor.counts().acked == 0
    stage.flow(back, 5)
    released(stage)
    assert got(consumer) == []
    assert got(back) == ["0", "1", "2", "3", "4"]


def test_who_is_no_longer_active_gets_nothing_that_was_held(stage: Stage) -> None:
    subscription = filled(stage)
    stage.consumer(subscription, FAILOVER, permits=5)
    stage.seek(subscription, 0)
    stage.engine.holds_journal = True
    names = ["a", "b", "c", "d", "e"]
    consumers = [stage.consumer(subscription, FAILOVER, name=name, permits=5) for name in names]
    released(stage)
    assert sorted(len(got(consumer)) for consumer in consumers) == [0, 0, 0, 0, 5]


def test_behind_a_refused_fact_every_delivery_is_a_fact(stage: Stage) -> None:
    """The refused one may have been of the same messages: what the disk has says they are stale."""
    subscription = filled(stage)
    stage.consumer(subscription, SHARED, permits=5)
    stage.seek(subscription, 0)
    stage.files.faults.fail("sync", under="journal")
    failed = stage.consumer(subscription, SHARED, permits=5)
    assert failed.peer.failures  # type: ignore[attr-defined]
    subscription.remove_consumer(failed)
    back = stage.consumer(subscription, SHARED, permits=5)
    assert got(back) == ["0", "1", "2", "3", "4"]
    assert stage.ack(back, WireId(1, 1)) == [None]
    again = stage.restarted()
    assert again.subscription(again.topic()).cursor.counts().acked == 1


def test_a_seek_gives_the_permits_of_what_was_held_back(stage: Stage) -> None:
    subscription, consumer = sought(stage, permits=3)
    consumer.epoch, consumer.metadata = 0, {"milepost.reset": "in-place"}
    assert consumer.permits == 0
    assert subscription.seek(5, lambda error: None) == []
    assert (consumer.permits, consumer.held, consumer.epoch) == (3, None, 1)
    released(stage)
    assert got(consumer) == []
