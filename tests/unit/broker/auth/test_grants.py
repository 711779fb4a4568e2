"""What the roles of a namespace may do there."""

from __future__ import annotations

import json

import pytest

from milepost.broker.auth.grants import Grants, SubscriptionMode, written
from milepost.broker.auth.operations import Action
from milepost.positions.names import TopicName

ORDERS = TopicName.parse("persistent://acme/shop/orders")
OTHER = TopicName.parse("persistent://acme/shop/other")


def test_nothing_is_granted_at_first() -> None:
    assert not Grants().allow("anyone", Action.PRODUCE, ORDERS)
    assert not Grants().allow("anyone", Action.PRODUCE)


def test_a_grant_on_the_namespace_holds_for_its_topics_and_only_for_its_action() -> None:
    grants = Grants().with_namespace_role("w", {Action.PRODUCE})
    assert grants.allow("w", Action.PRODUCE, ORDERS)
    assert grants.allow("w", Action.PRODUCE)
    assert not grants.allow("w", Action.CONSUME, ORDERS)
    assert not grants.allow("W", Action.PRODUCE, ORDERS)
    assert not grants.without_namespace_role("w").allow("w", Action.PRODUCE, ORDERS)


def test_a_grant_on_a_topic_holds_there_alone() -> None:
    grants = Grants().with_topic_role(ORDERS, "r", {Action.CONSUME})
    assert grants.allow("r", Action.CONSUME, ORDERS)
    assert not grants.allow("r", Action.CONSUME, OTHER)
    assert not grants.allow("r", Action.CONSUME)  # nor for the namespace
    assert grants.without_topic_role(ORDERS, "r") == Grants()
    assert grants.without_topic(ORDERS) == Grants()


def test_a_grant_on_a_partitioned_topic_holds_for_its_partitions() -> None:
    grants = Grants().with_topic_role(ORDERS, "r", {Action.CONSUME})
    assert grants.allow("r", Action.CONSUME, ORDERS.partition_name(7))
    one = Grants().with_topic_role(ORDERS.partition_name(7), "r", {Action.CONSUME})
    assert not one.allow("r", Action.CONSUME, ORDERS)
    assert not one.allow("r", Action.CONSUME, ORDERS.partition_name(8))


def test_a_later_grant_takes_the_place_of_an_earlier_one() -> None:
    grants = Grants().with_namespace_role("a", {Action.PRODUCE, Action.CONSUME})
    grants = grants.with_namespace_role("a", {Action.CONSUME})
    assert not grants.allow("a", Action.PRODUCE, ORDERS)


def test_wildcards_count_where_they_are_switched_on() -> None:
    grants = Grants().with_namespace_role("spark-*", {Action.CONSUME})
    grants = grants.with_topic_role(ORDERS, "*-w", {Action.PRODUCE})
    assert not grants.allow("spark-1", Action.CONSUME, ORDERS)
    assert grants.allow("spark-1", Action.CONSUME, ORDERS, wildcards=True)
    assert grants.allow("x-w", Action.PRODUCE, ORDERS.partition_name(0), wildcards=True)
    assert not grants.allow("x-w", Action.CONSUME, ORDERS, wildcards=True)
    assert not grants.allow("x-w", Action.PRODUCE, OTHER, wildcards=True)


def test_a_subscription_with_roles_is_theirs_alone() -> None:
    grants = Grants().with_subscription_roles("s", ["a", "b"])
    assert grants.allow_subscription("a", "s")
    assert not grants.allow_subscription("c", "s")
    assert grants.allow_subscription("c", "another")
    assert grants.with_subscription_roles("s", []) == Grants()


def test_in_prefix_mode_a_subscription_begins_with_the_role() -> None:
    grants = Grants().with_mode(SubscriptionMode.PREFIX)
    assert grants.allow_subscription("a", "a-reports")
    assert not grants.allow_subscription("a", "reports")


@pytest.mark.parametrize(
    "grants",
    [
        Grants(),
        Grants()
        .with_namespace_role("a", {Action.PRODUCE, Action.FUNCTIONS})
        .with_topic_role(ORDERS, "b", {Action.CONSUME})
        .with_subscription_roles("s", ["a"])
        .with_mode(SubscriptionMode.PREFIX),
    ],
)
def test_a_stored_value_is_the_same_value(grants: Grants) -> None:
    assert Grants.read(json.loads(json.dumps(grants.document()))) == grants


def test_as_json_has_it() -> None:
    grants = Grants().with_namespace_role("a", {Action.PRODUCE, Action.CONSUME})
    assert written(grants.namespace) == {"a": ["consume", "produce"]}
