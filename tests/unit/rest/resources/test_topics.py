"""Partitions of a topic over REST."""

from __future__ import annotations

import pytest
from stage.frames import message
from stage.http import Web
from stage.stage import Stage

from rest.conftest import Ask, Request

PATH = "/admin/v2/persistent/public/default/orders/partitions"


def put(body: bytes, path: str = PATH) -> Request:
    return Request("PUT", path, body)


def test_a_topic_without_partitions_has_none(ask: Ask) -> None:
    topic = PATH.removesuffix("/partitions")
    missing, may_be, _, found = ask(
        f"GET {PATH}",
        f"GET {PATH}?checkAllowAutoCreation=true",
        Request("PUT", topic),
        f"GET {PATH}",
    )
    assert missing.status == 404
    assert may_be.json == found.json == {"partitions": 0, "deleted": False}


def test_a_partitioned_topic_is_made_once(ask: Ask) -> None:
    made, found, again = ask(put(b"4"), f"GET {PATH}", put(b"4"))
    assert (made.status, made.body) == (204, b"")
    assert found.json["partitions"] == 4
    assert again.status == 409
    assert "orders" in again.reason


def test_asking_may_create_as_the_settings_say(ask: Ask) -> None:
    settings = {"allow_auto_topic_creation_type": "partitioned", "default_num_partitions": 3}
    without, asked, found = ask(
        f"GET {PATH}", f"GET {PATH}?checkAllowAutoCreation=true", f"GET {PATH}", **settings
    )
    assert without.status == 404
    assert [one.json["partitions"] for one in (asked, found)] == [3, 3]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"0", 406),
        (b"-1", 406),
        (b"10001", 406),
        (b"4.5", 400),
        (b'"4"', 400),
        (b"true", 400),
        (b"null", 400),
        (b"NaN", 400),
        (b"{", 400),
        (b"{}", 400),
        (b"[" * 10_000, 400),
    ],
)
def test_a_body_that_is_no_number_of_partitions_is_refused(
    ask: Ask, body: bytes, status: int
) -> None:
    answer, found = ask(put(body), f"GET {PATH}")
    assert answer.status == status, answer
    assert answer.reason
    assert found.status == 404


def test_a_partition_has_no_partitions(ask: Ask) -> None:
    path = "/admin/v2/persistent/public/default/orders-partition-1/partitions"
    (answer,) = ask(put(b"4", path))
    assert answer.status == 400


def test_a_topic_is_made_listed_and_deleted(web: Web) -> None:
    assert web.statuses("PUT t", "PUT t") == [204, 409]
    assert web("GET /admin/v2/persistent/public/default").json == ["persistent://public/default/t"]
    assert web("GET /admin/v2/non-persistent/public/default").json == []
    assert web.statuses("DELETE t", "DELETE t", "GET /admin/v2/persistent/public/none") == [
        204,
        404,
        404,
    ]


def test_partitions_grow_and_never_shrink(web: Web) -> None:
    web("PUT many/partitions", 2)
    assert web("POST many/partitions", 4).status == 204
    assert web("POST many/partitions", 3).status == 422
    assert web("POST none/partitions", 3).status == 409
    assert web("GET many/partitions").json["partitions"] == 4
    assert web("GET partitioned").json == ["persistent://public/default/many"]
    assert len(web("GET /admin/v2/persistent/public/default").json) == 4
    again = Web(web.stage.restarted())
    assert again("GET many/partitions").json["partitions"] == 4


def test_a_partitioned_topic_may_have_properties(web: Web) -> None:
    kind = "application/vnd.partitioned-topic-metadata+json"
    body = {"partitions": 2, "properties": {"team": "blue"}}
    assert web("PUT many/partitions", body, content_type=kind).status == 204
    assert web("GET many/partitions").json == {**body, "deleted": False}
    assert web("GET many/properties").json == {"team": "blue"}
    assert web("PUT many/properties", {"team": "red", "floor": "2"}).status == 204
    assert web("DELETE many/properties?key=floor").status == 204
    assert web("DELETE many/properties?key=none").status == 204
    again = Web(web.stage.restarted())
    assert again("GET many/properties").json == {"team": "red"}
    assert again("GET many/partitions").json["partitions"] == 2
    web = again
    # What Go's admin client sends for a topic without any.
    none = {"partitions": 2, "properties": None}
    assert web("PUT plain/partitions", none, content_type=kind).status == 204
    assert web("GET plain/partitions").json["partitions"] == 2


