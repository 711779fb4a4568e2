"""Grants over REST, as upstream's admin client asks for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from stage.security import SECURED, bearer

from milepost.broker.auth.operations import Action
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


def test_grants_on_a_namespace(ask: Ask) -> None:
    path = f"{NAMESPACE}/permissions"
    none, made, more, found, gone, again, last = ask(
        f"GET {path}",
        post(f"{path}/writer", ["produce", "functions"]),
        post(f"{path}/team%20a", ["consume"]),
        f"GET {path}",
        f"DELETE {path}/writer",
        f"DELETE {path}/writer",
        f"GET {path}",
    )
    assert none.json == {}
    assert [one.status for one in (made, more, gone, again)] == [204] * 4
    assert found.json == {"writer": ["functions", "produce"], "team a": ["consume"]}
    assert last.json == {"team a": ["consume"]}


def test_a_subscription_for_some_roles(ask: Ask) -> None:
    path = f"{NAMESPACE}/permissions"
    made, found, gone, unknown, rest, last, empty = ask(
        post(f"{path}/subscription/s", ["a", "b"]),
        f"GET {path}/subscription",
        f"DELETE {path}/s/a",
        f"DELETE {path}/other/a",
        f"GET {path}/subscription",
        f"DELETE {path}/s/b",
        f"GET {path}/subscription",
    )
    assert (made.status, gone.status, last.status) == (204, 204, 204)
    assert unknown.status == 404
    assert found.json == {"s": ["a", "b"]}
    assert rest.json == {"s": ["b"]}
    assert empty.json == {}


def test_the_mode_of_subscriptions(ask: Ask) -> None:
    path = f"{NAMESPACE}/subscriptionAuthMode"
    before, changed, after, wrong = ask(
        f"GET {path}", post(path, "Prefix"), f"GET {path}", post(path, "Suffix")
    )
    assert (before.json, changed.status, after.json, wrong.status) == ("None", 204, "Prefix", 400)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin/v2/namespaces/public/none/permissions", 404),
        ("POST", "/admin/v2/namespaces/public/none/permissions/a", 404),
        ("POST", "/admin/v2/namespaces/none/none/permissions/subscription/s", 404),
        ("GET", "/admin/v2/namespaces/public/none/subscriptionAuthMode", 404),
        ("GET", "/admin/v2/persistent/public/default/none/permissions", 404),
        ("POST", "/admin/v2/persistent/public/default/none/permissions/a", 404),
        ("POST", f"{NAMESPACE}/permissions/%20", 400),
        ("POST", f"{NAMESPACE}/permissions/a%E2%80%AEb", 400),
        ("POST", f"{NAMESPACE}/permissions/" + "a" * 2000, 400),
    ],
)
def test_what_is_not_there_and_what_is_no_role(
    ask: Ask, method: str, path: str, status: int
) -> None:
    (answer,) = ask(Request(method, path, b'["consume"]' if method == "POST" else b""))
    assert answer.status == status, answer.body


@pytest.mark.parametrize("body", ['["fly"]', '"consume"', "{}", "null", "[1]", "", '["Produce"]'])
def test_what_is_no_action(ask: Ask, body: str) -> None:
    (answer,) = ask(Request("POST", f"{NAMESPACE}/permissions/a", body.encode()))
    assert answer.status == 400


def test_a_grant_holds_at_once(ask: Ask) -> None:
    topics = Request("GET", f"{NAMESPACE}/topics", b"", bearer("a"))
    grant = Request("POST", f"{NAMESPACE}/permissions/a", b'["consume"]', bearer("root"))
    revoke = Request("DELETE", f"{NAMESPACE}/permissions/a", b"", bearer("root"))
    answers = ask(topics, grant, topics, revoke, topics, **SECURED)
    assert [answer.status for answer in answers] == [403, 204, 200, 204, 403]


def test_every_action_of_upstream_can_be_granted(ask: Ask) -> None:
    _, found = ask(post(f"{NAMESPACE}/permissions/a", list(Action)), f"GET {NAMESPACE}/permissions")
    assert set(found.json["a"]) == set(Action)


def test_a_namespace_made_again_has_none_of_the_old_grants(ask: Ask) -> None:
    path = "/admin/v2/namespaces/public/passing"
    *_, found = ask(
        Request("PUT", path),
        post(f"{path}/permissions/a", ["consume"]),
        f"DELETE {path}",
        Request("PUT", path),
        f"GET {path}/permissions",
    )
    assert (found.status, found.json) == (200, {})


def test_an_admin_administers_its_own_tenant(ask: Ask) -> None:
    def as_(role: str, method: str, path: str, body: Any = None) -> Request:
        data = b"" if body is None else json.dumps(body).encode()
        return Request(method, f"/admin/v2/{path}", data, bearer(role))

    info = {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
    none = {**info, "adminRoles": []}
    answers = ask(
        as_("root", "PUT", "tenants/acme", info),
        as_("boss", "PUT", "namespaces/acme/shop", {}),
        as_("boss", "POST", "namespaces/acme/shop/permissions/app", ["produce"]),
        as_("boss", "POST", "namespaces/public/default/permissions/app", ["produce"]),
        as_("boss", "POST", "tenants/acme", info),
        as_("root", "POST", "tenants/acme", none),
        as_("boss", "GET", "namespaces/acme/shop/permissions"),
        as_("root", "PUT", "tenants/zeta", {**info, "adminRoles": ["a\nb"]}),
        **SECURED,
    )
    statuses = [answer.status for answer in answers]
    assert statuses == [204, 204, 204, 403, 403, 204, 403, 400]
