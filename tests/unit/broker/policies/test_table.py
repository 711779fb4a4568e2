"""The table of policies."""

from __future__ import annotations

import re
from typing import Any

import pytest

from milepost.broker.policies.policy import Level, Policy
from milepost.broker.policies.table import POLICIES, TABLE
from milepost.broker.settings.settings import TABLE as SETTINGS
from milepost.broker.settings.settings import Settings
from milepost.errors import InvalidPolicy


@pytest.mark.parametrize("policy", TABLE, ids=lambda policy: policy.name)
def test_every_policy_is_whole(policy: Policy) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", policy.name)
    assert policy.doc.endswith(".")
    assert "|" not in policy.doc, "it stands in a table"
    assert policy.namespace or policy.topic
    assert set(policy.settings) <= set(SETTINGS)
    default = policy.default_by(Settings())
    if default is not None:
        assert policy.shape.read(default, policy.name) == default
    example = policy.shape.example
    assert policy.shape.read(example, policy.name) == example


@pytest.mark.parametrize("level", Level)
def test_no_route_means_two_policies(level: Level) -> None:
    routes = [route for policy in TABLE if (route := policy.route(level))]
    assert len({(route.path, route.kind) for route in routes}) == len(routes)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5}, "both are 0"),
        ("retention", {"retentionTimeInMinutes": 5}, "both are 0"),
        ("backlog_quota_size", {"limitTime": 5, "policy": "producer_exception"}, "limitSize"),
        ("backlog_quota_size", {"limitSize": 5}, "policy is missing"),
        ("backlog_quota_time", {"limitTime": 5, "policy": "sometimes"}, "policy"),
        (
            "auto_topic_creation",
            {"allowAutoTopicCreation": True, "topicType": "partitioned"},
            "0 partitions",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(name: str, value: Any, why: str) -> None:
    with pytest.raises(InvalidPolicy, match=why):
        POLICIES[name].shape.read(value, name)
