"""What holds for a topic, as typed values."""

from __future__ import annotations

from milepost.broker.policies.effective import (
    DEFAULTS,
    EVICT,
    AutoTopics,
    Delays,
    Quota,
    Rate,
    Retention,
    auto_topics,
    dispatch_rate,
    effective,
    max_topics,
)
from milepost.broker.policies.table import POLICIES
from milepost.broker.settings.settings import Settings


def test_without_policies_nothing_is_limited() -> None:
    for name in ("quota_size", "quota_time", "publish_rate", "dispatch_rate", "subscribe_rate"):
        assert getattr(DEFAULTS, name) is None, name
    assert DEFAULTS.message_ttl_s == 0
    assert DEFAULTS.retention == Retention(0, 0)
    assert DEFAULTS.delays == Delays(0)
    assert DEFAULTS.subscription_types == {0, 1, 2, 3}
    assert DEFAULTS.inactive_after_s == 0


def test_the_settings_are_the_last_to_be_asked() -> None:
    settings = Settings(message_ttl_s=5, backlog_quota_bytes=9, backlog_quota_policy=EVICT)
    policies = effective(settings, {}, {})
    assert (policies.message_ttl_s, policies.quota_size) == (5, Quota(9, EVICT))
    assert effective(settings, {"message_ttl": 0}, {}).message_ttl_s == 0


def test_units_are_ours() -> None:
    retention = {"retentionTimeInMinutes": 2, "retentionSizeInMB": 3}
    assert effective(Settings(), {}, {"retention": retention}).retention == Retention(
        120_000, 3 << 20
    )
    for_ever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert effective(Settings(), {}, {"retention": for_ever}).retention == Retention(None, None)


def test_a_rate_of_nothing_is_no_rate() -> None:
    read = POLICIES["dispatch_rate"].shape.read
    assert dispatch_rate(read({"dispatchThrottlingRateInMsg": 0}, "r")) is None
    assert dispatch_rate(read({"dispatchThrottlingRateInMsg": 5}, "r")) == Rate(5, 0, 1)
    assert dispatch_rate(read({"dispatchThrottlingRateInByte": 5}, "r")) == Rate(0, 5, 1)


def test_delayed_delivery_can_be_off() -> None:
    off = {"delayed_delivery": {"active": False, "tickTime": 1, "maxDeliveryDelayInMillis": 5}}
    assert effective(Settings(), off, {}).delays is None


def test_schema_validation_is_on_when_either_level_wants_it() -> None:
    for namespace, topic in ((True, False), (False, True), (True, True)):
        values = {"schema_validation": namespace}, {"schema_validation": topic}
        assert effective(Settings(), *values).schema_validation
    assert not effective(Settings(), {"schema_validation": False}, {}).schema_validation


def test_subscription_types_are_numbers() -> None:
    values = {"subscription_types": ["Exclusive", "Key_Shared"]}
    assert effective(Settings(), values, {}).subscription_types == {0, 3}


def test_a_namespace_decides_about_new_topics() -> None:
    assert auto_topics(Settings(), {}) == AutoTopics(True, 0)
    made = {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 4,
    }
    assert auto_topics(Settings(), {"auto_topic_creation": made}) == AutoTopics(True, 4)
    assert max_topics(Settings(max_topics_per_namespace=3), {}) == 3
    assert max_topics(Settings(max_topics_per_namespace=3), {"max_topics": 0}) == 0
