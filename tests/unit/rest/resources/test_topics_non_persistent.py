"""Non-persistent topics over REST: made, listed, unloaded and deleted as Apache Pulsar 4.2.4 does it."""

from __future__ import annotations

import pytest
from stage.http import Web
from stage.stage import Stage
from stage.talk import request

from milepost.wire import pulsar_pb2 as pb

N = "/admin/v2/non-persistent/public/default"
A = f"{N}/a"
P = f"{N}/p"


def names(web: Web) -> list[str]:
    return [name.rpartition("/")[2] for name in web(f"GET {N}").json]


def test_one_that_an_operator_made_stays_until_it_is_deleted(web: Web) -> None:
    assert web(f"PUT {A}").status == 204
    web.stage.tick()
    assert names(web) == ["a"]
    assert web(f"GET {A}/stats").json["msgInCounter"] == 0
    assert web(f"GET {A}/partitions").json == {"partitions": 0, "deleted": False}
    again = web(f"PUT {A}")
    assert (again.status, again.reason) == (409, "topic non-persistent://public/default/a exists")
    # What is there without partitions is none that has them.
    assert web(f"PUT {A}/partitions", 2).status == 409
    assert web(f"POST {A}/partitions", 2).status == 409
    assert web(f"DELETE {A}/partitions").status == 409
    assert web(f"DELETE {A}").status == 204
    assert names(web) == []
    assert web(f"DELETE {A}").status == 204, "upstream does not ask whether it was there"


def test_one_that_is_unloaded_is_gone_until_somebody_uses_it(web: Web) -> None:
    assert web(f"PUT {A}").status == 204
    assert web(f"PUT {A}/unload").status == 204
    assert names(web) == []
    assert web(f"PUT {A}/unload").status == 404
    assert web(f"PUT {A}").status == 204
    assert web("PUT /admin/v2/namespaces/public/default/unload").status == 204
    assert names(web) == []


def test_one_in_use_is_deleted_by_force_only(web: Web, stage: Stage) -> None:
    producer = stage.producer(stage.topic("non-persistent://public/default/a"))
    refused = web(f"DELETE {A}")
    assert (refused.status, "1 producers" in refused.reason) == (412, True)
    assert web(f"DELETE {A}?force=true").status == 204
    assert producer.topic.is_closed
    assert names(web) == []


def test_partitions_are_kept_and_each_is_there_when_asked_for(web: Web) -> None:
    assert web(f"PUT {P}/partitions", 3).status == 204
    assert web(f"PUT {P}/partitions", 3).status == 409
    assert web(f"PUT {P}").status == 409
    assert web(f"GET {N}/partitioned").json == ["non-persistent://public/default/p"]
    assert web("GET /admin/v2/persistent/public/default/partitioned").json == []
    assert names(web) == []
    assert web(f"PUT {P}-partition-2").status == 409
    assert web(f"PUT {P}-partition-7").status == 412
    assert web(f"GET {P}-partition-0/stats").status == 200
    assert web(f"GET {P}/stats").status == 404
    assert len(web(f"GET {P}/partitioned-stats").json["partitions"]) == 3
    assert len(web(f"GET {P}/partitioned-internalStats").json["partitions"]) == 3
    assert web(f"GET {P}/subscriptions").json == []
    assert web(f"PUT {P}/unload").status == 204
    assert web(f"POST {P}/partitions", 5).status == 204
    assert web(f"POST {P}/partitions", 4).status == 422
    assert web(f"GET {P}/partitions").json["partitions"] == 5
    assert web(f"DELETE {P}").status == 409
    assert web(f"DELETE {P}/partitions").status == 204
    assert web(f"DELETE {P}/partitions").status == 404
    assert web(f"GET {P}/partitions").status == 404


def test_partitions_survive_the_broker(web: Web, stage: Stage) -> None:
    assert web(f"PUT {P}/partitions", 3).status == 204
    with stage.restarted() as again:
        assert Web(again)(f"GET {P}/partitions").json["partitions"] == 3


def test_nobody_who_watches_a_pattern_hears_of_them(web: Web, stage: Stage) -> None:
    client = stage.client()
    watch = pb.CommandWatchTopicList(
        request_id=0, watcher_id=3, namespace="public/default", topics_pattern=".*"
    )
    assert list(request(stage, client, watch).topic) == []
    assert web(f"PUT {P}/partitions", 3).status == 204
    assert web(f"POST {P}/partitions", 5).status == 204
    assert web(f"DELETE {P}/partitions").status == 204
    assert client.take() == []
    stage.topic()
    assert [type(one) for one in client.take()] == [pb.CommandWatchTopicUpdate]


def test_permissions_and_policies_are_of_one_that_is_there(web: Web) -> None:
    for asked in ("permissions", "retention", "maxProducers"):
        assert web(f"GET {A}/{asked}").status == 404
    assert web(f"PUT {A}").status == 204
    assert web(f"POST {A}/permissions/me", ["produce"]).status == 204
    assert web(f"GET {A}/permissions").json == {"me": ["produce"]}
    assert web(f"POST {A}/maxProducers", 3).status == 204
    assert web(f"GET {A}/maxProducers").json == 3
    assert web(f"DELETE {A}").status == 204
    assert web(f"PUT {A}").status == 204
    assert web(f"GET {A}/permissions").json == {}
    assert web(f"GET {A}/maxProducers").body == b""


def test_its_namespace_is_not_empty(web: Web) -> None:
    made = "/admin/v2/namespaces/public/n"
    for topic in ("a", "p/partitions"):
        assert web(f"PUT {made}").status == 204
        path = f"/admin/v2/non-persistent/public/n/{topic}"
        assert web(f"PUT {path}", *([2] if "/" in topic else [])).status == 204
        assert web(f"DELETE {made}").status == 409
        assert web(f"DELETE {path}").status == 204
        assert web(f"DELETE {made}").status == 204
    assert web("PUT /admin/v2/non-persistent/public/n/a").status == 404


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("POST terminate", 406),
        ("GET properties", 406),
        ("GET getMessageIdByIndex?index=0", 406),
        ("DELETE truncate", 412),
        ("PUT subscription/s", 400),
        ("DELETE subscription/s", 404),
        ("GET lastMessageId", 405),
        ("GET messageid/1", 405),
        ("POST subscription/s/expireMessages/1", 405),
        ("POST all_subscription/expireMessages/1", 405),
        ("POST subscription/s/skip_all", 405),
        ("POST trim", 405),
        ("GET examinemessage", 405),
        ("GET subscription/s/position/1", 405),
        ("PUT compaction", 405),
    ],
)
def test_what_only_a_persistent_topic_has(web: Web, asked: str, status: int) -> None:
    method, _, rest = asked.partition(" ")
    if status == 405:
        assert web(f"{method} {A}/{rest}").status == 404, "it is not there yet"
    assert web(f"PUT {A}").status == 204
    answer = web(f"{method} {A}/{rest}")
    assert answer.status == status
    assert answer.reason
