"""Policies: what is not set is None, and each is set by the verb that the broker has for it."""

from __future__ import annotations

from unit.admin.conftest import Played

from milepost.admin import policies
from milepost.admin.face import SyncFace
from milepost.broker.policies.table import TABLE
from milepost.rest.resources.offload import FIELDS


def test_what_is_not_set_is_none() -> None:
    assert SyncFace(Played(b"")).run(policies.get_policy("acme/shop", "retention")) is None
    assert SyncFace(Played(b"7")).run(policies.get_policy("acme/shop", "messageTTL")) == 7
    assert SyncFace(Played(b"")).run(policies.get_topic_policy("orders", "retention")) is None


def test_the_verbs_are_those_of_the_table() -> None:
    """The client knows them without the broker's table, being a client of Apache Pulsar too."""
    puts = {one.namespace.path for one in TABLE if one.namespace and one.namespace.method == "PUT"}
    # Parts of a policy that have calls of their own.
    parts = {*FIELDS, "schemaAutoUpdateCompatibilityStrategy"}
    assert puts | parts == policies.PUT_OF_NAMESPACE
    puts = {one.topic.path for one in TABLE if one.topic and one.topic.method == "PUT"}
    assert puts == policies.PUT_OF_TOPIC
    queries = {one.topic.query for one in TABLE if one.topic and one.topic.query}
    assert queries == policies.QUERY_OF_TOPIC
