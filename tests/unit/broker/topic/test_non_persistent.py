"""Non-persistent topics: who is there gets it, who is slow loses it, and nothing stays."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import batch, chunk, message
from stage.heard import answers, shown
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    answer,
    ask,
    error_of,
    flow,
    produce,
    producer_command,
    request,
    subscribe,
)

from milepost.broker.topic import non_persistent
from milepost.broker.topic.non_persistent import NonPersistentTopic
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

TOPIC = "non-persistent://public/default/t"


def topic_of(stage: Stage) -> NonPersistentTopic:
    topic = stage.broker.topics[TOPIC]
    assert isinstance(topic, NonPersistentTopic)
    return topic


def got(client: Any) -> list[str]:
    return [text for delivery in client.take_all(Delivery) for text in shown(delivery)]


def send(stage: Stage, client: Any, *frames: bytes) -> None:
    client.say(*frames)
    stage.turn()


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
def test_who_is_there_gets_it(stage: Stage, sub_type: int) -> None:
    client, reader = stage.client(), stage.client()
    assert error_of(produce(stage, client, topic=TOPIC)) == ""
    subscribe(stage, reader, sub_type=sub_type, topic=TOPIC, permits=10)
    send(stage, client, message(0), batch(1, 3))
    assert got(reader) == ["0", "1.0", "1.1", "1.2"]
    assert answers(client) == ["0 at 1:0", "1 at 1:1"]
    assert stage.broker.counters.messages_out == 4


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
def test_a_chunked_message_comes_whole(stage: Stage, sub_type: int) -> None:
    client, reader = stage.client(), stage.client()
    produce(stage, client, topic=TOPIC)
    subscribe(stage, reader, sub_type=sub_type, topic=TOPIC, permits=10)
    send(stage, client, chunk(0, 0, 3), chunk(0, 1, 3), message(1), chunk(0, 2, 3), message(2))
    assert got(reader) == ["1", "0/0", "0/1", "0/2", "2"]
    assert topic_of(stage).subscriptions["s"].cursor.backlog == 0


def test_a_chunked_message_that_was_dropped_stops_no_consumer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was to go to a consumer that does not read, and did not stay in memory as long."""
    client, peer = stage.client(), RecordingPeer(writes_max=2)
    produce(stage, client, topic=TOPIC)
    subscribe(stage, stage.client(), sub_type=SHARED, topic=TOPIC)
    subscription = topic_of(stage).subscriptions["s"]
    slow = stage.consumer(subscription, SHARED, peer=peer, permits=1000)
    send(stage, client, message(0), *(chunk(1, number, 3) for number in range(3)))
    assert slow.handover is not None
    monkeypatch.setattr(non_persistent, "BACKLOG_SIZE_MAX", 0)
    send(stage, client, *map(message, range(2, 500)))
    peer.is_writable, peer.writes_left = True, None
    subscription.rescan()
    stage.turn()
    assert slow.handover is None
    send(stage, client, message(500))
    assert got(peer)[-1] == "500"


def test_nothing_of_it_is_written_down(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, topic=TOPIC, producer_access_mode=pb.Exclusive)
    subscribe(stage, client, topic=TOPIC, permits=5)
    before = stage.store.journal.last_sequence
    send(stage, client, message(0))
    assert stage.store.journal.last_sequence == before
    assert stage.store.catalog.topics() == []
    after = stage.restarted()
    assert TOPIC not in after.broker.topics


def test_each_subscription_gets_everything(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, topic=TOPIC)
    readers = [stage.client(), stage.client()]
    for number, reader in enumerate(readers):
        subscribe(stage, reader, f"s{number}", topic=TOPIC, permits=5)
    send(stage, client, message(0), message(1))
    assert [got(reader) for reader in readers] == [["0", "1"], ["0", "1"]]


def test_who_comes_later_gets_what_comes_later(stage: Stage) -> None:
    client, reader = stage.client(), stage.client()
    produce(stage, client, topic=TOPIC)
    send(stage, client, message(0))
    subscribe(stage, reader, topic=TOPIC, permits=5, initialPosition=pb.CommandSubscribe.Earliest)
    send(stage, client, message(1))
    assert got(reader) == ["1"]


