"""Tenants over REST, with the status codes of a real Apache Pulsar."""

from __future__ import annotations

from stage.http import Web

TENANTS = "/admin/v2/tenants"
INFO = {"adminRoles": ["ann"], "allowedClusters": ["standalone"]}


def test_what_is_there_from_the_beginning(web: Web) -> None:
    assert web(f"GET {TENANTS}").json == ["public", "pulsar"]
    assert web(f"GET {TENANTS}/public").json == {
        "adminRoles": [],
        "allowedClusters": ["standalone"],
    }


def test_a_tenant_is_made_changed_and_deleted(web: Web) -> None:
    assert web(f"PUT {TENANTS}/acme", INFO).status == 204
    assert web(f"PUT {TENANTS}/acme", INFO).status == 409
    assert web(f"POST {TENANTS}/acme", {**INFO, "adminRoles": ["bob"]}).status == 204
    assert web(f"GET {TENANTS}/acme").json["adminRoles"] == ["bob"]
    again = Web(web.stage.restarted())
    assert again(f"GET {TENANTS}/acme").json["adminRoles"] == ["bob"]
    assert again.statuses(f"DELETE {TENANTS}/acme?force=true", f"DELETE {TENANTS}/acme") == [
        405,
        204,
    ]
    assert again.statuses(f"GET {TENANTS}/acme", f"DELETE {TENANTS}/acme") == [404, 404]


def test_clusters_must_be_there(web: Web) -> None:
    assert web(f"PUT {TENANTS}/a", {}).status == 412
    assert web(f"PUT {TENANTS}/a", {"allowedClusters": ["nowhere"]}).status == 412
    assert web(f"POST {TENANTS}/none", INFO).status == 404
    assert web(f"PUT {TENANTS}/a$b", INFO).status == 400
    assert web(f"PUT {TENANTS}/a", {"allowedClusters": "standalone"}).status == 400


def test_a_tenant_with_namespaces_stays(web: Web) -> None:
    assert web(f"DELETE {TENANTS}/public").status == 409
