"""Compaction over REST."""

from __future__ import annotations

from stage.frames import message
from stage.http import Web


def test_it_is_started_and_its_status_told(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    frames = [message(number, partition_key="k") for number in range(3)]
    stage.publish(stage.producer(topic), *frames)
    assert web("GET t/compaction").json == {"status": "NOT_RUN", "lastError": ""}
    stage.engine.holds_catalog = True
    assert web("PUT t/compaction").status == 204
    assert web("GET t/compaction").json["status"] == "RUNNING"
    assert web("PUT t/compaction").status == 409
    stage.engine.holds_catalog = False
    stage.turn()
    assert web("GET t/compaction").json["status"] == "SUCCESS"
    stats = web("GET t/stats").json["compaction"]
    assert stats["lastCompactionRemovedEventCount"] == 2
    assert stats["lastCompactionSucceedTimestamp"] == stage.clock.wall_ms()


def test_a_topic_that_is_not_there(web: Web) -> None:
    assert web("PUT none/compaction").status == 404
    assert web("GET none/compaction").status == 404
