"""What is done to all topics of a namespace, by its name or by that of its one bundle."""

from __future__ import annotations

from itertools import pairwise

import pytest
from stage.frames import batch, message
from stage.http import Web

from milepost.broker.directory.bundles import hash_of
from milepost.broker.dispatch.dispatchers import SHARED

N = "/admin/v2/namespaces/public/default"
BUNDLE = "0x00000000_0xffffffff"
BASES = [N, f"{N}/{BUNDLE}"]


@pytest.fixture
def web(web: Web) -> Web:
    """Two topics: of each, subscriptions `a` and `b` with four messages that are not acked."""
    stage = web.stage
    for name in ("one", "two"):
        topic = stage.topic(f"persistent://public/default/{name}")
        for subscription in ("a", "b"):
            stage.subscription(topic, subscription)
        stage.publish(stage.producer(topic), message(0), batch(1, 3))
    assert web("PUT unused/partitions", 2).status == 204
    return web


def backlogs(web: Web) -> dict[str, int]:
    return {
        f"{topic.name.local_name}/{name}": one.cursor.backlog
        for topic in web.stage.broker.topics.values()
        for name, one in topic.subscriptions.items()
    }


@pytest.mark.parametrize("base", BASES)
def test_every_topic_is_closed_and_opened_by_the_next_who_comes(web: Web, base: str) -> None:
    before = dict(web.stage.broker.topics)
    assert web(f"PUT {base}/unload").status == 204
    assert not web.stage.broker.topics
    assert all(topic.is_closed for topic in before.values())
    assert web("GET one/stats").json["subscriptions"]["a"]["messagesBacklog"] == 4


@pytest.mark.parametrize("base", BASES)
def test_backlogs_are_cleared_of_all_or_of_one(web: Web, base: str) -> None:
    assert web(f"PUT {N}/unload").status == 204  # what nobody has opened is cleared too
    would = web(f"POST {base}/clearBacklog?dryRun=true")
    assert (would.status, would.json) == (200, {"subscriptions": 4, "messages": 16})
    assert web(f"POST {base}/clearBacklog/a").status == 204
    assert backlogs(web) == {"one/a": 0, "one/b": 4, "two/a": 0, "two/b": 4}
    assert web(f"POST {base}/clearBacklog").status == 204
    assert set(backlogs(web).values()) == {0}
    missing = web(f"POST {base}/clearBacklog/nobody")
    assert (missing.status, missing.reason) == (
        404,
        f"no topic of {base.removeprefix('/admin/v2/namespaces/')} has a subscription nobody",
    )


@pytest.mark.parametrize("base", BASES)
def test_a_subscription_is_deleted_from_all_topics_or_from_none(web: Web, base: str) -> None:
    stage = web.stage
    topic = stage.topic("persistent://public/default/two")
    consumer = stage.consumer(topic.subscriptions["a"], SHARED, permits=1)
    refused = web(f"POST {base}/unsubscribe/a")
    assert refused.status == 412
    assert "consumers connected to persistent://public/default/two" in refused.reason
    assert len(backlogs(web)) == 4
    would = web(f"POST {base}/unsubscribe/a?dryRun=true")
    assert (would.status, would.json) == (200, {"subscriptions": 2, "messages": 8})
    stage.broker.remove_consumer(consumer)
    assert web(f"POST {base}/unsubscribe/a").status == 204
    assert set(backlogs(web)) == {"one/b", "two/b"}
    assert web(f"POST {base}/unsubscribe/a").status == 204  # as upstream
    assert set(stage.restarted().topic(str(topic.name)).subscriptions) == {"b"}


def test_there_is_one_bundle(web: Web) -> None:
    assert web(f"GET {N}/bundles").json == {
        "boundaries": ["0x00000000", "0xffffffff"],
        "numBundles": 1,
    }
    other = web(f"PUT {N}/0x00000000_0x40000000/unload")
    assert (other.status, f"but {BUNDLE}" in other.reason) == (412, True)
    assert web(f"PUT {N}/nonsense/unload").status == 404
    bundle = web("GET /lookup/v2/topic/persistent/public/default/one/bundle")
    assert (bundle.status, bundle.body.decode()) == (200, BUNDLE)


