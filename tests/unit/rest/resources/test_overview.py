"""What a person sees first: sums, trouble first, topics to search; bounded, whatever there is."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from stage.frames import message
from stage.http import Web
from stage.stage import Stage

from milepost.broker.monitoring import broker_watch

OVERVIEW = "/milepost/v1/overview"
TOPICS = "/milepost/v1/topics"


@pytest.fixture
def web(stage: Stage) -> Web:
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        topic = stage.topic(f"persistent://public/default/{name}")
        stage.subscription(topic, "s")
        stage.publish(stage.producer(topic), *map(message, range(count)))
    consumer = stage.consumer(
        stage.broker.topics["persistent://public/default/c"].subscriptions["s"]
    )
    stage.flow(consumer, 1)
    web = Web(stage)
    assert web("PUT many/partitions", 2).status == 204
    return web


def test_the_most_troubled_first_and_sums_of_all(web: Web) -> None:
    found = web(f"GET {OVERVIEW}").json
    assert [line["topic"].rpartition("/")[2] for line in found["lines"]][:2] == ["b", "a"]
    assert (found["subscriptions"], found["backlog"], found["consumers"]) == (3, 6, 1)
    assert found["verdicts"]["NO_CONSUMER"] == found["in_trouble"] == 2
    assert (found["is_complete"], found["topics_seen"]) == (True, found["topics"])
    assert found["stored_bytes"] > 0


def test_pages_of_lines(web: Web) -> None:
    whole = web(f"GET {OVERVIEW}").json["lines"]
    paged = [web(f"GET {OVERVIEW}?skip={skip}&limit=1").json["lines"][0] for skip in range(3)]
    assert paged == whole
    assert web(f"GET {OVERVIEW}?limit=201").status == 400


def test_one_survey_serves_all_who_look_shortly_after(web: Web) -> None:
    before = web(f"GET {OVERVIEW}").json
    web.stage.subscription(web.stage.broker.topics["persistent://public/default/a"], "other")
    assert web(f"GET {OVERVIEW}").json["subscriptions"] == before["subscriptions"]
    web.stage.tick(broker_watch.FRESH_S + 1)
    assert web(f"GET {OVERVIEW}").json["subscriptions"] == before["subscriptions"] + 1


def test_a_survey_remembers_the_worst_and_counts_all(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_watch, "LINES_MAX", 1)
    found = web(f"GET {OVERVIEW}").json
    assert [line["topic"].rpartition("/")[2] for line in found["lines"]] == ["b"]
    assert found["subscriptions"] == 3


def test_of_a_namespace(web: Web) -> None:
    assert web("GET /milepost/v1/namespaces/public/default/overview").json["subscriptions"] == 3
    assert web("GET /milepost/v1/namespaces/pulsar/system/overview").json["subscriptions"] == 0
    assert web("GET /milepost/v1/namespaces/public/none/overview").status == 404


def test_topics_are_searched_and_a_partitioned_one_is_one(web: Web) -> None:
    found = web(f"GET {TOPICS}?search=default").json
    rows = {row["name"].rpartition("/")[2]: row for row in found["topics"]}
    assert list(rows) == ["a", "b", "c", "many"]
    assert (rows["many"]["partitions"], rows["b"]["partitions"]) == (2, 0)
    assert (rows["b"]["messages"], rows["b"]["backlog"], rows["b"]["verdict"]) == (
        3,
        3,
        "NO_CONSUMER",
    )
    assert rows["many"]["verdict"] == ""
    assert web(f"GET {TOPICS}?search=/man").json["found"] == 1
    assert web("GET /milepost/v1/namespaces/public/default/topics").json["found"] == 4


def test_topics_come_in_pages(web: Web) -> None:
    names: list[str] = []
    after: str | None = ""
    while after is not None:
        page = web(f"GET {TOPICS}?search=default&limit=3&after={quote(after, safe='')}").json
        assert len(page["topics"]) <= 3
        names += [row["name"].rpartition("/")[2] for row in page["topics"]]
        after = page["after"]
    assert names == ["a", "b", "c", "many"]
