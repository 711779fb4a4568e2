"""HTTP lookup, as clients with an `http://` service URL use it."""

from __future__ import annotations

import pytest
from stage.security import SECURED, bearer

from rest.conftest import Ask, Request

LOOKUP = "GET /lookup/v2/topic"


def test_the_answer_is_this_broker(ask: Ask) -> None:
    (answer,) = ask(f"{LOOKUP}/persistent/public/default/orders", port=6650, http_port=8080)
    assert answer.status == 200
    assert answer.json == {
        "brokerUrl": "pulsar://127.0.0.1:6650",
        "brokerUrlTls": "",
        "httpUrl": "http://127.0.0.1:8080",
        "httpUrlTls": "",
        "nativeUrl": "pulsar://127.0.0.1:6650",
    }


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"advertised_address": "mq.example.com"}, "mq.example.com"),
        ({"host": "::1"}, "[::1]"),
    ],
)
def test_clients_are_told_the_advertised_host(
    ask: Ask, settings: dict[str, str], host: str
) -> None:
    (answer,) = ask(f"{LOOKUP}/persistent/public/default/orders", **settings)
    assert answer.json["brokerUrl"] == f"pulsar://{host}:6650"
    assert answer.json["httpUrl"] == f"http://{host}:8080"


def test_a_listener_is_named_in_the_query_or_a_header(ask: Ask) -> None:
    path = f"{LOOKUP}/persistent/public/default/orders"
    by_query, by_header, unknown = ask(
        f"{path}?listenerName=out",
        Request("GET", path.partition(" ")[2], headers={"X-Pulsar-ListenerName": "out"}),
        f"{path}?listenerName=test",
        advertised_listeners="out:pulsar://mq.example.com:443",
    )
    assert by_query.json == by_header.json
    assert by_query.json["brokerUrl"] == "pulsar://mq.example.com:443"
    assert by_query.json["brokerUrlTls"] == ""
    assert by_query.json["httpUrl"] == "http://127.0.0.1:8080"
    assert unknown.status == 412


def test_lookups_are_counted_and_open_nothing(ask: Ask) -> None:
    seen = []
    ask(
        f"{LOOKUP}/persistent/public/default/a",
        f"{LOOKUP}/persistent/public/default/b-partition-3",
        lambda broker: seen.extend((broker.counters.lookups, len(broker.topics))),
    )
    assert seen == [2, 0]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("persistent/public/nowhere/orders", 404),
        ("queue/public/default/orders", 404),
        ("persistent/public/default/..", 400),
        ("persistent/public/default/%20orders", 400),
        ("persistent/public/default/a%2Fb", 412),
        ("persistent/public/default", 404),
    ],
)
def test_what_is_no_topic_is_refused(ask: Ask, path: str, status: int) -> None:
    (answer,) = ask(f"{LOOKUP}/{path}")
    assert (answer.status, bool(answer.reason)) == (status, True)


def test_a_name_in_any_script_is_looked_up(ask: Ask) -> None:
    (answer,) = ask(f"{LOOKUP}/persistent/public/default/%D0%B7%D0%B0%D0%BA%D0%B0%D0%B7%D1%8B")
    assert answer.status == 200


def test_clients_find_the_transaction_coordinator_whatever_their_rights(ask: Ask) -> None:
    """Clients with an `http://` service URL ask here: how many there are, and where each one is."""
    place = "persistent/pulsar/system/transaction_coordinator_assign"
    count, where, others = ask(
        Request("GET", f"/admin/v2/{place}/partitions", b"", bearer("stranger")),
        Request("GET", f"/lookup/v2/topic/{place}-partition-0", b"", bearer("stranger")),
        Request("GET", "/lookup/v2/topic/persistent/pulsar/system/else", b"", bearer("stranger")),
        **SECURED,
    )
    assert (count.status, count.json) == (200, {"partitions": 1, "deleted": False})
    assert where.status == 200
    assert others.status == 403
