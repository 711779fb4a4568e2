"""Numbers of a broker as JSON."""

from __future__ import annotations

from stage.frames import message
from stage.http import Web
from stage.stage import Stage


def test_numbers_by_namespace(web: Web, stage: Stage) -> None:
    for name in ("a", "b"):
        topic = stage.topic(f"persistent://public/default/{name}")
        stage.consumer(stage.subscription(topic, "s"))
        stage.publish(stage.producer(topic), message(0), message(1))
    client = stage.client()
    rows = web("GET /admin/v2/broker-stats/metrics").json
    assert [row["dimensions"].get("namespace") for row in rows] == ["public/default", None]
    numbers = rows[0]["metrics"]
    assert (numbers["brk_no_of_topics"], numbers["brk_no_of_consumers"]) == (2, 2)
    assert (numbers["brk_msg_backlog"], numbers["brk_no_of_producers"]) == (4, 2)
    assert numbers["brk_storage_size"] > 0
    assert rows[1]["dimensions"]["cluster"] == "standalone"
    assert rows[1]["metrics"]["brk_active_connections"] == 1
    client.hang_up()


def test_what_there_is_to_carry(web: Web, stage: Stage) -> None:
    topic = stage.topic("persistent://public/default/a")
    stage.consumer(stage.subscription(topic, "s"))
    report = web("GET /admin/v2/broker-stats/load-report").json
    assert (report["numTopics"], report["numConsumers"], report["numProducers"]) == (1, 1, 0)
    assert report["pulsarServiceUrl"].startswith("pulsar://")
