"""REACHED_END_OF_TOPIC: once, when all is read, and only to clients that know it."""

from __future__ import annotations

from stage.frames import message
from stage.stage import Stage
from stage.talk import SHARED, flow, subscribe

from milepost.broker import upkeep
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery


def test_the_end_comes_behind_the_last_message(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    client = stage.client(client_version="Pulsar-Java-v4.2.0")
    subscribe(stage, client, initialPosition=pb.CommandSubscribe.Earliest)
    stage.run(upkeep.terminate(stage.broker, topic))
    assert client.take_all(pb.CommandReachedEndOfTopic) == []
    flow(stage, client, 1)
    assert client.take_all(pb.CommandReachedEndOfTopic) == []
    flow(stage, client, 5)
    kinds = [type(one) for one in client.take()]
    assert kinds[-2:] == [Delivery, pb.CommandReachedEndOfTopic]
    flow(stage, client, 5)
    assert client.take_all(pb.CommandReachedEndOfTopic) == []


def test_who_has_everything_is_told_at_once(stage: Stage) -> None:
    topic = stage.topic()
    knows = stage.client(client_version="Pulsar-Java-v4.2.0")
    knows_not = stage.client(client_version="Pulsar-CPP-v4.2.0")
    subscribe(stage, knows, "a", permits=5)
    subscribe(stage, knows_not, "b", permits=5)
    stage.run(upkeep.terminate(stage.broker, topic))
    assert len(knows.take_all(pb.CommandReachedEndOfTopic)) == 1
    assert knows_not.take_all(pb.CommandReachedEndOfTopic) == []


def test_what_is_not_due_yet_is_still_to_come(stage: Stage) -> None:
    topic = stage.topic()
    client = stage.client(client_version="Pulsar-Java-v4.2.0")
    subscribe(stage, client, "s", SHARED, permits=5)
    due = stage.clock.wall_ms() + 3000
    stage.publish(stage.producer(topic), message(0), message(1, deliver_at_time=due))
    stage.run(upkeep.terminate(stage.broker, topic))
    assert client.take_all(pb.CommandReachedEndOfTopic) == []
    stage.tick(4)
    assert len(client.take_all(pb.CommandReachedEndOfTopic)) == 1
