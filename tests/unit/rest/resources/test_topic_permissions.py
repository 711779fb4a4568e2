"""Grants on topics over REST, as upstream's admin client asks for them."""

from __future__ import annotations

import json
from typing import Any

from stage.security import SECURED, bearer

from milepost.broker.broker import Broker
from milepost.positions.names import TopicName
from rest.conftest import Ask, Request

NAMESPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/t"


def post(path: str, body: Any) -> Request:
    return Request("POST", path, json.dumps(body).encode())


async def _make_topic(broker: Broker) -> None:
    await broker.topic(TopicName.parse("persistent://public/default/t"))
    await broker.create_partitioned_topic(TopicName.parse("persistent://public/default/p"), 2)


def test_grants_on_a_topic_show_those_of_its_namespace_too(ask: Ask) -> None:
    *made, found, gone, last = ask(
        _make_topic,
        post(f"{NAMESPACE}/permissions/a", ["produce"]),
        post(f"{TOPIC}/permissions/a", ["consume"]),
        post(f"{TOPIC}/permissions/b", ["consume"]),
        f"GET {TOPIC}/permissions",
        f"DELETE {TOPIC}/permissions/a",
        f"GET {TOPIC}/permissions",
    )
    assert [one.status for one in (*made, gone)] == [204] * 4
    assert found.json == {"a": ["consume", "produce"], "b": ["consume"]}
    assert last.json == {"a": ["produce"], "b": ["consume"]}


def test_many_topics_at_once(ask: Ask) -> None:
    path = "/admin/v2/namespaces"
    topics = ["persistent://public/default/t", "persistent://public/default/p"]
    grants = [{"topic": topic, "role": "a", "actions": ["consume"]} for topic in topics]
    made, on_topic, on_partitioned, gone, none = ask(
        _make_topic,
        post(f"{path}/grantPermissionsOnTopics", grants),
        f"GET {TOPIC}/permissions",
        "GET /admin/v2/persistent/public/default/p/permissions",
        post(
            f"{path}/revokePermissionsOnTopics",
            [{"topic": topic, "role": "a"} for topic in topics],
        ),
        f"GET {TOPIC}/permissions",
    )
    assert (made.status, gone.status) == (204, 204)
    assert on_topic.json == on_partitioned.json == {"a": ["consume"]}
    assert none.json == {}


def test_many_topics_are_of_one_namespace_that_the_caller_administers(ask: Ask) -> None:
    path = "/admin/v2/namespaces/grantPermissionsOnTopics"

    def body(*topics: str) -> bytes:
        return json.dumps(
            [{"topic": topic, "role": "a", "actions": ["consume"]} for topic in topics]
        ).encode()

    here, there = "persistent://public/default/t", "persistent://pulsar/system/t"
    mixed, none, stranger = ask(
        _make_topic,
        Request("POST", path, body(here, there), bearer("root")),
        Request("POST", path, b"[]", bearer("root")),
        Request("POST", path, body(here), bearer("stranger")),
        **SECURED,
    )
    assert [one.status for one in (mixed, none, stranger)] == [400, 400, 403]


def test_a_topic_made_again_has_none_of_the_old_grants(ask: Ask) -> None:
    *_, found = ask(
        _make_topic,
        post(f"{TOPIC}/permissions/a", ["consume"]),
        f"DELETE {TOPIC}?force=true",
        lambda broker: broker.topic(TopicName.parse("persistent://public/default/t")),
        f"GET {TOPIC}/permissions",
    )
    assert found.json == {}
