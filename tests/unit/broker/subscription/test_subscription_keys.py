"""Subscription and keys: what one consumer says does not free what another one holds."""

from __future__ import annotations

from stage.frames import message
from stage.heard import deliveries, got, id_of
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import KEY_SHARED

KEYS = 16


def test_a_consumer_gives_back_only_what_it_has(stage: Stage) -> None:
    """A late negative ack, for messages that are with somebody else by now: their keys stay there."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    first = stage.consumer(subscription, KEY_SHARED, name="a", permits=100)
    producer = stage.producer(topic)
    stage.publish(producer, *(message(n, partition_key=f"k{n}") for n in range(KEYS)))
    held = deliveries(first)
    assert len(held) == KEYS
    second = stage.consumer(subscription, KEY_SHARED, name="b", permits=100)
    subscription.redeliver(second, [id_of(one) for one in held], -1)
    stage.publish(producer, *(message(KEYS + n, partition_key=f"k{n}") for n in range(KEYS)))
    assert got(second) == []
    stage.ack(first, *(id_of(one) for one in held))
    moved = got(second)
    assert moved
    assert sorted([*moved, *got(first)], key=int) == [str(KEYS + n) for n in range(KEYS)]
