"""Messages that name a time wait for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import batch, chunk, message
from stage.stage import TOPIC, Stage

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.subscription import delayed
from milepost.testing.peer import RecordingPeer
from milepost.wire.metadata import split_entry

MakeStage = Callable[..., Stage]


def got(consumer: Consumer) -> list[bytes]:
    peer = consumer.peer
    assert isinstance(peer, RecordingPeer)
    return [
        split_entry(bytes(heard.entry)).payload for heard in peer.take() if hasattr(heard, "entry")
    ]


def later(stage: Stage, sequence_id: int, delay_ms: int) -> bytes:
    return message(sequence_id, deliver_at_time=stage.clock.wall_ms() + delay_ms)


def consume(stage: Stage, sub_type: int = SHARED, **options: int) -> Consumer:
    subscription = stage.subscription(stage.topic())
    return stage.consumer(subscription, sub_type, permits=options.get("permits", 1000))


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_each_leaves_at_its_time(stage: Stage, sub_type: int) -> None:
    consumer = consume(stage, sub_type)
    producer = stage.producer(stage.topic())
    stage.publish(producer, message(0), later(stage, 1, 5000), later(stage, 2, 3000), message(3))
    assert got(consumer) == [b"0", b"3"]
    assert consumer.subscription.cursor.counts().delayed == 2
    stage.tick(2.999)
    assert got(consumer) == []
    stage.tick(0.001)
    assert got(consumer) == [b"2"]
    stage.tick(2)
    assert got(consumer) == [b"1"]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_other_types_deliver_at_once(stage: Stage, sub_type: int) -> None:
    consumer = consume(stage, sub_type)
    stage.publish(stage.producer(stage.topic()), later(stage, 0, 5000), message(1))
    assert got(consumer) == [b"0", b"1"]


def test_a_time_that_has_passed_delays_nothing(stage: Stage) -> None:
    consumer = consume(stage)
    producer = stage.producer(stage.topic())
    stage.publish(
        producer, later(stage, 0, 0), later(stage, 1, -5000), message(2, deliver_at_time=-1)
    )
    assert got(consumer) == [b"0", b"1", b"2"]


def test_due_messages_leave_in_their_order_before_later_ones(stage: Stage) -> None:
    consumer = consume(stage, permits=1)
    producer = stage.producer(stage.topic())
    stage.publish(producer, later(stage, 0, 2000), later(stage, 1, 1000), message(2), message(3))
    assert got(consumer) == [b"2"]
    stage.tick(5)
    stage.flow(consumer, 10)
    assert got(consumer) == [b"0", b"1", b"3"]


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_restart_changes_no_time(stage: Stage, checkpoint: bool) -> None:
    consumer = consume(stage)
    producer = stage.producer(stage.topic())
    stage.publish(producer, later(stage, 0, 5000), message(1))
    assert got(consumer) == [b"1"]
    stage = stage.restarted(checkpoint=checkpoint)
    consumer = consume(stage)
    assert got(consumer) == [b"1"]
    stage.tick(4.999)
    assert got(consumer) == []
    stage.tick(0.001)
    assert got(consumer) == [b"0"]


def test_a_seek_meets_them_again(stage: Stage) -> None:
    consumer = consume(stage)
    stage.publish(stage.producer(stage.topic()), later(stage, 0, 5000), message(1))
    assert got(consumer) == [b"1"]
    stage.seek(consumer.subscription, 0)
    consumer = consume(stage)
    assert got(consumer) == [b"1"]
    stage.tick(5)
    assert got(consumer) == [b"0"]


def test_what_is_acked_waits_no_more(stage: Stage) -> None:
    consumer = consume(stage)
    stage.publish(stage.producer(stage.topic()), later(stage, 0, 5000), later(stage, 1, 6000))
    subscription = consumer.subscription
    subscription.pass_over([(0, 1)])
    stage.turn()
    assert subscription.cursor.counts().delayed == 1
    stage.tick(5)
    assert got(consumer) == []
    stage.tick(1)
    assert got(consumer) == [b"1"]


def test_batches_and_chunks_wait_whole(stage: Stage) -> None:
    consumer = consume(stage)
    at = {"deliver_at_time": stage.clock.wall_ms() + 1000}
    producer = stage.producer(stage.topic())
    stage.publish(producer, batch(0, 3, **at), chunk(3, 0, 2, **at), chunk(3, 1, 2, **at))
    assert got(consumer) == []
    assert consumer.subscription.cursor.counts().delayed == 5
    stage.tick(1)
    assert len(got(consumer)) == 3


def set_policy(stage: Stage, value: object) -> None:
    policy = POLICIES["delayed_delivery"]
    stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, policy, value))
    stage.turn()


def test_the_policy_switches_it_while_they_wait(stage: Stage) -> None:
    consumer = consume(stage)
    producer = stage.producer(stage.topic())
    stage.publish(producer, later(stage, 0, 5000))
    set_policy(stage, {"active": False})
    assert got(consumer) == [b"0"]
    stage.publish(producer, later(stage, 1, 5000))
    assert got(consumer) == [b"1"]
    set_policy(stage, None)
    stage.publish(producer, later(stage, 2, 5000))
    assert got(consumer) == []


def test_too_long_a_delay_is_refused(stage: Stage) -> None:
    topic = stage.topic()
    set_policy(stage, {"active": True, "maxDeliveryDelayInMillis": 1000})
    peer = RecordingPeer()
    producer = stage.producer(topic, peer=peer)
    stage.publish(producer, message(0, deliver_at_time=1001), message(1, deliver_at_time=1002))
    receipt, error = peer.take()
    assert receipt.sequence_id == 0
    assert (error.sequence_id, error.error) == (1, 22)
    assert "1001 ms" in error.message


def test_another_type_of_subscription_delivers_what_waited(stage: Stage) -> None:
    consumer = consume(stage)
    stage.publish(stage.producer(stage.topic()), later(stage, 0, 5000))
    consumer.subscription.remove_consumer(consumer)
    consumer = consume(stage, EXCLUSIVE)
    assert got(consumer) == [b"0"]


def test_it_can_be_switched_off_for_a_broker(make_stage: MakeStage) -> None:
    stage = make_stage(delayed_delivery=False)
    consumer = consume(stage)
    stage.publish(stage.producer(stage.topic()), later(stage, 0, 5000))
    assert got(consumer) == [b"0"]


def test_very_many_are_put_aside_and_released_some_at_a_time(stage: Stage) -> None:
    """And none of them is early, late or lost for it."""
    count = 3 * delayed.RELEASED_MAX + 7
    consumer = consume(stage, permits=10 * count)
    cursor = consumer.subscription.cursor
    aside: list[int] = []
    consumer.subscription.read_loop.rest = lambda: aside.append(cursor.counts().delayed)
    frames = [later(stage, number, 1000) for number in range(count)]
    stage.publish(stage.producer(stage.topic()), *frames, message(count))
    assert got(consumer) == [b"%d" % count]
    assert cursor.counts().delayed == count
    at_once = delayed.PUT_ASIDE_MAX
    assert aside == list(range(at_once, count + 1, at_once))
    asked: list[int] = []
    consumer.subscription.delay_timer.wake_at = asked.append  # the tick is enough here
    stage.clock.advance(1.0)
    seen: list[bytes] = []
    while cursor.counts().delayed:
        stage.broker._tick()
        stage.turn()
        released = got(consumer)
        assert len(released) <= delayed.RELEASED_MAX
        seen += released
    assert seen == [b"%d" % number for number in range(count)]
    assert len(asked) == count // delayed.RELEASED_MAX


def test_a_type_that_delays_nothing_gets_all_at_once(stage: Stage) -> None:
    count = delayed.PUT_ASIDE_MAX - 1
    consumer = consume(stage)
    frames = [later(stage, number, 1000) for number in range(count)]
    stage.publish(stage.producer(stage.topic()), *frames)
    subscription = consumer.subscription
    assert subscription.cursor.counts().delayed == count
    subscription.remove_consumer(consumer)
    other = stage.consumer(subscription, EXCLUSIVE, permits=1000)
    assert len(got(other)) == count
