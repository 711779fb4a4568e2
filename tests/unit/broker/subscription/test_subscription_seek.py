"""Seeks of a subscription: final, durable, obeyed by all; late acks, held deliveries and epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, message
from stage.heard import deliveries, entry_ids, got
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import PersistenceError, StaleEpoch
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import WireId

MakeStage = Callable[..., Stage]
TYPES = [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED]


def filled(stage: Stage, count: int = 5, **options: Any) -> Subscription:
    topic = stage.topic()
    subscription = stage.subscription(topic, **options)
    stage.publish(stage.producer(topic), *[message(number) for number in range(count)])
    return subscription


def in_place(stage: Stage, consumer: Any, index: int, epoch: int) -> list[Any]:
    answers: list[Any] = []
    for other in consumer.subscription.seek_in_place(consumer, index, epoch, answers.append):
        stage.broker.tell_closed(other)
    stage.turn()
    return answers


# -- without an epoch ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES)
def test_everything_begins_anew_at_the_target(stage: Stage, sub_type: int) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, sub_type, permits=3)
    consumer.peer.take()
    stage.ack(consumer, WireId(1, 1))
    assert stage.seek(subscription, 1) == [None]
    assert consumer.is_closed
    assert [type(one) for one in consumer.peer.take()] == [pb.CommandCloseConsumer]
    assert subscription.cursor.counts() == (4, 0, 0, 1)
    assert subscription.cursor.epoch == 1
    back = stage.consumer(subscription, sub_type, permits=10)
    assert entry_ids(back) == [1, 2, 3, 4]
    assert entry_ids(consumer) == []


@pytest.mark.parametrize(("index", "acked"), [(-5, 0), (0, 0), (5, 5), (99, 5)])
def test_a_target_out_of_bounds_is_the_nearest(stage: Stage, index: int, acked: int) -> None:
    subscription = filled(stage)
    assert stage.seek(subscription, index) == [None]
    assert subscription.cursor.counts().acked == acked


def test_a_seek_is_answered_when_it_is_on_disk_and_takes_effect_at_once(stage: Stage) -> None:
    subscription = filled(stage)
    stage.engine.holds_journal = True
    answers = stage.seek(subscription, 3)
    assert answers == []
    assert subscription.cursor.mark_delete_index == 2
    waited: list[str] = []
    subscription.seeks.after(lambda: waited.append("joined"))
    assert waited == []
    second = stage.seek(subscription, 1)
    stage.engine.holds_journal = False
    stage.turn()
    assert (answers, second, waited) == ([None], [None], ["joined"])
    subscription.seeks.after(lambda: waited.append("at once"))
    assert waited == ["joined", "at once"]
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 0


def test_acks_before_a_seek_stand_before_it_in_the_journal(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=10)
    stage.engine.holds_journal = True
    early = stage.ack(consumer, WireId(1, 4))
    stage.seek(subscription, 2)
    late = stage.ack(stage.consumer(subscription), WireId(1, 3))
    stage.engine.holds_journal = False
    stage.turn()
    assert (early, late) == ([None], [None])
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (3, 0, 0, 2)


def test_a_seek_that_the_disk_refuses_lets_those_who_wait_in(stage: Stage) -> None:
    subscription = filled(stage)
    stage.files.faults.fail("sync", under="journal")
    waited: list[str] = []
    stage.engine.holds_journal = True
    answers = stage.seek(subscription, 3)
    subscription.seeks.after(lambda: waited.append("joined"))
    stage.engine.holds_journal = False
    stage.turn()
    assert isinstance(answers[0], PersistenceError)
    assert waited == ["joined"]


def test_a_blocked_subscription_is_free_after_a_seek(make_stage: MakeStage) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=2, max_unacked_messages_per_subscription=2)
    subscription = filled(stage)
    consumer = stage.consumer(subscription, SHARED, permits=10, epoch=0)
    assert entry_ids(consumer) == [0, 1]
    assert subscription.is_blocked
    in_place(stage, consumer, 0, 1)
    assert not subscription.is_blocked
    assert not consumer.is_blocked
    stage.flow(consumer, 10)
    assert entry_ids(consumer) == [0, 1]


def test_a_readers_seek_is_done_at_once(stage: Stage) -> None:
    subscription = filled(stage, durable=False)
    consumer = stage.consumer(subscription, permits=10)
    stage.engine.holds_journal = True
    assert stage.seek(subscription, 3) == [None]
    assert consumer.is_closed
    back = stage.consumer(subscription, permits=10)
    assert entry_ids(back) == [3, 4]


def test_failover_closes_the_active_one_only(stage: Stage) -> None:
    subscription = filled(stage)
    consumers = [stage.consumer(subscription, FAILOVER, name=name, permits=10) for name in "abc"]
    active = subscription.dispatcher.active
    for one in consumers:
        deliveries(one)
    stage.seek(subscription, 2)
    assert [one.is_closed for one in consumers] == [one is active for one in consumers]
    (following,) = [one for one in consumers if entry_ids(one)]
    assert following is subscription.dispatcher.active is not active


# -- late acks (trap 11) -------------------------------------------------------------------------------


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_from_before_the_seek_changes_nothing_and_is_answered(
    stage: Stage, cumulative: bool
) -> None:
    subscription = filled(stage)
    stage.consumer(subscription, permits=4)
    stage.seek(subscription, 0)
    back = stage.consumer(subscription)
    assert stage.ack(back, WireId(1, 3), cumulative=cumulative) == [None]
    assert subscription.cursor.counts() == (5, 0, 0, 0)


def test_an_ack_of_what_was_never_delivered_is_a_plain_ack(stage: Stage) -> None:
    subscription = filled(stage)
    stage.consumer(subscription, permits=3)
    stage.seek(subscription, 0)
    back = stage.consumer(subscription)
    assert stage.ack(back, WireId(1, 4)) == [None]
    assert subscription.cursor.counts() == (4, 0, 0, 1)


def test_what_was_acked_before_the_seek_is_delivered_and_its_ack_counts_again(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=5)
    stage.ack(consumer, WireId(1, 4), cumulative=True)
    stage.seek(subscription, 0)
    back = stage.consumer(subscription, permits=2)
    stage.ack(back, WireId(1, 1), cumulative=True)
    stage.ack(back, WireId(1, 4), cumulative=True)  # of before: its own index was not delivered
    assert subscription.cursor.counts() == (3, 0, 0, 2)


def test_a_part_of_a_batch_is_judged_message_by_message(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), batch(0, 4))
    consumer = stage.consumer(subscription, permits=10)
    stage.seek(subscription, 2)
    back = stage.consumer(subscription, permits=10)
    assert got(back) == ["0.2", "0.3"]
    stage.ack(back, WireId(1, 0, ack_set=(0b1011,)))
    assert subscription.cursor.counts() == (0, 1, 0, 3)
    assert consumer.is_closed


@pytest.mark.parametrize("checkpoint", [True, False])
def test_staleness_survives_a_restart(stage: Stage, checkpoint: bool) -> None:
    subscription = filled(stage)
    stage.consumer(subscription, permits=3)
    stage.seek(subscription, 0)
    back = stage.consumer(subscription, permits=1)  # 0 is delivered in the new epoch
    assert entry_ids(back) == [0]
    if checkpoint:
        stage.checkpoint()
    stage = stage.restarted()
    subscription = stage.topic().subscriptions["s"]
    consumer = stage.consumer(subscription)
    stage.ack(consumer, WireId(1, 0), WireId(1, 1), WireId(1, 2))
    assert subscription.cursor.counts() == (4, 0, 0, 1)


# -- held deliveries -----------------------------------------------------------------------------------


def test_a_delivery_that_ends_staleness_leaves_when_that_is_on_disk(stage: Stage) -> None:
    """Or a crash would make the ack of it look like one from before the seek."""
    subscription = filled(stage)
    stage.consumer(subscription, permits=2)
    stage.seek(subscription, 0)
    stage.engine.holds_journal = True
    back = stage.consumer(subscription, permits=4)
    assert entry_ids(back) == []  # those never delivered queue behind the others
    assert back.unacked == 4
    stage.engine.holds_journal = False
    stage.turn()
    assert entry_ids(back) == [0, 1, 2, 3]
    assert back.held is None


def test_held_deliveries_never_follow_a_close(stage: Stage) -> None:
    subscription = filled(stage)
    stage.consumer(subscription, permits=5)
    stage.seek(subscription, 0)
    stage.engine.holds_journal = True
    back = stage.consumer(subscription, permits=3)
    stage.seek(subscription, 1)
    stage.engine.holds_journal = False
    stage.turn()
    assert [type(one) for one in back.peer.take()] == [pb.CommandCloseConsumer]


def test_held_deliveries_of_an_older_epoch_are_dropped_in_place(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=5, epoch=0)
    entry_ids(consumer)
    in_place(stage, consumer, 0, 1)
    stage.engine.holds_journal = True
    stage.flow(consumer, 3)  # 0, 1, 2 are held
    in_place(stage, consumer, 1, 2)
    stage.flow(consumer, 2)
    stage.engine.holds_journal = False
    stage.turn()
    assert [(one.entry_id, one.consumer_epoch) for one in deliveries(consumer)] == [(1, 2), (2, 2)]
    assert consumer.holds == 0


def test_an_ack_of_a_held_delivery_is_one_of_the_older_delivery(stage: Stage) -> None:
    """Nobody has got the newer one yet: whoever acks it means the one from before the seek."""
    subscription = filled(stage)
    stage.consumer(subscription, permits=5)
    stage.seek(subscription, 0)
    stage.engine.holds_journal = True
    back = stage.consumer(subscription, permits=1)
    answers = stage.ack(back, WireId(1, 0))
    stage.engine.holds_journal = False
    stage.turn()
    assert answers == [None]
    assert subscription.cursor.mark_delete_index == -1
    assert stage.ack(back, WireId(1, 0)) == [None]
    assert subscription.cursor.mark_delete_index == 0


def test_a_delivery_whose_fact_is_refused_ends_the_connection(stage: Stage) -> None:
    subscription = filled(stage)
    stage.consumer(subscription, permits=5)
    stage.seek(subscription, 0)
    stage.files.faults.fail("sync", under="journal")
    back = stage.consumer(subscription, permits=5)
    assert entry_ids(back) == []
    assert "could not be journaled" in back.peer.failures[0]
    subscription.remove_consumer(back)  # as its session does then
    again = stage.consumer(subscription, permits=5)
    assert entry_ids(again) == [0, 1, 2, 3, 4]


# -- in place (PIP-194) --------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", TYPES)
def test_with_an_epoch_the_consumer_stays(stage: Stage, sub_type: int) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, sub_type, permits=3, epoch=0)
    entry_ids(consumer)
    assert in_place(stage, consumer, 1, 1) == [None]
    assert subscription.consumers == [consumer]
    assert not consumer.is_closed
    assert (consumer.permits, consumer.unacked) == (0, 0)
    stage.flow(consumer, 10)
    assert [(one.entry_id, one.consumer_epoch) for one in deliveries(consumer)] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
    ]


@pytest.mark.parametrize("sub_type", TYPES)
def test_no_message_goes_out_behind_a_seek_that_a_crash_may_undo(
    stage: Stage, sub_type: int
) -> None:
    """Or a client would get 3 and 4, and behind the crash 1 and 2, of the same key, for the first time."""
    subscription = filled(stage)
    consumer = stage.consumer(subscription, sub_type, permits=1, epoch=0)
    assert entry_ids(consumer) == [0]
    stage.engine.holds_journal = True
    assert in_place(stage, consumer, 3, 1) == []
    stage.flow(consumer, 10)
    assert entry_ids(consumer) == []
    stage.engine.holds_journal = False
    stage.turn()
    assert entry_ids(consumer) == [3, 4]


def test_messages_wait_for_the_last_of_several_seeks(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, epoch=0)
    stage.engine.holds_journal = True
    in_place(stage, consumer, 1, 1)
    in_place(stage, consumer, 2, 2)
    stage.flow(consumer, 10)
    assert entry_ids(consumer) == []
    stage.engine.holds_journal = False
    stage.turn()
    assert entry_ids(consumer) == [2, 3, 4]


def test_messages_go_out_behind_a_seek_that_the_disk_refused(stage: Stage) -> None:
    """Memory has obeyed it, and what goes out takes the whole state to the disk."""
    subscription = filled(stage)
    consumer = stage.consumer(subscription, epoch=0)
    stage.files.faults.fail("sync", under="journal")
    (error,) = in_place(stage, consumer, 3, 1)
    assert isinstance(error, PersistenceError)
    stage.files.faults.heal()
    stage.flow(consumer, 10)
    assert entry_ids(consumer) == [3, 4]
    found = stage.restarted().topic().subscriptions["s"]
    assert found.cursor.mark_delete_index == 2


@pytest.mark.parametrize("epoch", [5, 4, -1])
def test_an_epoch_must_grow(stage: Stage, epoch: int) -> None:
    """\"The epoch only can bigger than the old epoch in server.\""""
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=2, epoch=5)
    before = subscription.cursor.counts()
    with pytest.raises(StaleEpoch, match=f"epoch {epoch}, it is at 5"):
        subscription.seek_in_place(consumer, 0, epoch, lambda error: None)
    assert subscription.cursor.counts() == before
    assert (consumer.epoch, subscription.cursor.epoch) == (5, 0)


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_the_others_are_closed_and_come_back_at_the_target(stage: Stage, sub_type: int) -> None:
    subscription = filled(stage, 8)
    one = stage.consumer(subscription, sub_type, name="a", permits=8, epoch=0)
    other = stage.consumer(subscription, sub_type, name="b", permits=8)
    deliveries(one), deliveries(other)
    in_place(stage, one, 4, 1)
    assert other.is_closed
    assert [type(heard) for heard in other.peer.take()] == [pb.CommandCloseConsumer]
    back = stage.consumer(subscription, sub_type, name="b", permits=8)
    stage.flow(one, 8)
    assert sorted(entry_ids(one) + entry_ids(back)) == [4, 5, 6, 7]


