"""Brokers: names, and settings."""

from __future__ import annotations

from unit.admin.conftest import Played

from milepost.admin import brokers
from milepost.admin.face import SyncFace


def test_names() -> None:
    face = SyncFace(Played(["h:8080"], ["maxProducersPerTopic"]))
    assert face.run(brokers.list_brokers("standalone")) == ["h:8080"]
    assert face.run(brokers.list_dynamic_settings()) == ["maxProducersPerTopic"]


def test_the_cluster_may_be_left_out() -> None:
    played = Played(["h:8080"])
    assert SyncFace(played).run(brokers.list_brokers()) == ["h:8080"]
    assert played.asked[0].path == "/admin/v2/brokers"
