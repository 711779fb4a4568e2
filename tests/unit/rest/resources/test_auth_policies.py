"""Grants in the document of a namespace."""

from __future__ import annotations

from typing import Any

import pytest
from stage.http import Web

from milepost.broker.auth.grants import Grants, SubscriptionMode
from milepost.errors import InvalidInput
from milepost.positions.names import NamespaceName
from milepost.rest.resources import auth_policies

SHOP = NamespaceName.parse("public/shop")
ORDERS = "persistent://public/shop/orders"
GIVEN = {
    "namespace_auth": {"app": ["consume", "produce"]},
    "destination_auth": {ORDERS: {"reporter": ["consume"]}},
    "subscription_auth_roles": {"s": ["app"]},
}
BASE = "/admin/v2/namespaces/public/shop"


def test_what_is_read_is_shown_again() -> None:
    grants = auth_policies.read(SHOP, GIVEN, "Prefix")
    assert auth_policies.shown(grants) == GIVEN
    assert grants.mode is SubscriptionMode.PREFIX
    assert auth_policies.read(SHOP, None) == Grants()


@pytest.mark.parametrize(
    "given",
    [
        [1],
        {"namespace_auth": {"app": ["fly"]}},
        {"namespace_auth": {"app": "produce"}},
        {"namespace_auth": {" ": ["produce"]}},
        {"destination_auth": {"what://is/this": {"app": ["produce"]}}},
        {"destination_auth": {"persistent://public/other/t": {"app": ["produce"]}}},
        {"subscription_auth_roles": {"s": [7]}},
    ],
)
def test_what_is_no_grant_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput):
        auth_policies.read(SHOP, given)


def test_a_namespace_is_made_with_its_grants(web: Web) -> None:
    body = {"auth_policies": GIVEN, "subscription_auth_mode": "Prefix"}
    assert web(f"PUT {BASE}", body).status == 204
    web = Web(web.stage.restarted())
    assert web(f"GET {BASE}/permissions").json == GIVEN["namespace_auth"]
    assert web(f"GET {BASE}/permissions/subscription").json == GIVEN["subscription_auth_roles"]
    found = web(f"GET {BASE}").json
    assert found["auth_policies"] == GIVEN
    assert found["subscription_auth_mode"] == "Prefix"


def test_grants_that_are_none_make_no_namespace(web: Web) -> None:
    refused = web(f"PUT {BASE}", {"auth_policies": {"namespace_auth": {"app": ["fly"]}}})
    assert refused.status == 400
    assert "auth_policies.namespace_auth.app" in refused.reason
    assert web(f"GET {BASE}").status == 404
