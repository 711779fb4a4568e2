"""All policies of a namespace as one document."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.policies.document import BY_CLUSTER, NAMES, QUOTA_MAP, document, values
from milepost.broker.policies.table import POLICIES, TABLE
from milepost.errors import InvalidPolicy, PolicyOutOfRange

# Set by calls of their own only, as what they name must be there.
APART = {
    "resource_group",
    "entry_filters",
    "anti_affinity",
    "bookie_affinity",
    "metric_property_keys",
}
OF_NAMESPACES = {policy.name for policy in TABLE if policy.namespace} - APART


def test_every_policy_of_a_namespace_has_its_place() -> None:
    quotas = {"backlog_quota_size", "backlog_quota_time"}
    assert NAMES.keys() | BY_CLUSTER.keys() | quotas == OF_NAMESPACES


def test_what_is_shown_can_be_given() -> None:
    found = {name: POLICIES[name].shape.example for name in OF_NAMESPACES}
    assert values(document(found, "c"), "c") == found


def test_without_policies_it_says_what_upstream_says() -> None:
    assert document({}, "c") == {
        QUOTA_MAP: {},
        **{key: {} for key in BY_CLUSTER.values()},
        "subscription_types_enabled": [],
        "schema_compatibility_strategy": "UNDEFINED",
        "schema_validation_enforced": False,
        "is_allow_auto_update_schema": True,
        "encryption_required": False,
        "dispatcherPauseOnAckStatePersistentEnabled": False,
    }


def test_what_is_no_policy_is_left_out() -> None:
    assert values({"unknown": 1, "message_ttl_in_seconds": None}, "c") == {}
    assert values({"publishMaxMessageRate": {"elsewhere": {}}}, "c") == {}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"message_ttl_in_seconds": -1}, PolicyOutOfRange),
        ({"message_ttl_in_seconds": "x"}, InvalidPolicy),
        ({QUOTA_MAP: []}, None),
        ({QUOTA_MAP: [1]}, InvalidPolicy),
        ({"topicDispatchRate": 5}, InvalidPolicy),
    ],
)
def test_what_cannot_be_obeyed_is_refused(
    given: dict[str, Any], error: type[Exception] | None
) -> None:
    if error is None:
        assert values(given, "c") == {}
        return
    with pytest.raises(error):
        values(given, "c")
