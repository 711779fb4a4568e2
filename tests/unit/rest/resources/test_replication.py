"""Replication in a cluster of one, with the statuses of Apache Pulsar 4.2.4."""

from __future__ import annotations

import pytest
from stage.http import Web
from stage.stage import Stage

N = "/admin/v2/namespaces/public/default"
HERE = "standalone"


@pytest.fixture
def web(web: Web, stage: Stage) -> Web:
    stage.subscription(stage.topic("persistent://public/default/t"), "s")
    return web


@pytest.mark.parametrize(
    ("clusters", "status"),
    [([HERE], 200), (["nope"], 403), ([HERE, "nope"], 403), ([], 412), ("standalone", 400)],
)
def test_a_namespace_has_this_cluster_and_no_other(web: Web, clusters: object, status: int) -> None:
    for path in ("replication", "allowedClusters"):
        answer = web(f"POST {N}/{path}", clusters)
        assert answer.status == status, answer
        assert answer.body == b"" or answer.reason
    assert web(f"GET {N}/replication").json == [HERE]
    assert web(f"GET {N}/allowedClusters").json == ([HERE] if status == 200 else [])
    assert web(f"GET {N}").json["allowed_clusters"] == ([HERE] if status == 200 else [])


def test_a_topic_too(web: Web) -> None:
    assert web("GET t/replication").body == b""
    assert web("GET t/replication?applied=true").json == [HERE]
    assert web("POST t/replication", [HERE]).status == 204
    assert web("GET t/replication").json == [HERE]
    for clusters, status in ((["nope"], 412), ([HERE, "nope"], 403), ([], 412)):
        assert web("POST t/replication", clusters).status == status
    assert web("DELETE t/replication").status == 204
    assert web("GET t/replication").body == b""


def test_a_subscription_keeps_whether_it_is_to_be_replicated(web: Web, stage: Stage) -> None:
    path = "t/subscription/s/replicatedSubscriptionStatus"
    name = "persistent://public/default/t"
    assert web(f"GET {path}").json == {name: False}
    assert web(f"POST {path}", True).status == 204
    assert web("GET t/stats").json["subscriptions"]["s"]["isReplicated"]
    assert web("POST t/subscription/none/replicatedSubscriptionStatus", True).status == 404
    assert web(f"POST {path}", "yes").status == 400
    assert Web(stage.restarted())(f"GET {path}").json == {name: True}


def test_a_namespace_keeps_whether_it_was_migrated(web: Web) -> None:
    assert not web(f"GET {N}").json["migrated"]
    assert web(f"POST {N}/migration", True).status == 204
    assert web(f"GET {N}").json["migrated"]
    assert web("POST /admin/v2/namespaces/public/none/migration", True).status == 404


def test_there_are_no_shadow_topics(web: Web) -> None:
    assert web("GET t/shadowTopics").body == b""
    refused = web("PUT t/shadowTopics", ["persistent://public/default/shadow"])
    assert (refused.status, "public/default/shadow" in refused.reason) == (412, True)
    assert web("PUT t/shadowTopics", []).status == 412
    assert web("DELETE t/shadowTopics").status == 204
    assert web.statuses("GET none/shadowTopics", "DELETE none/shadowTopics") == [404, 404]
