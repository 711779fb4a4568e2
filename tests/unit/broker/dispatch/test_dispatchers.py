"""Dispatch: who gets the next entry, on each subscription type."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import chunk, message
from stage.heard import got
from stage.stage import TOPIC, Stage

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    TYPE_NAMES,
    make_dispatcher,
)
from milepost.broker.subscription.shared_reads import SharedReads
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import ConsumerAssignError, ConsumerBusy, InvalidInput
from milepost.positions.names import TopicName
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import WireId

MakeStage = Callable[..., Stage]


@pytest.fixture
def subscription(stage: Stage) -> Subscription:
    return stage.subscription(stage.topic())


def send(stage: Stage, *frames: bytes) -> None:
    topic = stage.topic()
    stage.publish(topic.producers.get("p") or stage.producer(topic), *frames)


def told(consumer: Consumer) -> list[bool]:
    """Whether it is the active one, each time that its client was told since the last time."""
    assert isinstance(consumer.peer, RecordingPeer)
    changes = consumer.peer.take_all(pb.CommandActiveConsumerChange)
    return [change.is_active for change in changes]


def numbered(first: int, end: int) -> list[bytes]:
    return [message(number) for number in range(first, end)]


def test_types_are_known_by_number_and_name(subscription: Subscription) -> None:
    for sub_type, name in TYPE_NAMES.items():
        dispatcher = make_dispatcher(sub_type, subscription, sticky=False, in_order=True)
        assert (dispatcher.sub_type, dispatcher.type_name) == (sub_type, name)
        assert [t for t in TYPE_NAMES if dispatcher.fits(t, False)] == [sub_type]
    with pytest.raises(InvalidInput, match="subscription type 9"):
        make_dispatcher(9, subscription, sticky=False, in_order=True)


# -- Exclusive -----------------------------------------------------------------------------------------


def test_exclusive_is_for_one(stage: Stage, subscription: Subscription) -> None:
    first = stage.consumer(subscription, name="a", permits=10)
    with pytest.raises(ConsumerBusy, match="a is already connected to s"):
        stage.consumer(subscription, name="b")
    send(stage, *numbered(0, 2))
    subscription.remove_consumer(first)
    second = stage.consumer(subscription, name="b", permits=10)
    assert (got(first), got(second)) == (["0", "1"], ["0", "1"])


# -- Failover ------------------------------------------------------------------------------------------


def test_failover_has_one_active_and_tells_everyone(
    stage: Stage, subscription: Subscription
) -> None:
    first = stage.consumer(subscription, FAILOVER, name="a", permits=10)
    assert told(first) == [True]
    send(stage, *numbered(0, 3))
    assert got(first) == ["0", "1", "2"]
    second = stage.consumer(subscription, FAILOVER, name="b", permits=10)
    active = subscription.dispatcher.active
    standby = {first: second, second: first}[active]
    assert told(standby)[-1] is False
    told(active)
    got(first), got(second)
    stage.ack(active, WireId(1, 0))
    subscription.remove_consumer(active)
    stage.turn()
    assert (told(active), told(standby)) == ([], [True])
    assert got(standby) == ["1", "2"]


def test_a_newcomer_that_takes_over_gets_what_the_other_held(
    stage: Stage, subscription: Subscription
) -> None:
    """By priority: a lower number is higher."""
    first = stage.consumer(subscription, FAILOVER, name="a", priority=1, permits=10)
    send(stage, *numbered(0, 3))
    stage.ack(first, WireId(1, 1))
    second = stage.consumer(subscription, FAILOVER, name="b", priority=0, permits=10)
    assert subscription.dispatcher.active is second
    assert (told(first)[-1], told(second)[-1]) == (False, True)
    assert got(second) == ["0", "2"]
    assert (first.unacked, second.unacked) == (0, 2)
    # What the first one still acks counts: the second one has it, and it is done.
    stage.ack(first, WireId(1, 0))
    assert second.unacked == 1


def test_a_newcomer_that_does_not_is_told_that_it_waits(
    stage: Stage, subscription: Subscription
) -> None:
    first = stage.consumer(subscription, FAILOVER, name="a", priority=0)
    assert told(first) == [True]
    second = stage.consumer(subscription, FAILOVER, name="b", priority=1)
    assert (told(first), told(second)) == ([], [False])


def test_partitions_are_spread_over_consumers(stage: Stage) -> None:
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(TOPIC), 3))
    active = []
    for partition in range(3):
        topic = stage.topic(f"{TOPIC}-partition-{partition}")
        subscription = stage.subscription(topic)
        for name in "abc":
            stage.consumer(subscription, FAILOVER, name=name)
        active.append(subscription.dispatcher.active.name)
    assert active == ["a", "b", "c"]


# -- Shared --------------------------------------------------------------------------------------------


def test_shared_goes_round(make_stage: MakeStage) -> None:
    stage = make_stage(dispatch_round_robin_entries=2)
    subscription = stage.subscription(stage.topic())
    consumers = [stage.consumer(subscription, SHARED, name=name, permits=10) for name in "abc"]
    send(stage, *numbered(0, 7))
    assert [got(one) for one in consumers] == [["0", "1", "6"], ["2", "3"], ["4", "5"]]


def test_shared_passes_by_who_has_no_room(stage: Stage, subscription: Subscription) -> None:
    consumers = [stage.consumer(subscription, SHARED, name=name) for name in "abc"]
    for consumer, permits in zip(consumers, (1, 0, 5), strict=True):
        if permits:
            stage.flow(consumer, permits)
    for number in range(4):
        send(stage, message(number))
    assert [got(one) for one in consumers] == [["0"], [], ["1", "2", "3"]]


def test_the_higher_priority_comes_first_while_it_has_room(
    stage: Stage, subscription: Subscription
) -> None:
    low = stage.consumer(subscription, SHARED, name="a", priority=1, permits=10)
    high = stage.consumer(subscription, SHARED, name="b", priority=0, permits=2)
    also = stage.consumer(subscription, SHARED, name="c", priority=0, permits=2)
    for number in range(6):
        send(stage, message(number))
    assert (got(low), got(high), got(also)) == (["4", "5"], ["0", "2"], ["1", "3"])


def test_chunks_of_a_message_stay_together(stage: Stage, subscription: Subscription) -> None:
    consumers = [stage.consumer(subscription, SHARED, name=name, permits=20) for name in "ab"]
    send(stage, chunk(0, 0, 3), chunk(1, 0, 2), chunk(0, 1, 3), chunk(1, 1, 2), chunk(0, 2, 3))
    heard = [got(one) for one in consumers]
    assert sorted(map(sorted, heard)) == [["0/0", "0/1", "0/2"], ["1/0", "1/1"]]
    assert all(one == sorted(one) for one in heard)


def test_a_chunked_message_goes_whole_to_a_consumer_with_one_permit(
    stage: Stage, subscription: Subscription
) -> None:
    """Its client gives a permit back for every chunk but the last, if only in the end."""
    narrow = stage.consumer(subscription, SHARED, name="a", permits=1)
    other = stage.consumer(subscription, SHARED, name="b")
    send(stage, chunk(0, 0, 3), chunk(0, 1, 3), chunk(0, 2, 3), message(1), message(2))
    assert (got(narrow), got(other)) == (["0/0", "0/1", "0/2"], [])
    assert narrow.permits == -2
    stage.flow(other, 10)
    stage.flow(narrow, 2)
    assert (got(narrow), got(other)) == ([], ["1", "2"])


def test_the_rest_waits_for_its_owner_and_the_others_do_not(
    stage: Stage, subscription: Subscription
) -> None:
    peer = RecordingPeer(writes_max=1)
    slow = stage.consumer(subscription, SHARED, name="a", peer=peer, permits=1)
    send(stage, *[chunk(0, number, 3) for number in range(3)], message(1), message(2))
    quick = stage.consumer(subscription, SHARED, name="b", permits=10)
    assert (got(slow), got(quick)) == (["0/0"], ["1", "2"])
    peer.is_writable, peer.writes_left = True, None
    subscription.rescan()
    stage.turn()
    assert (got(slow), got(quick)) == (["0/1", "0/2"], [])


def test_a_read_for_an_owner_that_left_meanwhile_is_of_no_harm(make_stage: MakeStage) -> None:
    stage = make_stage(tail_size=0)
    stage.broker.read_entries_max = 1
    subscription = stage.subscription(stage.topic())
    send(stage, *[chunk(0, number, 3) for number in range(3)])
    stage.checkpoint()
    first = stage.consumer(subscription, SHARED, name="a")
    stage.flow(first, 1)
    assert got(first) == ["0/0", "0/1", "0/2"]
    subscription.redeliver(first, [], -1)
    stage.broker.reads = SharedReads(stage.engine)  # nothing was read of late
    stage.engine.holds_reads = True
    stage.flow(first, 10)
    while first.handover is None:
        assert stage.engine.release_read()
        stage.turn()
    assert stage.engine.reads_held == 1
    second = stage.consumer(subscription, SHARED, name="b", permits=10)
    subscription.remove_consumer(first)
    stage.engine.holds_reads = False
    stage.turn()
    assert got(second) == ["0/0", "0/1", "0/2"]


def test_a_consumer_that_leaves_in_the_middle_gives_all_of_it_back(
    stage: Stage, subscription: Subscription
) -> None:
    first = stage.consumer(
        subscription, SHARED, name="a", peer=RecordingPeer(writes_max=1), permits=1
    )
    send(stage, *[chunk(0, number, 3) for number in range(3)])
    second = stage.consumer(subscription, SHARED, name="b", permits=10)
    assert (got(first), got(second)) == (["0/0"], [])
    subscription.remove_consumer(first)
    stage.turn()
    assert got(second) == ["0/0", "0/1", "0/2"]


# -- Key_Shared ----------------------------------------------------------------------------------------


def keyed(number: int, key: str) -> bytes:
    return message(number, partition_key=key)


def test_a_key_stays_with_its_consumer(stage: Stage, subscription: Subscription) -> None:
    consumers = [stage.consumer(subscription, KEY_SHARED, name=n, permits=100) for n in "abc"]
    send(stage, *[keyed(number, f"k{number % 7}") for number in range(70)])
    heard = [got(one) for one in consumers]
    assert sorted(int(one) for many in heard for one in many) == list(range(70))
    assert sum(1 for many in heard if many) > 1
    for many in heard:
        assert [int(one) for one in many] == sorted(int(one) for one in many)
    owners = {}
    for owner, many in enumerate(heard):
        for one in many:
            assert owners.setdefault(int(one) % 7, owner) == owner


@pytest.mark.parametrize("names", ["ab", "ba", "xy"])
def test_without_the_ring_two_consumers_halve_the_keys(make_stage: MakeStage, names: str) -> None:
    """Three keys, and consumers of any names: both get some."""
    stage = make_stage(key_shared_consistent_hashing=False)
    subscription = stage.subscription(stage.topic())
    consumers = [stage.consumer(subscription, KEY_SHARED, name=n, permits=100) for n in names]
    send(stage, *[keyed(number, f"key-shared-{number % 3}") for number in range(9)])
    assert [len(got(consumer)) for consumer in consumers] == [3, 6]


def test_a_key_that_has_to_wait_keeps_nobody_else_waiting(
    stage: Stage, subscription: Subscription
) -> None:
    first = stage.consumer(subscription, KEY_SHARED, name="a", key_ranges=[(0, 32767)])
    second = stage.consumer(subscription, KEY_SHARED, name="b", key_ranges=[(32768, 65535)])
    send(stage, *[keyed(number, f"k{number}") for number in range(20)])
    stage.flow(second, 100)
    theirs = got(second)
    stage.flow(first, 100)
    assert sorted([*got(first), *theirs], key=int) == [str(number) for number in range(20)]
    assert 0 < len(theirs) < 20


def test_a_newcomer_gets_a_key_when_the_old_owner_is_done_with_it(
    stage: Stage, subscription: Subscription
) -> None:
    first = stage.consumer(subscription, KEY_SHARED, name="a", permits=100)
    keys = [f"k{number}" for number in range(16)]
    send(stage, *[keyed(number, key) for number, key in enumerate(keys)])
    assert len(got(first)) == 16
    second = stage.consumer(subscription, KEY_SHARED, name="b", permits=100)
    send(stage, *[keyed(16 + number, key) for number, key in enumerate(keys)])
    at_once = got(first)
    assert got(second) == []  # what it owns now is still with the first one
    assert 0 < len(at_once) < 16
    stage.ack(first, *[WireId(1, number) for number in range(16)])
    assert sorted(int(one) - 16 for one in [*at_once, *got(second)]) == list(range(16))


def test_ranges_must_not_overlap(stage: Stage, subscription: Subscription) -> None:
    stage.consumer(subscription, KEY_SHARED, name="a", key_ranges=[(0, 100)])
    with pytest.raises(ConsumerAssignError):
        stage.consumer(subscription, KEY_SHARED, name="b", key_ranges=[(100, 200)])
    with pytest.raises(ConsumerBusy):
        stage.consumer(subscription, KEY_SHARED, name="b")  # the other policy
    assert len(subscription.consumers) == 1


def test_all_types_but_shared_keep_an_order(subscription: Subscription) -> None:
    kept = {
        sub_type: make_dispatcher(sub_type, subscription, sticky=False, in_order=True).keeps_order
        for sub_type in TYPE_NAMES
    }
    assert kept == {EXCLUSIVE: True, FAILOVER: True, KEY_SHARED: True, SHARED: False}
