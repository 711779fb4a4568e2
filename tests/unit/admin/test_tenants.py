"""Tenants and clusters."""

from __future__ import annotations

import json

from unit.admin.conftest import Played

from milepost.admin import tenants
from milepost.admin.face import SyncFace


def test_names() -> None:
    face = SyncFace(Played(["acme"], ["standalone"]))
    assert face.run(tenants.list_tenants()) == ["acme"]
    assert face.run(tenants.list_clusters()) == ["standalone"]


def test_a_tenant_is_for_every_cluster_unless_some_are_named() -> None:
    transport = Played(["c1", "c2"])
    SyncFace(transport).run(tenants.create_tenant("acme", admin_roles=["boss"]))
    last = transport.asked[-1]
    assert (last.method, last.target) == ("PUT", "/admin/v2/tenants/acme")
    assert json.loads(last.body or b"") == {"adminRoles": ["boss"], "allowedClusters": ["c1", "c2"]}
    transport = Played()
    SyncFace(transport).run(tenants.create_tenant("acme", allowed_clusters=["c1"]))
    assert len(transport.asked) == 1


def test_an_update_keeps_what_is_not_named() -> None:
    transport = Played({"adminRoles": ["boss"], "allowedClusters": ["c1"]})
    SyncFace(transport).run(tenants.update_tenant("acme", admin_roles=[]))
    assert json.loads(transport.asked[-1].body or b"") == {
        "adminRoles": [],
        "allowedClusters": ["c1"],
    }
