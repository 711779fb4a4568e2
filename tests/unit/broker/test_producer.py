"""Producer: who comes in whose place."""

from __future__ import annotations

import pytest
from stage.stage import Stage

from milepost.broker.producer import Producer
from milepost.broker.topic import Topic
from milepost.testing.peer import RecordingPeer

HERE, THERE = RecordingPeer("here"), RecordingPeer("there")


@pytest.fixture
def topic(stage: Stage) -> Topic:
    return stage.topic()


@pytest.mark.parametrize(
    ("producer_id", "name", "peer", "epoch", "expected"),
    [
        (1, "p", HERE, 1, True),
        (1, "p", HERE, 0, False),  # the same epoch: it asks twice
        (2, "p", HERE, 1, False),
        (1, "q", HERE, 1, False),
        (1, "p", THERE, 1, False),
    ],
)
def test_a_successor_is_the_same_one_of_the_same_connection_with_a_higher_epoch(
    topic: Topic, producer_id: int, name: str, peer: RecordingPeer, epoch: int, expected: bool
) -> None:
    first = Producer(1, "p", HERE, topic)
    other = Producer(producer_id, name, peer, topic, epoch=epoch)
    assert other.is_successor_of(first) is expected
    assert not first.is_successor_of(other)


def test_it_says_who_it_is(topic: Topic) -> None:
    assert repr(Producer(1, "p", HERE, topic)) == f"<Producer p of {topic.name}>"
