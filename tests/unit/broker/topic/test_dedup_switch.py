"""Deduplication switched on and off while somebody publishes."""

from __future__ import annotations

import errno

import pytest
from stage.frames import message
from stage.stage import TOPIC, Stage
from stage.talk import produce

from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb


def switch(stage: Stage, value: bool | None) -> None:
    policy = POLICIES["deduplication"]
    stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, policy, value))
    stage.turn()


def test_it_begins_and_ends_with_the_policy(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(producer, message(0), message(0))
    assert topic.log.end_index == 2
    switch(stage, True)
    stage.publish(producer, message(0), message(0), message(1), message(1))
    assert topic.log.end_index == 4
    switch(stage, None)
    stage.publish(producer, message(1))
    assert topic.log.end_index == 5
    switch(stage, True)
    stage.publish(producer, message(1), message(1))
    assert topic.log.end_index == 6


def test_a_restart_knows_what_was_seen(stage: Stage) -> None:
    topic = stage.topic()
    switch(stage, True)
    stage.publish(stage.producer(topic), message(0), message(1))
    stage = stage.restarted()
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(1), message(2))
    assert topic.log.end_index == 3


def test_those_who_publish_wait_for_it(stage: Stage) -> None:
    topic = stage.topic()
    peer = RecordingPeer()
    producer = stage.producer(topic, peer=peer)
    stage.engine.holds_journal = True
    stage.publish(producer, message(0))
    stage.loop.begin(
        stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES["deduplication"], True)
    )
    stage.turn()
    assert (peer.holds, topic.dedup) == (1, None)
    stage.engine.holds_journal = False
    stage.turn()
    assert (peer.holds, topic.dedup is None) == (0, False)
    stage.publish(producer, message(0), message(0))
    assert topic.log.end_index == 2


def test_a_producer_that_comes_meanwhile_is_held_to_what_it_has_on_its_way(stage: Stage) -> None:
    topic = stage.topic()
    stage.engine.holds_catalog = True
    stage.loop.begin(
        stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES["deduplication"], True)
    )
    stage.turn()
    stage.engine.change_one()  # the policy is stored, and the switch begins
    stage.turn()
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    client.say(message(0), message(1))
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert topic.dedup is None
    stage.engine.holds_journal = False
    stage.turn()
    assert topic.last_sequence_id("p") == 1
    client.say(message(0), message(1), message(2))
    stage.turn()
    assert topic.log.end_index == 3


@pytest.mark.parametrize("comes", ["before", "meanwhile"])
def test_it_begins_though_the_disk_refuses_what_was_on_its_way(stage: Stage, comes: str) -> None:
    topic = stage.topic()
    client = stage.client()
    stage.engine.holds_journal = stage.engine.holds_catalog = True
    if comes == "before":
        produce(stage, client)
        client.say(message(0), message(1))
    switching = stage.loop.begin(
        stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES["deduplication"], True)
    )
    stage.turn()
    stage.engine.change_one()  # the policy is stored, and the switch begins
    stage.turn()
    if comes == "meanwhile":
        produce(stage, client)
        client.say(message(0), message(1))
        stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert topic.dedup is None
    stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
    stage.engine.holds_journal = False
    stage.turn()
    switching.result()
    assert len(client.take_all(pb.CommandSendError)) == 2
    produce(stage, client)  # it was closed, and comes again
    client.say(message(0), message(1), message(1))
    stage.turn()
    assert (topic.log.end_index, topic.last_sequence_id("p")) == (2, 1)


def test_a_topic_that_is_unloaded_meanwhile_can_be_opened_again(stage: Stage) -> None:
    topic = stage.topic()
    stage.engine.holds_catalog = True
    stage.loop.begin(
        stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES["deduplication"], True)
    )
    stage.turn()
    stage.engine.change_one()  # the policy is stored, and the switch begins
    stage.turn()
    closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, topic))
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert closing.exception() is None
    again = stage.topic()
    assert again is not topic
    stage.publish(stage.producer(again), message(0), message(0))
    assert again.log.end_index == 1
