"""Names that official admin clients encode: a blank, a plus, a slash that is itself encoded."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from stage.http import Web

TRANSACTIONS = "/admin/v3/transactions"
NAMES = ["a%2Fb", "a%2fb", "a b", "a+b", "a%20b", "ä b", "100%"]


@pytest.mark.parametrize("name", NAMES)
def test_a_topic_is_found_by_its_name_as_official_clients_encode_it(web: Web, name: str) -> None:
    full = f"persistent://public/default/{name}"
    path = quote_plus(name)
    assert web(f"PUT {path}").status == 204
    assert web("GET ").json == [full]
    assert str(web.stage.topic(full).name) == full
    for line in (f"GET {path}/stats", f"GET {path}/partitions", f"GET {path}/subscriptions"):
        assert web(line).status == 200
    assert web(f"GET /lookup/v2/topic/persistent/public/default/{path}").status == 200
    assert web(f"GET /admin/v2/schemas/public/default/{path}/schema").status == 404  # it has none
    buffer = f"GET {TRANSACTIONS}/transactionBufferStats/public/default/{path}"
    assert web(buffer).json["ongoingTxnSize"] == 0
    assert web(f"DELETE {path}").status == 204


@pytest.mark.parametrize("name", ["my sub", "a+b", "a/b", "a%2Fb", "a b/c+d", "100%", "ä"])
@pytest.mark.parametrize("encode", [quote, quote_plus])
def test_so_is_a_subscription(web: Web, name: str, encode: Callable[..., str]) -> None:
    """Encoded twice: as a field of a form by the Java client, as a part of a path by ours."""
    topic = web.stage.topic()
    path = quote(encode(name, safe=""), safe="")
    assert web(f"PUT t/subscription/{path}").status == 204
    assert list(topic.subscriptions) == [name]
    assert web(f"POST t/subscription/{path}/skip_all").status == 204
    assert web(f"DELETE t/subscription/{path}").status == 204


@pytest.mark.parametrize("name", ["my sub", "a/b", "ä", "a.b-c_d"])
def test_a_subscription_may_be_encoded_once(web: Web, name: str) -> None:
    topic = web.stage.topic()
    assert web(f"PUT t/subscription/{quote(name, safe='')}").status == 204
    assert list(topic.subscriptions) == [name]


@pytest.mark.parametrize("name", ["my sub", "a+b", "a/b", "ä"])
def test_where_acks_of_transactions_are_asked_for_it_is_encoded_once(web: Web, name: str) -> None:
    """By the Java client too."""
    web.stage.subscription(web.stage.topic(), name)
    path = f"public/default/t/{quote(name, safe='')}"
    assert web(f"GET {TRANSACTIONS}/pendingAckStats/{path}").json["ongoingTxnSize"] == 0
    assert web(f"GET {TRANSACTIONS}/transactionInPendingAckStats/{path}/0/1").status == 200
    state = web(f"GET {TRANSACTIONS}/positionStatsInPendingAck/{path}/9/9")
    assert state.json == {"state": "InvalidPosition"}
    assert web(f"GET {TRANSACTIONS}/pendingAckInternalStats/{path}").status == 405


@pytest.mark.parametrize(
    "line",
    [
        "POST /admin/v2/namespaces/public/default/clearBacklog/team%2Freports",
        "POST /admin/v2/namespaces/public/default/0x00000000_0xffffffff/clearBacklog/team%2Freports",
        "POST /admin/v2/namespaces/public/default/unsubscribe/team%2Freports",
        "POST /admin/v2/namespaces/public/default/0x00000000_0xffffffff/unsubscribe/team%2Freports",
        "GET t/subscription/team%2Freports/replicatedSubscriptionStatus",
        "GET t/team%2Freports/dispatchRate",
        "DELETE t/team%2Freports/dispatchRate",
    ],
)
def test_a_subscription_with_a_slash_is_found_by_every_route(web: Web, line: str) -> None:
    web.stage.subscription(web.stage.topic(), "team/reports")
    assert web(line).status in (200, 204)


def test_bytes_that_are_no_text_are_refused_however_often_they_are_encoded(web: Web) -> None:
    web.stage.topic()
    assert web("PUT t/subscription/%FF").status == 400
    assert web("PUT t/subscription/%25FF").status == 400


@pytest.mark.parametrize(
    "line",
    [
        "DELETE t%2Fpartitions",
        "DELETE t%2fsubscription%2fs",
        "PUT t%2Fpartitions",
        "GET /lookup/v2/topic/persistent/public/default/t%2Fbundle",
        "GET /admin/v2/schemas/public/default/t%2Fschemas",
        "GET /admin/v3/transactions/transactionBufferStats/public/default/t%2Fs",
    ],
)
def test_a_slash_that_is_encoded_once_names_no_other_resource(web: Web, line: str) -> None:
    topic = web.stage.topic()
    web.stage.subscription(topic)
    answer = web(line)
    assert (answer.status, "slash" in answer.reason) == (412, True)
    assert list(topic.subscriptions) == ["s"]


def test_elsewhere_a_plus_is_a_plus(web: Web) -> None:
    web.stage.topic()
    assert web("POST t/permissions/a+b", ["consume"]).status == 204
    assert list(web("GET t/permissions").json) == ["a+b"]