def test_a_seek_of_a_standby_in_place(stage: Stage) -> None:
    """Failover: the active one is closed, and the one that sought stays, whoever is active then."""
    subscription = filled(stage)
    consumers = [
        stage.consumer(subscription, FAILOVER, name=name, permits=10, epoch=0) for name in "ab"
    ]
    active = subscription.dispatcher.active
    (standby,) = [one for one in consumers if one is not active]
    deliveries(standby)
    in_place(stage, standby, 3, 1)
    assert active.is_closed
    assert subscription.consumers == [standby]
    stage.flow(standby, 10)
    assert entry_ids(standby) == [3, 4]


def test_late_acks_after_a_seek_in_place_are_of_before(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=5, epoch=0)
    in_place(stage, consumer, 0, 1)
    assert stage.ack(consumer, WireId(1, 4), cumulative=True) == [None]
    assert stage.ack(consumer, WireId(1, 2)) == [None]
    assert subscription.cursor.counts() == (5, 0, 0, 0)
    deliveries(consumer)
    stage.flow(consumer, 2)
    assert entry_ids(consumer) == [0, 1]
    assert stage.ack(consumer, WireId(1, 1), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == 1


def test_epochs_of_consumer_and_cursor_only_grow(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=5, epoch=0)
    seen = []
    for step, index in enumerate([3, 0, 5, 2], 1):
        in_place(stage, consumer, index, step * 10)
        subscription.redeliver(consumer, [], 5)
        seen.append((subscription.cursor.epoch, consumer.epoch))
    assert seen == [(1, 10), (2, 20), (3, 30), (4, 40)]
