"""SelfCheck: a message that really makes its way, and what stops it."""

from __future__ import annotations

from pathlib import Path

import pytest
from stage.stage import Stage

from milepost.broker.monitoring import self_check
from milepost.broker.monitoring.self_check import TOPIC, SelfCheck, room_at
from milepost.broker.operations import topic_lifecycle
from milepost.errors import PersistenceError, ServiceNotReady


def test_room_is_what_the_file_system_says(tmp_path: Path) -> None:
    room = room_at(tmp_path)
    assert room is not None
    assert 0 < room.free_bytes <= room.size_bytes
    assert room_at(tmp_path / "none") is None


def test_a_message_makes_its_way(stage: Stage) -> None:
    check = SelfCheck(stage.broker)
    stage.run(check.check())
    stage.run(check.check())
    topic = stage.topic(str(TOPIC))
    assert topic.messages_in == topic.messages_out == 2
    assert not topic.subscriptions
    assert not topic.producers


def test_a_disk_that_fails_is_told(stage: Stage) -> None:
    check = SelfCheck(stage.broker)
    stage.run(check.check())
    stage.files.faults.fail("sync", forever=True, under="journal")
    failed = stage.loop.begin(check.check())
    stage.turn()
    assert isinstance(failed.exception(), PersistenceError)
    assert not stage.topic(str(TOPIC)).subscriptions


def test_who_asks_meanwhile_gets_the_same_answer(stage: Stage) -> None:
    check = SelfCheck(stage.broker)
    stage.engine.holds_journal = True
    asked = [stage.loop.begin(check.check()) for _ in range(3)]
    stage.turn()
    assert not any(one.done() for one in asked)
    asked[0].cancel()
    stage.engine.holds_journal = False
    stage.turn()
    assert [one.cancelled() for one in asked] == [True, False, False]
    assert stage.topic(str(TOPIC)).messages_in == 1


def test_a_topic_that_is_closed_meanwhile_is_no_disk_failure(stage: Stage) -> None:
    check = SelfCheck(stage.broker)
    topic = stage.topic(str(TOPIC))
    stage.engine.holds_journal = True
    asked = stage.loop.begin(check.check())
    stage.loop.turn()
    closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, topic))
    stage.loop.turn()
    for subscription in list(topic.subscriptions.values()):
        for consumer in list(subscription.consumers):
            stage.broker.close_consumer(consumer)
    stage.engine.holds_journal = False
    stage.turn()
    assert closing.exception() is None
    assert isinstance(asked.exception(), ServiceNotReady)
    stage.run(check.check())


def test_old_checks_are_dropped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "KEPT_MAX", 5)
    check = SelfCheck(stage.broker)
    for _ in range(8):
        stage.run(check.check())
    log = stage.topic(str(TOPIC)).log
    assert (log.first_index, log.end_index) == (6, 8)
