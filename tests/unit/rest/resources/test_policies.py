"""Policies over REST: paths, JSON and status codes as Apache Pulsar 4.2 answers them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost.broker.policies.policy import NOTHING, Level, Route
from milepost.broker.policies.table import POLICIES, TABLE
from rest.conftest import Answer, Ask, Request

NAMESPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/orders"
BASES = {Level.NAMESPACE: NAMESPACE, Level.TOPIC: TOPIC}

# Values that only hold beside something else have tests of their own: of clusters, groups and filters.
APART = {"resource_group", "entry_filters", "replication_clusters", "anti_affinity"}
ROUTES = [
    (policy, BASES[level], route)
    for policy in TABLE
    for level in Level
    if (route := policy.route(level)) and not route.kind and policy.name not in APART
]


def send(method: str, path: str, value: Any = None) -> Request:
    return Request(method, path, b"" if value is None else json.dumps(value).encode())


def make_topic() -> Request:
    return send("PUT", f"{TOPIC}/partitions", 2)


def setting(route: Route, base: str, value: Any) -> Request:
    if route.query:
        return send(route.method, f"{base}/{route.path}?{route.query}={value}")
    return send(route.method, f"{base}/{route.path}", value)


def value_of(answer: Answer) -> Any:
    assert answer.status == 200, answer
    return answer.json


def test_one_subscription_may_have_a_dispatch_rate(ask: Ask) -> None:
    own, all_of_them = f"{TOPIC}/s/dispatchRate", f"{TOPIC}/subscriptionDispatchRate"
    rate = POLICIES["subscription_dispatch_rate"].shape.example
    other = {**rate, "dispatchThrottlingRateInMsg": 77}
    _, _, unset, _, found, theirs, _, gone, applied, refused = ask(
        make_topic(),
        send("POST", all_of_them, rate),
        f"GET {own}",
        send("POST", own, other),
        f"GET {own}?applied=true",
        f"GET {all_of_them}",
        f"DELETE {own}",
        f"GET {own}",
        f"GET {own}?applied=true",
        send("POST", own, {"dispatchThrottlingRateInMsg": "many"}),
    )
    assert (unset.status, unset.body) == (200, b"")
    assert value_of(found) == other
    assert value_of(theirs) == rate
    assert (gone.status, gone.body) == (200, b"")
    assert value_of(applied) == rate
    assert refused.status == 400


def test_every_policy_is_set_and_removed(ask: Ask) -> None:
    requests: list[Any] = []
    for policy, base, route in ROUTES:
        path = f"{base}/{route.path}"
        change = setting(route, base, policy.shape.example)
        removal = f"DELETE {base}/{route.removal or route.path}"
        requests += [f"GET {path}", change, f"GET {path}", removal, f"GET {path}"]
    _, *answers = ask(make_topic(), *requests)
    for number, (policy, base, route) in enumerate(ROUTES):
        unset, done, found, removed, again = answers[5 * number : 5 * number + 5]
        where = f"{base}/{route.path}"
        if route.unset is NOTHING:
            assert (unset.status, unset.body) == (route.unset_status, b""), where
        else:
            assert value_of(unset) == route.unset, where
        assert (done.status, done.body) == (204, b""), where
        set_to = route.unset if policy.shape.example == policy.unset_by else policy.shape.example
        assert set_to is NOTHING or value_of(found) == set_to, where
        if route.removable:
            assert removed.status == 204, where
            assert (again.status, again.body) == (unset.status, unset.body), where
        else:
            assert removed.status == 405, where
            assert value_of(again) == set_to, where


@pytest.mark.parametrize("value", ["weird", [[]], {"weird": 1}])
def test_what_is_no_such_policy_is_refused(ask: Ask, value: Any) -> None:
    _, *answers = ask(make_topic(), *(setting(route, base, value) for _, base, route in ROUTES))
    for answer, (_, _, route) in zip(answers, ROUTES, strict=True):
        assert answer.status == 400, (route.path, answer)
        assert route.path in answer.reason or route.query in answer.reason


@pytest.mark.parametrize("name", ["message_ttl", "max_producers", "max_unacked_per_consumer"])
@pytest.mark.parametrize("value", [-1, 2**31])
def test_a_number_out_of_its_range_is_412(ask: Ask, name: str, value: int) -> None:
    policy = POLICIES[name]
    assert policy.namespace
    assert policy.topic
    _, *refused = ask(
        make_topic(),
        setting(policy.namespace, NAMESPACE, value),
        setting(policy.topic, TOPIC, value),
    )
    for answer in refused:
        assert answer.status == 412, answer
        assert str(value) in answer.reason


def test_applied_is_what_holds(ask: Ask) -> None:
    path = f"{TOPIC}/maxProducers"
    answers = ask(
        make_topic(),
        f"GET {path}?applied=true",
        send("POST", f"{NAMESPACE}/maxProducersPerTopic", 5),
        f"GET {path}?applied=true",
        f"GET {path}",
        send("POST", path, 0),
        f"GET {path}?applied=true",
        max_producers_per_topic=7,
    )
    assert [value_of(answers[number]) for number in (1, 3, 6)] == [7, 5, 0]
    assert (answers[4].status, answers[4].body) == (200, b"")


def test_a_partition_speaks_for_its_topic(ask: Ask) -> None:
    _, done, found = ask(
        make_topic(),
        send("POST", f"{TOPIC}-partition-1/maxProducers", 3),
        f"GET {TOPIC}/maxProducers",
    )
    assert (done.status, value_of(found)) == (204, 3)


def test_null_removes(ask: Ask) -> None:
    path = f"{NAMESPACE}/retention"
    both = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
    _, removed, found = ask(send("POST", path, both), Request("POST", path, b"null"), f"GET {path}")
    assert (removed.status, found.body) == (204, b"")


def test_null_forbids_schema_updates_as_upstream_reads_it(ask: Ask) -> None:
    path = f"{NAMESPACE}/isAllowAutoUpdateSchema"
    unset, _, found = ask(f"GET {path}", Request("POST", path, b"null"), f"GET {path}")
    assert (value_of(unset), value_of(found)) == (True, False)


def test_entry_filters_are_refused_as_none_is_installed(ask: Ask) -> None:
    for base in (NAMESPACE, TOPIC):
        path = f"{base}/entryFilters"
        _, unset, refused, empty, nothing, removed = ask(
            make_topic(),
            f"GET {path}",
            send("POST", path, {"entryFilterNames": "one,two"}),
            send("POST", path, {"entryFilterNames": ""}),
            send("POST", path, {}),
            f"DELETE {path}",
        )
        assert (unset.status, unset.body) == (200, b"")
        assert (refused.status, "'one' is not installed" in refused.reason) == (400, True)
        assert (empty.status, nothing.status, removed.status) == (400, 400, 204)
    (applied,) = ask(f"GET {TOPIC}/entryFilters?applied=true")
    assert value_of(applied) == {"entryFilterNames": ""}


def test_an_anti_affinity_group_is_a_bare_text(ask: Ask) -> None:
    path = f"{NAMESPACE}/antiAffinity"
    bare, found, quoted, again, _, gone = ask(
        Request("POST", path, b"spread"),
        f"GET {path}",
        send("POST", path, "other"),
        f"GET {path}",
        f"DELETE {path}",
        f"GET {path}",
    )
    assert (bare.status, found.body, quoted.status, again.body) == (204, b"spread", 204, b"other")
    assert gone.body == b""


@pytest.mark.parametrize("base", [NAMESPACE, TOPIC])
def test_the_two_quotas_share_a_path(ask: Ask, base: str) -> None:
    size = {"limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
    old = {"limit": 9, "policy": "producer_exception"}
    age = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
    kind = "backlogQuotaType=message_age"
    answers = ask(
        make_topic(),
        f"GET {base}/backlogQuotaMap",
        send("POST", f"{base}/backlogQuota", size),
        send("POST", f"{base}/backlogQuota?{kind}", age),
        f"GET {base}/backlogQuotaMap",
        f"DELETE {base}/backlogQuota",
        f"GET {base}/backlogQuotaMap",
        send("POST", f"{base}/backlogQuota", old),
        f"DELETE {base}/backlogQuota?{kind}",
        f"GET {base}/backlogQuotaMap",
    )
    assert [answers[number].status for number in (2, 3, 5, 7, 8)] == [204] * 5
    assert value_of(answers[1]) == {}
    shown = {**age, "limit": -1, "limitSize": -1}
    assert value_of(answers[4]) == {
        "destination_storage": {**size, "limit": 1000},
        "message_age": shown,
    }
    assert value_of(answers[6]) == {"message_age": shown}
    assert value_of(answers[9])["destination_storage"]["limitSize"] == 9


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("", {"limitSize": 5}),
        ("", {"limitSize": 5, "policy": "weird"}),
        ("?backlogQuotaType=weird", {"limitSize": 5, "policy": "producer_exception"}),
        ("", "weird"),
    ],
)
def test_a_quota_that_is_none_is_refused(ask: Ask, query: str, value: Any) -> None:
    (refused,) = ask(send("POST", f"{NAMESPACE}/backlogQuota{query}", value))
    assert refused.status == 400
    assert refused.reason


def test_who_is_not_there_has_no_policies(ask: Ask) -> None:
    value = {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}
    nowhere = "/admin/v2/namespaces/public/nowhere/retention"
    for answer in ask(
        f"GET {nowhere}",
        send("POST", nowhere, value),
        f"DELETE {nowhere}",
        f"GET {TOPIC}/retention",
        send("POST", f"{TOPIC}/retention", value),
        f"DELETE {TOPIC}/retention",
    ):
        assert answer.status == 404, answer
        assert "does not exist" in answer.reason


def test_whoever_is_deleted_takes_its_policies_along(ask: Ask) -> None:
    namespace = "/admin/v2/namespaces/public/short"
    answers = ask(
        make_topic(),
        send("POST", f"{TOPIC}/maxProducers", 3),
        f"DELETE {TOPIC}/partitions",
        make_topic(),
        f"GET {TOPIC}/maxProducers",
        send("PUT", namespace),
        send("POST", f"{namespace}/maxProducersPerTopic", 3),
        f"DELETE {namespace}",
        send("PUT", namespace),
        f"GET {namespace}/maxProducersPerTopic",
    )
    assert [answer.status for answer in answers] == [
        204,
        204,
        204,
        204,
        200,
        204,
        204,
        204,
        204,
        200,
    ]
    assert (answers[4].body, answers[9].body) == (b"", b"")


def test_a_namespace_is_made_with_policies_and_shows_them(ask: Ask) -> None:
    namespace = "/admin/v2/namespaces/public/made"
    given = {"message_ttl_in_seconds": 60, "publishMaxMessageRate": {"standalone": {}}}
    refused, absent, made, shown, ttl = ask(
        send("PUT", namespace, given),
        f"GET {namespace}",
        send("PUT", namespace, {"message_ttl_in_seconds": 60}),
        f"GET {namespace}",
        f"GET {namespace}/messageTTL",
    )
    assert (refused.status, absent.status) == (400, 404)
    assert made.status == 204
    assert value_of(shown)["message_ttl_in_seconds"] == 60
    assert value_of(shown)["replication_clusters"] == ["standalone"]
    assert value_of(ttl) == 60


def test_topic_creation_is_switched_off_as_go_does_it(ask: Ask) -> None:
    """Its admin client sends an empty type and no number, and wants none back."""
    off = {"allowAutoTopicCreation": False, "topicType": "", "defaultNumPartitions": None}
    set_, found = ask(
        send("POST", f"{NAMESPACE}/autoTopicCreation", off), f"GET {NAMESPACE}/autoTopicCreation"
    )
    assert set_.status == 204
    assert found.json == {**off, "topicType": "non-partitioned"}
