"""Calls about bundles, clusters and resource groups."""

from __future__ import annotations

from unit.admin.conftest import Played

from milepost.admin import placement
from milepost.admin.face import SyncFace


def test_a_bundle_is_split_where_it_is_said() -> None:
    transport = Played(b"", b"")
    face = SyncFace(transport)
    face.run(placement.split_bundle("a/b", "HOT", way="w", unload=True, positions=[1, 2]))
    face.run(placement.split_bundle("a/b", "LARGEST"))
    first, second = transport.asked
    assert first.target == ("/admin/v2/namespaces/a/b/HOT/split?unload=true&splitAlgorithmName=w")
    assert (first.body, second.body) == (b"[1, 2]", None)


def test_a_group_is_put_and_read() -> None:
    transport = Played(b"", {"publishRateInMsgs": 5})
    face = SyncFace(transport)
    face.run(placement.put_resource_group("g", {"publishRateInMsgs": 5}))
    assert face.run(placement.get_resource_group("g")) == {"publishRateInMsgs": 5}
    assert [one.method for one in transport.asked] == ["PUT", "GET"]


def test_lists_of_names() -> None:
    transport = Played(["x"], ["y"], ["z"])
    face = SyncFace(transport)
    assert face.run(placement.list_topics_in_bundle("a/b", "0x0_0xf")) == ["x"]
    assert face.run(placement.get_namespaces_of_group("a", "c", "g")) == ["y"]
    assert face.run(placement.list_resource_groups()) == ["z"]
    assert [one.target for one in transport.asked] == [
        "/admin/v2/non-persistent/a/b/0x0_0xf",
        "/admin/v2/namespaces/c/antiAffinity/g?tenant=a",
        "/admin/v2/resourcegroups",
    ]