def test_what_was_sent_is_done(stage: Stage) -> None:
    """No ack is owed, none is missed, and nothing comes again."""
    client, reader = stage.client(), stage.client()
    produce(stage, client, topic=TOPIC)
    subscribe(stage, reader, topic=TOPIC, sub_type=SHARED, permits=5)
    send(stage, client, message(0))
    assert topic_of(stage).subscriptions["s"].unacked == 0
    assert got(reader) == ["0"]
    reader.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
    ack = pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual, request_id=9)
    ack.message_id.add(ledgerId=77, entryId=0)
    reader.say(ack)
    stage.turn()
    (answered,) = reader.take()
    assert error_of(answered) == ""


def test_who_is_slow_waits_a_little_and_then_loses_the_oldest(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(non_persistent, "BACKLOG_SIZE_MAX", 64 * 1024)
    client, slow, quick = stage.client(), stage.client(), stage.client()
    produce(stage, client, topic=TOPIC)
    subscribe(stage, slow, "slow", topic=TOPIC, permits=1)
    subscribe(stage, quick, "quick", topic=TOPIC, permits=5000)
    for number in range(2000):
        send(stage, client, message(number, b"%d" % number + b" " * 100))
    topic = topic_of(stage)
    assert topic.log.size_bytes < 200 * 1024
    assert len(got(quick)) == 2000
    dropped = topic.messages_dropped
    assert 0 < dropped < 1999
    assert stage.broker.counters.messages_dropped == dropped
    flow(stage, slow, 5000)
    numbers = [int(text) for text in got(slow)]
    assert numbers == [0, *range(dropped + 1, 2000)]


def test_memory_is_given_back_when_everybody_has_everything(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, topic=TOPIC)
    subscribe(stage, client, topic=TOPIC, permits=100_000)
    for number in range(3000):
        send(stage, client, message(number))
    assert topic_of(stage).log.entry_count <= 3 * non_persistent._ROLL.entries_max
    assert topic_of(stage).messages_dropped == 0


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandSeek(consumer_id=0, request_id=0, message_publish_time=0),
        pb.CommandGetLastMessageId(consumer_id=0, request_id=0),
    ],
    ids=["seek", "last id"],
)
def test_there_is_nothing_to_go_back_to(stage: Stage, command: Any) -> None:
    client = stage.client()
    subscribe(stage, client, topic=TOPIC, permits=5)
    assert error_of(request(stage, client, command)) == "NotAllowedError"
    produce(stage, client, topic=TOPIC)
    send(stage, client, message(0))
    assert got(client) == ["0"]


def test_a_topic_without_clients_is_gone(stage: Stage) -> None:
    client, other = stage.client(), stage.client()
    produce(stage, client, topic=TOPIC)
    subscribe(stage, other, topic=TOPIC)
    assert stage.broker.topics_of_namespace("public/default", "ALL") == [TOPIC]
    assert stage.broker.topics_of_namespace("public/default") == []
    client.hang_up()
    stage.broker._tick()
    assert TOPIC in stage.broker.topics
    other.hang_up()
    stage.broker._tick()
    assert TOPIC not in stage.broker.topics


def test_they_can_be_switched_off(make_stage: Any) -> None:
    stage = make_stage(enable_non_persistent_topics=False)
    assert error_of(produce(stage, stage.client(), topic=TOPIC)) == "NotAllowedError"


def test_who_comes_while_a_topic_is_forgotten_is_told_to_come_again(stage: Stage) -> None:
    client, reader = stage.client(), stage.client()
    stage.engine.holds_catalog = True
    schema = pb.Schema(name="", type=pb.Schema.String, schema_data=b"")
    asked = ask(client, producer_command(topic=TOPIC, schema=schema))
    stage.turn()
    assert topic_of(stage).is_idle
    stage.tick(1)
    assert TOPIC not in stage.broker.topics
    stage.engine.holds_catalog = False
    assert error_of(answer(client, asked, stage)) == "ServiceNotReady"
    subscribe(stage, reader, topic=TOPIC, permits=10)
    assert error_of(produce(stage, client, topic=TOPIC, schema=schema)) == ""
    send(stage, client, message(0))
    assert got(reader) == ["0"]