def test_a_namespace_that_is_not_there(web: Web) -> None:
    none = "/admin/v2/namespaces/public/none"
    lines = (f"PUT {none}/unload", f"POST {none}/clearBacklog", f"POST {none}/unsubscribe/a")
    assert web.statuses(*lines) == [404, 404, 404]


# -- more than one -----------------------------------------------------------------------------------


def bundles(web: Web) -> list[str]:
    found = web(f"GET {N}/bundles").json
    assert found["numBundles"] == len(found["boundaries"]) - 1
    assert web(f"GET {N}").json["bundles"] == found
    return [f"{low}_{high}" for low, high in pairwise(found["boundaries"])]


def test_a_bundle_is_split_and_stays_so(web: Web) -> None:
    assert web(f"PUT {N}/{BUNDLE}/split").status == 204
    assert bundles(web) == ["0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"]
    gone = web(f"PUT {N}/{BUNDLE}/split")
    assert (gone.status, BUNDLE in gone.reason) == (412, True)
    assert web(f"PUT {N}/LARGEST/split").status == 204
    assert web(f"PUT {N}/HOT/split?splitAlgorithmName=flow_or_qps_equally_divide").status == 204
    assert len(bundles(web)) == 3, "nobody publishes, so nothing is hot"
    bad = web(f"PUT {N}/LARGEST/split?splitAlgorithmName=halves")
    assert (bad.status, "halves" in bad.reason) == (412, True)
    with web.stage.restarted() as again:
        assert len(bundles(Web(again))) == 3


def test_each_bundle_has_its_topics(web: Web) -> None:
    path = f"{N}/{BUNDLE}/split?splitAlgorithmName=specified_positions_divide"
    one, two = (hash_of(f"persistent://public/default/{name}") for name in ("one", "two"))
    assert web(f"PUT {path}", [max(one, two)]).status == 204
    low, high = bundles(web)
    first, second = ("one", "two") if one < two else ("two", "one")
    for bundle, topic, other in ((low, first, second), (high, second, first)):
        name = f"persistent://public/default/{topic}"
        assert web(f"GET /lookup/v2/topic/persistent/public/default/{topic}/bundle").body == (
            bundle.encode()
        )
        positions = web(f"GET {N}/{bundle}/topicHashPositions").json
        assert positions["topicHashPositions"][name] == hash_of(name)
        asked = web(f"GET {N}/{bundle}/topicHashPositions?topics={topic}").json
        assert list(asked["topicHashPositions"]) == [name]
        listed = web(f"GET /admin/v2/persistent/public/default?bundle={bundle}").json
        assert name in listed
        assert f"persistent://public/default/{other}" not in listed
        assert web(f"DELETE {N}/{bundle}").status == 409
    assert web(f"POST {N}/{low}/clearBacklog/a").status == 204
    assert backlogs(web) == {f"{first}/a": 0, f"{first}/b": 4, f"{second}/a": 4, f"{second}/b": 4}
    assert web(f"PUT {N}/{high}/unload").status == 204
    open_topics = [topic.name.local_name for topic in web.stage.broker.topics.values()]
    assert second not in open_topics
    assert first in open_topics


def test_a_namespace_is_made_with_so_many(web: Web) -> None:
    made = "/admin/v2/namespaces/public/four"
    assert web(f"PUT {made}", {"bundles": {"numBundles": 4, "boundaries": []}}).status == 204
    found = web(f"GET {made}/bundles").json
    assert found["boundaries"] == [
        "0x00000000",
        "0x40000000",
        "0x80000000",
        "0xc0000000",
        "0xffffffff",
    ]
    volatile = "/admin/v2/non-persistent/public/four"
    assert web(f"PUT {volatile}/a").status == 204
    (bundle,) = (
        one
        for one in [f"{low}_{high}" for low, high in pairwise(found["boundaries"])]
        if web(f"GET {volatile}/{one}").json
    )
    assert web(f"GET {volatile}/{bundle}").json == ["non-persistent://public/four/a"]
    assert web(f"GET {volatile}/0x00000000_0x10000000").status == 412
    assert web(f"PUT {made}/{bundle}/split?unload=true").status == 204
    assert web(f"GET {volatile}").json == []
    many = web("PUT /admin/v2/namespaces/public/many", {"bundles": {"numBundles": 99999}})
    assert (many.status, "99999" in many.reason) == (406, True)