def test_names_that_would_be_partitions_of_nothing_are_refused(web: Web) -> None:
    """As upstream: 412 without a partitioned topic of that name, 409 for one that is there."""
    web("PUT many/partitions", 2)
    assert web.statuses("PUT lone-partition-2", "PUT many-partition-1", "PUT many-partition-2") == [
        412,
        409,
        412,
    ]
    assert web.statuses("PUT many", "PUT t", "DELETE many", "DELETE t/partitions") == [
        409,
        204,
        409,
        409,
    ]
    assert web.statuses("DELETE none", "DELETE none/partitions") == [404, 404]


def test_a_partitioned_topic_is_deleted_as_a_whole_or_not_at_all(web: Web) -> None:
    stage = web.stage
    web("PUT many/partitions", 3)
    topic = stage.topic("persistent://public/default/many-partition-1")
    stage.publish(stage.producer(topic), message(0))
    lost = web("DELETE many/partitions?dryRun=true").json
    assert (lost["messages"], lost["ledgers"], lost["subscriptions"]) == (1, 1, 0)
    refused = web("DELETE many/partitions")
    assert refused.status == 412
    assert "1 producers" in refused.reason
    assert web("GET many/partitions").json["partitions"] == 3
    assert web("DELETE many/partitions?force=true").status == 204
    assert web("GET /admin/v2/persistent/public/default").json == []
    assert web("PUT many").status == 204


def test_properties_of_a_topic(web: Web) -> None:
    assert web("PUT t", {"a": "1"}).status == 204
    assert web("PUT t/properties", {"b": "2"}).status == 204
    assert web("GET t/properties").json == {"a": "1", "b": "2"}
    assert web("DELETE t/properties?key=a").status == 204
    assert Web(web.stage.restarted())("GET t/properties").json == {"b": "2"}


def test_what_is_in_use_is_deleted_by_force_only(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    consumer = stage.consumer(stage.subscription(topic), permits=5)
    dry = web("DELETE t?dryRun=true")
    assert (dry.status, dry.json["messages"], dry.json["subscriptions"]) == (200, 2, 1)
    assert web("DELETE t").status == 412
    assert web("DELETE t?force=true").status == 204
    assert consumer.is_closed
    assert not stage.broker.topics
    # Made again it is another topic: nothing of the old one is in it.
    again = stage.topic()
    assert again.log.end_index == 0
    assert again.row.topic_id != topic.row.topic_id
    assert Web(stage.restarted())("GET t/subscriptions").json == []


@pytest.mark.parametrize("damage", ["log", "state"])
def test_a_topic_that_cannot_be_opened_can_be_deleted_by_force(stage: Stage, damage: str) -> None:
    """Its reason is said first. Nothing of it is left for a topic of the same name, also after a restart."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), *map(message, range(3)))
    topic_id, state_id = topic.row.topic_id, subscription.state_id
    stage = stage.restarted(checkpoint=True)
    if damage == "log":
        stage.store._damaged_topics[topic_id] = "its journal is damaged"
    else:
        stage.store.damaged_states[state_id] = "its journal is damaged"
    path = "/admin/v2/persistent/public/default/t"
    web = Web(stage)
    refused = web(f"DELETE {path}")
    assert refused.status == 412
    assert "its journal is damaged; it can be deleted with force only" in refused.reason
    assert web(f"DELETE {path}?force=true").status == 204
    assert web(f"DELETE {path}?force=true").status == 404
    for again in (stage, stage.restarted(checkpoint=True)):
        assert (again.store.damages(), again.store.damaged_states) == ({}, {})
    assert again.topic().log.end_index == 0
    assert not again.topic().subscriptions
