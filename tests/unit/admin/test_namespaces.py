"""Namespaces: lists, and properties that are not there."""

from __future__ import annotations

from unit.admin.conftest import Played

from milepost.admin import namespaces
from milepost.admin.face import SyncFace


def test_names() -> None:
    transport = Played(["acme/shop"], ["persistent://acme/shop/orders"])
    face = SyncFace(transport)
    assert face.run(namespaces.list_namespaces("acme")) == ["acme/shop"]
    assert face.run(namespaces.get_namespace_topics("acme/shop", mode="ALL")) == [
        "persistent://acme/shop/orders"
    ]
    assert [one.target for one in transport.asked] == [
        "/admin/v2/namespaces/acme",
        "/admin/v2/namespaces/acme/shop/topics?mode=ALL",
    ]


def test_a_property_is_text_or_nothing() -> None:
    assert SyncFace(Played(b"")).run(namespaces.get_namespace_property("acme/shop", "a")) is None
    assert SyncFace(Played(b"b")).run(namespaces.get_namespace_property("acme/shop", "a")) == "b"
    face = SyncFace(Played(b""))
    assert face.run(namespaces.remove_namespace_property("acme/shop", "a")) is None
