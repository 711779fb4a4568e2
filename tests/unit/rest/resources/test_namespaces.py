"""Topics of a namespace over REST."""

from __future__ import annotations

from stage.http import Web

from rest.conftest import Ask, Request

TOPICS = "GET /admin/v2/namespaces/public/default/topics"


def test_topics_are_listed_by_full_name(ask: Ask) -> None:
    path = "/admin/v2/persistent/public/default/orders/partitions"
    empty, _, some, every, other = ask(
        TOPICS,
        Request("PUT", path, b"2"),
        TOPICS,
        f"{TOPICS}?mode=ALL",
        f"{TOPICS}?mode=NON_PERSISTENT",
    )
    orders = [f"persistent://public/default/orders-partition-{n}" for n in range(2)]
    assert [empty.json, some.json, every.json, other.json] == [[], orders, orders, []]


def test_a_mode_or_name_that_is_none_is_refused(ask: Ask) -> None:
    mode, name = ask(f"{TOPICS}?mode=SOME", "GET /admin/v2/namespaces/public/$/topics")
    assert mode.status == name.status == 400
    assert "mode" in mode.reason


NAMESPACES = "/admin/v2/namespaces"


def test_a_namespace_is_made_and_deleted(web: Web) -> None:
    assert web(f"GET {NAMESPACES}/public").json == ["public/default"]
    assert web(f"PUT {NAMESPACES}/public/shop").status == 204
    assert web(f"PUT {NAMESPACES}/public/shop", {"bundles": {"numBundles": 4}}).status == 409
    assert web(f"GET {NAMESPACES}/public").json == ["public/default", "public/shop"]
    assert web(f"GET {NAMESPACES}/public/shop").json["replication_clusters"] == ["standalone"]
    assert web("PUT /admin/v2/persistent/public/shop/t").status == 204
    again = Web(web.stage.restarted())
    assert again(f"DELETE {NAMESPACES}/public/shop").status == 409
    assert again("DELETE /admin/v2/persistent/public/shop/t").status == 204
    assert again(f"DELETE {NAMESPACES}/public/shop?force=true").status == 405
    assert again(f"DELETE {NAMESPACES}/public/shop").status == 204
    assert again(f"DELETE {NAMESPACES}/public/shop").status == 404
    assert again("PUT /admin/v2/persistent/public/shop/t").status == 404


def test_properties_are_added_changed_and_removed(web: Web) -> None:
    base = f"{NAMESPACES}/public/default"
    assert web(f"GET {base}/properties").json == {}
    assert web(f"PUT {base}/property/k/v%20w").status == 204
    assert web(f"PUT {base}/properties", {"a": "b", "c": "d"}).status == 204
    web = Web(web.stage.restarted())
    assert web(f"GET {base}/properties").json == {"k": "v w", "a": "b", "c": "d"}
    assert web(f"GET {base}").json["properties"] == {"k": "v w", "a": "b", "c": "d"}
    one, none = web(f"GET {base}/property/k"), web(f"GET {base}/property/none")
    assert (one.status, one.body, none.status, none.body) == (200, b"v w", 200, b"")
    was, again = web(f"DELETE {base}/property/k"), web(f"DELETE {base}/property/k")
    assert (was.status, was.body, again.status, again.body) == (200, b"v w", 200, b"")
    assert web(f"PUT {base}/properties", {"a": 1}).status == 400
    assert web(f"DELETE {base}/properties").status == 204
    assert web(f"GET {base}/properties").json == {}
    none_such = f"{NAMESPACES}/public/none"
    assert web.statuses(
        f"GET {none_such}/properties",
        f"PUT {none_such}/property/a/b",
        f"GET {none_such}/property/a",
    ) == [404, 404, 404]


def test_the_clusters_of_a_namespace(web: Web) -> None:
    assert web(f"GET {NAMESPACES}/public/default/replication").json == ["standalone"]


def test_what_is_not_there_is_not_found(web: Web) -> None:
    assert (
        web.statuses(
            f"GET {NAMESPACES}/nobody",
            f"PUT {NAMESPACES}/nobody/shop",
            f"GET {NAMESPACES}/public/none",
            f"GET {NAMESPACES}/public/none/topics",
            f"GET {NAMESPACES}/public/none/bundles",
        )
        == [404] * 5
    )
