"""Deduplication switched on and off while somebody publishes."""

from __future__ import annotations

from stage.frames import message
from stage.stage import TOPIC, Stage

from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.testing.peer import RecordingPeer


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
