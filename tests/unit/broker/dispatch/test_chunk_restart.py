"""Chunk restart: a client that would drop a message that begins again is told to forget its half first."""

from __future__ import annotations

import pytest
from stage.frames import chunk, message
from stage.heard import deliveries
from stage.stage import Stage

from milepost.broker.dispatch.chunk_restart import RECOVERY_MS, keeps_halves
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.testing.peer import RecordingPeer
from milepost.wire.metadata import split_entry

CPP = "Pulsar-CPP-v4.2.0"
RESTART = "restart"


def join(
    stage: Stage,
    subscription: Subscription,
    version: str = CPP,
    permits: int = 0,
    writes_max: int | None = None,
) -> Consumer:
    peer = RecordingPeer(client_version=version, writes_max=writes_max)
    return stage.consumer(subscription, SHARED, peer=peer, permits=permits)


def got(consumer: Consumer) -> list[str]:
    heard = []
    for delivery in deliveries(consumer):
        parts = split_entry(delivery.entry)
        if (delivery.ledger_id, delivery.entry_id) == (-1, -1):
            assert parts.is_intact
            assert parts.metadata.uuid == "p-1"
            assert parts.metadata.chunk_id == parts.metadata.num_chunks_from_msg == 3
            heard.append(RESTART)
        else:
            heard.append(parts.payload.decode())
    return heard


WHOLE = ["1/0", "1/1", "1/2"]


@pytest.fixture
def subscription(stage: Stage) -> Subscription:
    return stage.subscription(stage.topic())


def publish(stage: Stage, subscription: Subscription) -> None:
    producer = stage.producer(subscription.topic)
    stage.publish(producer, *(chunk(1, number, 3) for number in range(3)), message(2))


@pytest.mark.parametrize(
    ("version", "keeps"),
    [
        ("Pulsar-CPP-v3.5.1", True),
        ("Pulsar-CPP-v4.2.0", True),
        ("Pulsar-CPP-v4.2.0-pre", True),
        ("Pulsar-CPP-v4.10.0", False),
        ("Pulsar-CPP-v5.0.0", False),
        ("Pulsar-CPP-vx", False),
        ("Pulsar-Java-v4.2.4", False),
        ("unknown", False),
    ],
)
def test_who_keeps_halves(version: str, keeps: bool) -> None:
    assert keeps_halves(version) == keeps


def test_the_first_time_nothing_is_said(stage: Stage, subscription: Subscription) -> None:
    consumer = join(stage, subscription, permits=10)
    publish(stage, subscription)
    assert got(consumer) == [*WHOLE, "2"]
    assert consumer.permits == 6


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_after_a_reconnect(stage: Stage, subscription: Subscription, taken: int) -> None:
    consumer = join(stage, subscription, permits=10, writes_max=taken)
    publish(stage, subscription)
    assert got(consumer) == WHOLE[:taken]
    subscription.remove_consumer(consumer)
    again = join(stage, subscription, permits=10)
    assert got(again) == [RESTART, *WHOLE, "2"]
    # It gives a permit back for every frame that made no message.
    assert again.permits == 10 - 5


def test_others_are_told_nothing(stage: Stage, subscription: Subscription) -> None:
    consumer = join(stage, subscription, "Pulsar-Java-v4.2.4", permits=10, writes_max=2)
    publish(stage, subscription)
    assert got(consumer) == WHOLE[:2]
    subscription.remove_consumer(consumer)
    again = join(stage, subscription, "Pulsar-Java-v4.2.4", permits=10)
    assert got(again) == [*WHOLE, "2"]
    assert again.permits == 6


def test_behind_a_seek(stage: Stage, subscription: Subscription) -> None:
    consumer = join(stage, subscription, permits=10, writes_max=2)
    publish(stage, subscription)
    assert got(consumer) == WHOLE[:2]
    stage.seek(subscription, 0)
    assert got(join(stage, subscription, permits=10)) == [RESTART, *WHOLE, "2"]


def test_when_it_is_given_back(stage: Stage, subscription: Subscription) -> None:
    consumer = join(stage, subscription, permits=10)
    publish(stage, subscription)
    got(consumer)
    subscription.redeliver(consumer, [], -1)
    stage.turn()
    assert got(consumer) == [RESTART, *WHOLE, "2"]


@pytest.mark.parametrize("is_soon", [True, False])
def test_after_a_restart(stage: Stage, subscription: Subscription, is_soon: bool) -> None:
    """Nobody knows what the process before had delivered; but a client that comes late has forgotten
    it anyway."""
    publish(stage, subscription)
    stage = stage.restarted()
    topic = stage.topic()
    publish(stage, stage.subscription(topic))
    consumer = join(stage, stage.subscription(topic))
    consumer.connected_since_ms = topic.opened_ms + RECOVERY_MS - is_soon
    stage.flow(consumer, 100)
    restart = [RESTART] if is_soon else []
    assert got(consumer) == [*restart, *WHOLE, "2", *WHOLE, "2"]


def test_an_exclusive_consumer_is_told_as_well(stage: Stage, subscription: Subscription) -> None:
    peer = RecordingPeer(client_version=CPP, writes_max=1)
    consumer = stage.consumer(subscription, EXCLUSIVE, peer=peer, permits=1)
    publish(stage, subscription)
    assert got(consumer) == WHOLE[:1]
    peer.is_writable, peer.writes_left = True, None
    subscription.redeliver(consumer, [], -1)
    stage.flow(consumer, 10)
    assert got(consumer) == [RESTART, *WHOLE, "2"]


@pytest.mark.parametrize("refused", [False, True])
def test_the_permit_of_a_restart_is_given_back_if_it_never_leaves(
    stage: Stage, subscription: Subscription, refused: bool
) -> None:
    """Behind a seek a delivery waits for the disk; one that is recalled meanwhile took nothing."""
    consumer = stage.consumer(
        subscription, EXCLUSIVE, peer=RecordingPeer(client_version=CPP), epoch=0, permits=10
    )
    publish(stage, subscription)
    assert got(consumer) == [*WHOLE, "2"]
    subscription.seek_in_place(consumer, 0, 1, lambda error: None)
    stage.turn()
    stage.engine.holds_journal = True
    stage.flow(consumer, 10)
    assert got(consumer) == []
    if refused:
        subscription.redeliver(consumer, [], -1)
        assert consumer.permits == 10
        stage.turn()
    stage.engine.holds_journal = False
    stage.turn()
    assert got(consumer) == [RESTART, *WHOLE, "2"]
    assert consumer.permits == 10 - 5
