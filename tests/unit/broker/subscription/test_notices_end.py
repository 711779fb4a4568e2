"""REACHED_END_OF_TOPIC: once, when all is acked, and only to clients that know it."""

from __future__ import annotations

from typing import Any

from stage.frames import message
from stage.stage import Stage
from stage.talk import SHARED, ack_command, flow, subscribe, wire_id

from milepost.broker.operations import topic_lifecycle
from milepost.wire import pulsar_pb2 as pb

JAVA = "Pulsar-Java-v4.2.0"


def ends(client: Any) -> int:
    """How often a client was told since it was last asked."""
    return len(client.take_all(pb.CommandReachedEndOfTopic))


def ack(stage: Stage, client: Any, *entry_ids: int, cumulative: bool = False) -> None:
    client.say(ack_command(*(wire_id(1, one) for one in entry_ids), cumulative=cumulative))
    stage.turn()


def test_the_end_comes_behind_the_last_ack(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    client = stage.client(client_version=JAVA)
    subscribe(stage, client, initialPosition=pb.CommandSubscribe.Earliest)
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    flow(stage, client, 1)
    assert ends(client) == 0
    flow(stage, client, 5)
    assert ends(client) == 0  # it has all, and may give some of it back
    ack(stage, client, 1)
    assert ends(client) == 0
    ack(stage, client, 0)
    assert ends(client) == 1
    flow(stage, client, 5)
    assert ends(client) == 0


def test_what_one_consumer_holds_is_not_the_end_for_another(stage: Stage) -> None:
    topic = stage.topic()
    first, second = (stage.client(client_version=JAVA) for _ in range(2))
    subscribe(stage, first, "s", SHARED, permits=2)
    subscribe(stage, second, "s", SHARED)
    stage.publish(stage.producer(topic), message(0), message(1))
    flow(stage, second, 5)
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    assert (ends(first), ends(second)) == (0, 0)
    first.close()
    stage.turn()
    assert ends(second) == 0  # what the first one held has come to it
    ack(stage, second, 0, 1)
    assert ends(second) == 1


def test_a_cumulative_ack_of_the_last_message_is_the_end(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    client = stage.client(client_version=JAVA)
    subscribe(stage, client, permits=5, durable=False, initialPosition=pb.CommandSubscribe.Earliest)
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    assert ends(client) == 0
    ack(stage, client, 1, cumulative=True)
    assert ends(client) == 1


def test_what_an_operator_skips_is_not_waited_for(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    client = stage.client(client_version=JAVA)
    subscribe(stage, client, initialPosition=pb.CommandSubscribe.Earliest)
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    topic.subscriptions["s"].skip(2)
    stage.turn()
    assert ends(client) == 1


def test_a_consumer_that_has_everything_is_told_at_once(stage: Stage) -> None:
    topic = stage.topic()
    knows = stage.client(client_version=JAVA)
    knows_not = stage.client(client_version="Pulsar-CPP-v4.2.0")
    subscribe(stage, knows, "a", permits=5)
    subscribe(stage, knows_not, "b", permits=5)
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    assert ends(knows) == 1
    assert ends(knows_not) == 0


def test_a_message_that_is_not_due_yet_is_not_the_end(stage: Stage) -> None:
    topic = stage.topic()
    client = stage.client(client_version=JAVA)
    subscribe(stage, client, "s", SHARED, permits=5)
    due = stage.clock.wall_ms() + 3000
    stage.publish(stage.producer(topic), message(0), message(1, deliver_at_time=due))
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    ack(stage, client, 0)
    assert ends(client) == 0
    stage.tick(4)
    assert ends(client) == 0
    ack(stage, client, 1)
    assert ends(client) == 1
