"""What the catalog knows of a topic."""

from __future__ import annotations

from stage.frames import message
from stage.http import Web


def test_ledgers_cursors_and_since_when(web: Web) -> None:
    stage = web.stage
    made_ms = stage.clock.wall_ms()
    assert web("PUT t", {"owner": "shop"}).status == 204
    topic = stage.topic()
    stage.subscription(topic)
    stage.subscription(topic, "reader", durable=False)
    stage.publish(stage.producer(topic), message(0), message(1))
    stage.clock.advance(60)
    web = Web(stage.restarted())
    found = web("GET t/internal-info").json
    assert found["creationDate"].startswith("20")
    assert [one["entries"] for one in found["ledgers"]] == [2]
    assert set(found["cursors"]) == {"s"}
    assert found["cursors"]["s"]["markDelete"]["entryId"] == -1
    assert found["properties"] == {"owner": "shop"}
    assert web("GET t/stats").json["topicCreationTimeStamp"] == made_ms


def test_a_topic_that_did_not_note_it_began_with_its_first_message(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    topic.row = topic.row._replace(doc={})
    stage.clock.advance(5)
    came_ms = stage.clock.wall_ms()
    stage.publish(stage.producer(topic), message(0))
    stage.clock.advance(5)
    assert topic.created_ms == came_ms


def test_of_a_partitioned_topic_each_partition(web: Web) -> None:
    assert web("PUT parts/partitions", 2).status == 204
    found = web("GET parts/internal-info").json
    name = "persistent://public/default/parts-partition-"
    assert set(found["partitions"]) == {f"{name}0", f"{name}1"}


def test_what_is_not_there(web: Web) -> None:
    assert web("GET none/internal-info").status == 404
    volatile = "GET /admin/v2/non-persistent/public/default/t/internal-info"
    assert web(volatile).status == 404
