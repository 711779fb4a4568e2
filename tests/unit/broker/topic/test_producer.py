"""Producer: who comes in whose place, and who wrote an entry."""

from __future__ import annotations

from typing import Any

import pytest
from stage.stage import Stage

from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Topic
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import crc32c

HERE, THERE = RecordingPeer("here"), RecordingPeer("there")
NOWHERE: Any = None


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


def producer(name: str) -> Producer:
    return Producer(1, name, HERE, NOWHERE)


def entry(metadata: bytes, *, checksum: bool = True) -> bytes:
    body = len(metadata).to_bytes(4, "big") + metadata + b"payload"
    return b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body if checksum else body


def metadata(name: str) -> bytes:
    return pb.MessageMetadata(producer_name=name, sequence_id=1, publish_time=2).SerializeToString()


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("name", ["p", "producer-1", "n" * 300, "é"])
def test_an_entry_of_its_own(name: str, checksum: bool) -> None:
    assert producer(name).wrote(entry(metadata(name), checksum=checksum))


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("other", ["q", "producer-", "producer-11", ""])
def test_an_entry_of_somebody_else(other: str, checksum: bool) -> None:
    assert not producer("producer-1").wrote(entry(metadata(other), checksum=checksum))


def test_the_name_need_not_come_first() -> None:
    name, rest = b"\x0a\x01p", b"\x10\x01\x18\x02"
    assert name + rest == metadata("p")
    assert producer("p").wrote(entry(rest + name))
    assert not producer("q").wrote(entry(rest + name))


def test_a_name_that_is_not_text_is_nobodys() -> None:
    assert not producer("p").wrote(entry(b"\x0a\x01\xff\x10\x01\x18\x02"))
