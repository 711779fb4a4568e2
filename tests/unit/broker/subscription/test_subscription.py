"""Subscription: permits, acks, redelivery, limits. Numbers are checked after every step by the stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, marker, message
from stage.heard import deliveries, entry_ids, got, id_of
from stage.stage import Stage

from milepost.broker.dispatch.consumer import PERMITS_MAX
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import ConsumerBusy, LedgerNotFound
from milepost.wire.events import Ack, WireId
from milepost.wire.metadata import split_broker_entry

MakeStage = Callable[..., Stage]
ORDERED = [EXCLUSIVE, FAILOVER]
SHARING = [SHARED, KEY_SHARED]


def filled(stage: Stage, *frames: bytes, **options: Any) -> Subscription:
    topic = stage.topic()
    subscription = stage.subscription(topic, **options)
    if frames:
        stage.publish(stage.producer(topic), *frames)
    return subscription


def numbered(count: int) -> list[bytes]:
    return [message(number) for number in range(count)]


# -- permits -------------------------------------------------------------------------------------------


def test_permits_are_messages(stage: Stage) -> None:
    subscription = filled(stage, *numbered(10))
    consumer = stage.consumer(subscription, permits=3)
    assert got(consumer) == ["0", "1", "2"]
    assert consumer.permits == 0
    stage.flow(consumer, 1)
    assert got(consumer) == ["3"]


def test_an_entry_is_indivisible_and_permits_may_fall_below_zero(stage: Stage) -> None:
    subscription = filled(stage, message(0), batch(1, 10), message(2))
    consumer = stage.consumer(subscription, permits=2)
    assert len(got(consumer)) == 11
    assert consumer.permits == -9
    stage.flow(consumer, 9)
    assert got(consumer) == []
    assert consumer.permits == 0
    stage.flow(consumer, 1)
    assert got(consumer) == ["2"]


def test_permits_are_debited_by_what_the_client_sees(stage: Stage) -> None:
    """PIP-54: or a consumer of half-acked batches would stop with room left."""
    subscription = filled(stage, batch(0, 10), message(1))
    consumer = stage.consumer(subscription, SHARED, permits=10)
    (delivery,) = deliveries(consumer)
    stage.ack(consumer, id_of(delivery, (0b1100000000,)))
    assert consumer.permits == 0
    subscription.redeliver(consumer, [id_of(delivery)], -1)
    stage.flow(consumer, 3)
    assert got(consumer) == ["0.8", "0.9", "1"]
    assert consumer.permits == 0


def test_permits_have_a_maximum(stage: Stage) -> None:
    consumer = stage.consumer(filled(stage))
    for _ in range(3):
        stage.flow(consumer, 2**32 - 1)
    assert consumer.permits == PERMITS_MAX


def test_a_flow_never_moves_the_cursor(stage: Stage) -> None:
    """PIP-194, stage 1."""
    subscription = filled(stage, *numbered(3))
    consumer = stage.consumer(subscription, permits=2)
    before = (subscription.cursor.epoch, subscription.cursor.mark_delete_index)
    stage.flow(consumer, 5)
    assert (subscription.cursor.epoch, subscription.cursor.mark_delete_index) == before


def test_a_consumer_that_cannot_be_written_to_gets_nothing(stage: Stage) -> None:
    consumer = stage.consumer(filled(stage), permits=5)
    consumer.peer.is_writable = False
    stage.publish(stage.producer(stage.topic()), *numbered(2))
    assert got(consumer) == []
    consumer.peer.is_writable = True
    consumer.subscription.rescan()
    stage.turn()
    assert got(consumer) == ["0", "1"]


def test_it_counts_what_went_out(stage: Stage) -> None:
    subscription = filled(stage, message(0), batch(1, 3))
    consumer = stage.consumer(subscription, permits=10)
    sizes = [len(one.entry) - split_broker_entry(one.entry)[1] for one in deliveries(consumer)]
    assert (consumer.messages_out, consumer.bytes_out) == (4, sum(sizes))
    topic = subscription.topic
    assert (topic.messages_out, topic.bytes_out) == (4, sum(sizes))


# -- what a delivery says ------------------------------------------------------------------------------


def test_the_index_of_the_last_message_is_shown_to_those_who_read_it(stage: Stage) -> None:
    subscription = filled(stage, message(0), batch(1, 3))
    shown = []
    for wants in (True, False):
        consumer = stage.consumer(subscription, permits=10)
        consumer.peer.wants_broker_entry = wants
        subscription.redeliver(consumer, [], -1)
        stage.flow(consumer, 10)
        taken = deliveries(consumer)[-2:]
        shown.append([entry and entry.index for entry, _ in map(_broker_entry, taken)])
        subscription.remove_consumer(consumer)
    assert shown == [[0, 3], [None, None]]


def test_it_is_hidden_where_the_operator_wants_that(make_stage: MakeStage) -> None:
    stage = make_stage(expose_broker_entry_metadata=False)
    consumer = stage.consumer(filled(stage, message(0)), permits=10)
    (delivery,) = deliveries(consumer)
    assert _broker_entry(delivery)[0] is None


def _broker_entry(delivery: Any) -> Any:
    return split_broker_entry(delivery.entry)


def test_every_message_carries_the_consumers_epoch(stage: Stage) -> None:
    subscription = filled(stage, *numbered(2))
    consumer = stage.consumer(subscription, permits=10, epoch=4)
    assert {one.consumer_epoch for one in deliveries(consumer)} == {4}


def test_markers_go_to_nobody_and_are_done(stage: Stage) -> None:
    subscription = filled(stage, marker(0), message(1), marker(2), marker(3), message(4), marker(5))
    consumer = stage.consumer(subscription, permits=10)
    assert got(consumer) == ["1", "4"]
    assert consumer.permits == 8
    assert subscription.cursor.counts() == (0, 2, 0, 4)
    stage.ack(consumer, WireId(1, 1), WireId(1, 4))
    assert subscription.cursor.mark_delete_index == 5
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (0, 0, 0, 6)


def test_markers_are_done_with_also_after_a_seek(stage: Stage) -> None:
    """They were acked before it, and no client ever acks them again."""
    subscription = filled(stage, marker(0), message(1), marker(2))
    consumer = stage.consumer(subscription, permits=10)
    stage.seek(subscription, 0)
    consumer = stage.consumer(subscription, permits=10)
    assert got(consumer) == ["1"]
    stage.ack(consumer, WireId(1, 1))
    assert subscription.cursor.mark_delete_index == 2


# -- acks ----------------------------------------------------------------------------------------------


def test_an_ack_of_what_a_reset_skipped_is_answered_when_the_reset_is_on_disk(stage: Stage) -> None:
    """Otherwise a crash would forget both, and the message would come again behind its answered ack."""
    subscription = filled(stage, *numbered(3))
    stage.consumer(subscription, SHARED, permits=3)
    stage.engine.holds_journal = True
    assert stage.seek(subscription, 1) == []
    consumer = stage.consumer(subscription, SHARED)
    assert stage.ack(consumer, WireId(1, 0)) == []
    stage.engine.holds_journal = False
    assert stage.ack(consumer, WireId(1, 0)) == [None]


def test_an_ack_is_answered_when_it_is_on_disk(stage: Stage) -> None:
    subscription = filled(stage, message(0), batch(1, 3))
    consumer = stage.consumer(subscription, permits=10)
    stage.engine.holds_journal = True
    answers = stage.ack(consumer, WireId(1, 0))
    part = stage.ack(consumer, WireId(1, 1, ack_set=(0b101,)))
    assert answers == part == []
    assert subscription.cursor.counts() == (0, 2, 0, 2)  # it has its effect at once
    stage.engine.holds_journal = False
    stage.turn()
    assert answers == part == [None]
    stage = stage.restarted()
    cursor = stage.topic().subscriptions["s"].cursor
    assert cursor.counts() == (2, 0, 0, 2)
    consumer = stage.consumer(stage.topic().subscriptions["s"], permits=10)
    assert got(consumer) == ["1.0", "1.2"]


def test_an_ack_that_is_not_on_disk_is_not_answered_and_comes_again(stage: Stage) -> None:
    subscription = filled(stage, *numbered(2))
    consumer = stage.consumer(subscription, permits=10)
    stage.engine.holds_journal = True
    assert stage.ack(consumer, WireId(1, 0)) == []
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (2, 0, 0, 0)


def test_a_refused_ack_that_comes_again_is_durable_when_it_is_answered(stage: Stage) -> None:
    subscription = filled(stage, *numbered(3))
    consumer = stage.consumer(subscription, permits=10)
    stage.files.faults.fail("sync", under="journal")
    (error,) = stage.ack(consumer, WireId(1, 0))
    assert error is not None
    assert stage.ack(consumer, WireId(1, 0)) == [None]
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (2, 0, 0, 1)


def test_a_cumulative_ack_behind_a_refused_one_covers_it(stage: Stage) -> None:
    subscription = filled(stage, *numbered(5))
    consumer = stage.consumer(subscription, permits=10)
    stage.files.faults.fail("sync", under="journal")
    stage.ack(consumer, WireId(1, 1), cumulative=True)
    assert stage.ack(consumer, WireId(1, 3), cumulative=True) == [None]
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (1, 0, 0, 4)


def test_acks_of_what_others_hold_or_nobody_count(stage: Stage) -> None:
    subscription = filled(stage, *numbered(4))
    one = stage.consumer(subscription, SHARED, permits=2)
    other = stage.consumer(subscription, SHARED)
    stage.ack(other, WireId(1, 0), WireId(1, 3))
    assert (one.unacked, one.messages_acked, other.messages_acked) == (1, 1, 0)
    assert subscription.cursor.counts() == (1, 1, 0, 2)


def test_a_wrong_id_fails_the_command_and_the_others_stand(stage: Stage) -> None:
    subscription = filled(stage, *numbered(3))
    consumer = stage.consumer(subscription, permits=10)
    (error,) = stage.ack(consumer, WireId(1, 0), WireId(9, 9), WireId(1, 1))
    assert isinstance(error, LedgerNotFound)
    assert subscription.cursor.mark_delete_index == 1
    (error,) = stage.ack(consumer, WireId(1, 5), cumulative=True)
    assert isinstance(error, LedgerNotFound)
    assert subscription.cursor.mark_delete_index == 1


def test_the_same_ack_again_changes_nothing_and_is_answered(stage: Stage) -> None:
    subscription = filled(stage, batch(0, 4))
    consumer = stage.consumer(subscription, permits=10)
    for _ in range(3):
        ids = [WireId(1, 0, ack_set=(0b1100,))] * 2
        assert stage.ack(consumer, *ids) == [None]
        assert (consumer.unacked, consumer.messages_acked) == (2, 2)


@pytest.mark.parametrize("sub_type", SHARING)
def test_a_cumulative_ack_on_a_type_that_shares_is_answered_and_ignored(
    stage: Stage, sub_type: int
) -> None:
    subscription = filled(stage, *numbered(3))
    consumer = stage.consumer(subscription, sub_type, permits=10)
    assert stage.ack(consumer, WireId(1, 2), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == -1


@pytest.mark.parametrize("sub_type", ORDERED)
def test_a_cumulative_ack_takes_one_id(stage: Stage, sub_type: int) -> None:
    subscription = filled(stage, *numbered(4))
    consumer = stage.consumer(subscription, sub_type, permits=10)
    assert stage.ack(consumer, WireId(1, 0), WireId(1, 2), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == -1
    assert stage.ack(consumer, WireId(1, 2), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == 2
    assert consumer.unacked == 1


def test_a_cumulative_ack_of_nothing_before_a_ledger_is_no_ack(make_stage: MakeStage) -> None:
    """(ledger, -1): what clients send while the batch that begins a ledger is not done."""
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(4):
        stage.publish(producer, message(number))
    consumer = stage.consumer(subscription, permits=10)
    assert stage.ack(consumer, WireId(1, -1), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == -1
    assert stage.ack(consumer, WireId(2, -1), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == 1


def test_a_cumulative_ack_inside_a_batch_joins_the_individual_ones(stage: Stage) -> None:
    """Trap 12: upstream replaces the set, and delivers again what was acked one by one."""
    subscription = filled(stage, message(0), batch(1, 6))
    consumer = stage.consumer(subscription, permits=10)
    stage.ack(consumer, WireId(1, 1, ack_set=(0b101111,)))  # 1.4
    stage.ack(consumer, WireId(1, 1, ack_set=(0b111100,)), cumulative=True)  # 0 to 1.1
    assert subscription.cursor.mark_delete_index == 2
    subscription.redeliver(consumer, [], -1)
    stage.flow(consumer, 10)
    assert got(consumer)[-3:] == ["1.2", "1.3", "1.5"]
    stage.ack(consumer, WireId(1, 1, ack_set=(0b100000,)), cumulative=True)
    assert subscription.cursor.mark_delete_index == 5
    stage.ack(consumer, WireId(1, 1, ack_set=(0,)), cumulative=True)
    assert subscription.cursor.mark_delete_index == 6


def test_without_acks_at_batch_index_level_a_part_is_not_acked(make_stage: MakeStage) -> None:
    stage = make_stage(batch_index_ack=False)
    subscription = filled(stage, message(0), batch(1, 3))
    consumer = stage.consumer(subscription, permits=10)
    deliveries(consumer)
    assert stage.ack(consumer, WireId(1, 1, ack_set=(0b100,))) == [None]
    assert subscription.cursor.counts() == (0, 4, 0, 0)
    assert stage.ack(consumer, WireId(1, 1, ack_set=(0b100,)), cumulative=True) == [None]
    assert subscription.cursor.counts() == (0, 3, 0, 1)
    subscription.redeliver(consumer, [], -1)
    stage.flow(consumer, 10)
    (delivery,) = deliveries(consumer)
    assert delivery.ack_set == ()
    assert stage.ack(consumer, WireId(1, 1)) == [None]
    assert subscription.cursor.mark_delete_index == 3


# -- release -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", SHARING)
def test_redelivery_counts_belong_to_messages(stage: Stage, sub_type: int) -> None:
    """Trap 9: acking one message of a batch leaves the count of the others alone."""
    subscription = filled(stage, batch(0, 3), message(1))
    consumer = stage.consumer(subscription, sub_type, permits=100)
    deliveries(consumer)
    for count in (1, 2, 3):
        subscription.redeliver(consumer, [WireId(1, 0)], -1)
        stage.turn()
        (again,) = deliveries(consumer)
        assert again.redelivery_count == count
        stage.ack(consumer, WireId(1, 0, ack_set=(0b111 & ~(1 << count - 1),)))
    assert consumer.messages_redelivered == 3 + 2 + 1
    subscription.redeliver(consumer, [WireId(1, 1)], -1)
    stage.turn()
    assert [one.redelivery_count for one in deliveries(consumer)] == [1]


def test_a_consumer_that_leaves_is_no_redelivery(stage: Stage) -> None:
    subscription = filled(stage, *numbered(3))
    one = stage.consumer(subscription, SHARED, permits=10)
    other = stage.consumer(subscription, SHARED, permits=10)
    assert got(one) == ["0", "1", "2"]
    subscription.remove_consumer(one)
    stage.turn()
    assert [one.redelivery_count for one in deliveries(other)] == [0, 0, 0]
    subscription.remove_consumer(one)  # once more changes nothing
    assert other.unacked == 3


def test_what_is_released_comes_before_what_is_new(stage: Stage) -> None:
    subscription = filled(stage, *numbered(6))
    consumer = stage.consumer(subscription, SHARED, permits=3)
    assert entry_ids(consumer) == [0, 1, 2]
    subscription.redeliver(consumer, [WireId(1, 2), WireId(1, 0)], -1)
    stage.flow(consumer, 3)
    assert entry_ids(consumer) == [0, 2, 3]


def test_what_is_with_somebody_else_cannot_be_released(stage: Stage) -> None:
    subscription = filled(stage, *numbered(2))
    one = stage.consumer(subscription, SHARED, permits=10)
    other = stage.consumer(subscription, SHARED, permits=10)
    subscription.redeliver(other, [WireId(1, 0)], -1)
    stage.turn()
    assert (one.unacked, other.unacked) == (2, 0)


# -- limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", SHARING)
def test_a_consumer_that_holds_too_much_waits_until_half_is_acked(
    make_stage: MakeStage, sub_type: int
) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=4)
    subscription = filled(stage, *numbered(12))
    consumer = stage.consumer(subscription, sub_type, permits=100)
    assert entry_ids(consumer) == [0, 1, 2, 3]
    assert consumer.is_blocked
    stage.flow(consumer, 10)
    stage.ack(consumer, WireId(1, 0))
    assert entry_ids(consumer) == []
    stage.ack(consumer, WireId(1, 1))
    assert entry_ids(consumer) == [4, 5]
    assert consumer.is_blocked
    subscription.redeliver(consumer, [WireId(1, 4), WireId(1, 5)], -1)
    stage.turn()
    assert entry_ids(consumer) == [4, 5]  # what it gave back counts no more


def test_a_blocked_consumer_is_no_obstacle_to_others(make_stage: MakeStage) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=2)
    subscription = filled(stage, *numbered(6))
    one = stage.consumer(subscription, SHARED, permits=100)
    other = stage.consumer(subscription, SHARED, permits=100)
    assert (entry_ids(one), entry_ids(other)) == ([0, 1], [2, 3])
    subscription.remove_consumer(other)
    stage.turn()
    third = stage.consumer(subscription, SHARED, permits=100)
    assert entry_ids(third) == [2, 3]


def test_a_subscription_that_holds_too_much_waits_until_half_is_acked(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(max_unacked_messages_per_subscription=6)
    subscription = filled(stage, *numbered(20))
    one = stage.consumer(subscription, SHARED, permits=4)
    other = stage.consumer(subscription, SHARED, permits=100)
    assert (entry_ids(one), entry_ids(other)) == ([0, 1, 2, 3], [4, 5])
    assert subscription.is_blocked
    stage.flow(one, 10)
    stage.ack(one, WireId(1, 0), WireId(1, 1))
    assert entry_ids(one) == entry_ids(other) == []
    stage.ack(other, WireId(1, 4))
    assert subscription.unacked == 6
    assert len(entry_ids(one)) + len(entry_ids(other)) == 3


def test_a_batch_may_pass_a_limit_once(make_stage: MakeStage) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=4)
    subscription = filled(stage, batch(0, 10), message(1))
    consumer = stage.consumer(subscription, SHARED, permits=100)
    assert consumer.unacked == 10
    assert consumer.is_blocked
    stage.ack(consumer, WireId(1, 0, ack_set=(0b11,)))
    assert got(consumer)[10:] == ["1"]


@pytest.mark.parametrize("sub_type", ORDERED)
def test_ordered_types_have_no_limit_but_permits(make_stage: MakeStage, sub_type: int) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=2, max_unacked_messages_per_subscription=2)
    consumer = stage.consumer(filled(stage, *numbered(9)), sub_type, permits=9)
    assert len(entry_ids(consumer)) == 9
    assert not consumer.is_blocked


def test_zero_is_no_limit(make_stage: MakeStage) -> None:
    stage = make_stage(max_unacked_messages_per_consumer=0, max_unacked_messages_per_subscription=0)
    consumer = stage.consumer(filled(stage, *numbered(9)), SHARED, permits=9)
    assert len(entry_ids(consumer)) == 9


# -- consumers -----------------------------------------------------------------------------------------


def test_one_type_at_a_time(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, SHARED)
    with pytest.raises(ConsumerBusy, match="is Shared"):
        stage.consumer(subscription, EXCLUSIVE)
    assert subscription.consumers == [consumer]
    subscription.remove_consumer(consumer)
    stage.consumer(subscription, EXCLUSIVE)


def test_a_subscription_without_consumers_keeps_its_messages(stage: Stage) -> None:
    subscription = filled(stage, *numbered(3))
    assert subscription.demand() is None
    stage.publish(stage.producer(stage.topic()), message(3))
    assert subscription.cursor.counts() == (4, 0, 0, 0)


def test_a_reader_is_not_durable(stage: Stage) -> None:
    subscription = filled(stage, *numbered(3), durable=False)
    assert not subscription.is_durable
    consumer = stage.consumer(subscription, permits=10)
    written = stage.store.journal.last_sequence
    stage.engine.holds_journal = True
    assert stage.ack(consumer, WireId(1, 0)) == [None]  # at once: there is nothing to wait for
    assert subscription.cursor.mark_delete_index == 0
    assert stage.store.journal.last_sequence == written
    assert stage.restarted().topic().subscriptions == {}


# -- trimming, and restarts ----------------------------------------------------------------------------


def test_what_retention_takes_is_done(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(5):
        stage.publish(producer, message(number))
    consumer = stage.consumer(subscription, permits=1)
    stage.checkpoint()
    assert stage.store.trim(topic.log, 4) == 2
    subscription.trim(topic.log.first_index)
    stage.turn()
    assert subscription.cursor.counts() == (1, 0, 0, 0)
    assert consumer.unacked == 0
    stage.flow(consumer, 10)
    assert entry_ids(consumer) == [0, 0]  # 0 of ledger 1, and of ledger 3
    # What is not retained is done: whoever acks it now is not told that something failed.
    assert stage.ack(consumer, WireId(1, 0)) == [None]
    assert stage.ack(consumer, WireId(2, 1, ack_set=(1,)), cumulative=True) == [None]
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (1, 0, 0, 0)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_everything_but_what_was_inflight_survives_a_restart(
    stage: Stage, checkpoint: bool
) -> None:
    subscription = filled(stage, message(0), batch(1, 4), *numbered(5)[2:])
    consumer = stage.consumer(subscription, SHARED, permits=6)
    stage.ack(consumer, WireId(1, 0), WireId(1, 1, ack_set=(0b1010,)))
    stage.seek(subscription, 0)
    consumer = stage.consumer(subscription, SHARED, permits=6)
    stage.ack(consumer, WireId(1, 1, ack_set=(0b0111,)))
    if checkpoint:
        stage.checkpoint()
    stage.ack(consumer, WireId(1, 2))
    before = subscription.cursor.backlog_ranges()
    epoch = subscription.cursor.epoch
    stage = stage.restarted()
    cursor = stage.topic().subscriptions["s"].cursor
    assert cursor.backlog_ranges() == before
    assert cursor.epoch == epoch == 1
    assert cursor.counts().inflight == 0


def test_it_says_who_it_is(stage: Stage) -> None:
    subscription = filled(stage)
    assert "s of persistent://public/default/t" in repr(subscription)
    assert "c of s" in repr(stage.consumer(subscription))


def test_acks_of_one_turn_that_begin_alike_all_survive_a_kill(stage: Stage) -> None:
    """Of a batch the first message, then all: five answered acks, none of them forgotten."""
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), permits=5)
    stage.publish(stage.producer(topic), batch(0, 5))
    answers: list[Any] = []
    for words in ((-2,), (-4,), ()):
        ack = Ack(consumer.consumer_id, False, [WireId(1, 0, ack_set=words)], 1)
        consumer.subscription.ack(consumer, ack, answers.append)
    stage.turn()
    assert answers == [None] * 3
    again = stage.restarted()
    assert again.topic().subscriptions["s"].cursor.counts().acked == 5
