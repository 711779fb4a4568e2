"""The policies that hold for one topic: its own, its namespace's, or the default.

They are computed once for each change.

    >>> effective(Settings(), {"message_ttl": 60}, {}).message_ttl_s
    60

A limit that is off is None or 0 as its field says, so that the code that obeys it asks one question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from milepost.broker.policies.policy import Values, key_of, merged
from milepost.broker.policies.shapes import Json
from milepost.broker.policies.table import POLICIES, SUBSCRIPTION_TYPES
from milepost.broker.settings.settings import Settings

HOLD, FAIL, EVICT = "producer_request_hold", "producer_exception", "consumer_backlog_eviction"

# What `inactive_needs` may be; the other one asks that every subscription has caught up.
NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"

_MIB = 1024 * 1024

_OWN_RATE = key_of(POLICIES["subscription_dispatch_rate"], "")


class Rate(NamedTuple):
    """So much in a period; 0 of one is no limit of it."""

    messages: int
    size_bytes: int
    period_s: float = 1.0
    relative: bool = False
    """Beyond as much as is published."""


class Retention(NamedTuple):
    """What of the acked ledgers stays: those that neither limit lets go. None is no limit."""

    time_ms: int | None
    size_bytes: int | None


class Quota(NamedTuple):
    limit: int
    """Bytes or seconds."""
    policy: str


class Delays(NamedTuple):
    max_ms: int
    """0: no limit."""


class AutoTopics(NamedTuple):
    allowed: bool
    partitions: int
    """0: not partitioned."""


@dataclass(frozen=True, slots=True)
class TopicPolicies:
    retention: Retention
    message_ttl_s: int
    """0: never."""
    subscription_expiration_s: int
    """0: never."""
    quota_size: Quota | None
    quota_time: Quota | None
    delays: Delays | None
    """None: messages are delivered whatever time they name."""
    deduplication: bool
    publish_rate: Rate | None
    dispatch_rate: Rate | None
    subscription_dispatch_rate: Rate | None
    own_dispatch_rates: Mapping[str, Rate | None]
    """Of those subscriptions that have a rate of their own."""
    subscribe_rate: Rate | None
    max_message_size: int
    """0: the broker's own."""
    encryption_required: bool
    judges_sends: bool
    """One of the two asks something of every message."""
    max_producers: int
    max_consumers: int
    max_consumers_per_subscription: int
    max_subscriptions: int
    max_unacked_per_consumer: int
    max_unacked_per_subscription: int
    """0: no limit, all six of them."""
    auto_subscriptions: bool
    subscription_types: frozenset[int]
    """The numbers of the types that are allowed."""
    schema_compatibility: str
    schema_validation: bool
    schema_auto_update: bool
    compaction_threshold: int
    inactive_after_s: int
    """0: unused topics stay."""
    inactive_needs: str
    """What an unused topic must be like: upstream's word for it."""

    def dispatch_rate_of(self, subscription: str) -> Rate | None:
        return self.own_dispatch_rates.get(subscription, self.subscription_dispatch_rate)


def effective(settings: Settings, namespace: Values, topic: Values) -> TopicPolicies:
    """What holds for a topic whose namespace and which itself have set these."""
    return _merged(settings, namespace, topic) if namespace or topic else _by_default(settings)


# Nearly every topic has these, and they change with the settings alone.
@lru_cache(maxsize=8)
def _by_default(settings: Settings) -> TopicPolicies:
    return _merged(settings, {}, {})


def _merged(settings: Settings, namespace: Values, topic: Values) -> TopicPolicies:
    value = {name: merged(policy, settings, namespace, topic) for name, policy in POLICIES.items()}
    inactive = value["inactive_topics"]
    return TopicPolicies(
        retention=_retention(value["retention"]),
        message_ttl_s=value["message_ttl"],
        subscription_expiration_s=value["subscription_expiration"] * 60,
        quota_size=_quota(value["backlog_quota_size"], "limitSize"),
        quota_time=_quota(value["backlog_quota_time"], "limitTime"),
        delays=_delays(value["delayed_delivery"]),
        deduplication=value["deduplication"],
        publish_rate=_publish_rate(value["publish_rate"]),
        dispatch_rate=dispatch_rate(value["dispatch_rate"]),
        subscription_dispatch_rate=dispatch_rate(value["subscription_dispatch_rate"]),
        own_dispatch_rates={
            key.removeprefix(_OWN_RATE): dispatch_rate(rate)
            for key, rate in topic.items()
            if key.startswith(_OWN_RATE)
        },
        subscribe_rate=_subscribe_rate(value["subscribe_rate"]),
        max_message_size=value["max_message_size"],
        encryption_required=value["encryption_required"],
        judges_sends=bool(value["max_message_size"]) or value["encryption_required"],
        max_producers=value["max_producers"],
        max_consumers=value["max_consumers"],
        max_consumers_per_subscription=value["max_consumers_per_subscription"],
        max_subscriptions=value["max_subscriptions"],
        max_unacked_per_consumer=value["max_unacked_per_consumer"],
        max_unacked_per_subscription=value["max_unacked_per_subscription"],
        auto_subscriptions=value["auto_subscription_creation"]["allowAutoSubscriptionCreation"],
        subscription_types=frozenset(
            number
            for number, name in enumerate(SUBSCRIPTION_TYPES)
            if not value["subscription_types"] or name in value["subscription_types"]
        ),
        schema_compatibility=value["schema_compatibility"],
        # Any level may ask for it, and no other can take it back.
        schema_validation=settings.schema_validation_enforced
        or any(values.get("schema_validation", False) for values in (namespace, topic)),
        schema_auto_update=value["schema_auto_update"],
        compaction_threshold=value["compaction_threshold"],
        inactive_after_s=inactive["maxInactiveDurationSeconds"]
        if inactive["deleteWhileInactive"]
        else 0,
        inactive_needs=inactive["inactiveTopicDeleteMode"],
    )


def auto_topics(settings: Settings, namespace: Values) -> AutoTopics:
    """What becomes of a name in a namespace that no topic has."""
    value = merged(POLICIES["auto_topic_creation"], settings, namespace, {})
    is_partitioned = value["topicType"] == "partitioned"
    return AutoTopics(
        value["allowAutoTopicCreation"],
        (value["defaultNumPartitions"] or 0) if is_partitioned else 0,
    )


def max_topics(settings: Settings, namespace: Values) -> int:
    """How many topics a namespace may have; 0 is no limit."""
    count: int = merged(POLICIES["max_topics"], settings, namespace, {})
    return count


def dispatch_rate(value: Json) -> Rate | None:
    return _rate(
        value["dispatchThrottlingRateInMsg"],
        value["dispatchThrottlingRateInByte"],
        value["ratePeriodInSecond"],
        relative=value["relativeToPublishRate"],
    )


def _rate(messages: int, size: int, period_s: float = 1, *, relative: bool = False) -> Rate | None:
    if messages <= 0 and size <= 0:
        return None
    return Rate(max(messages, 0), max(size, 0), period_s, relative)


def _publish_rate(value: Json) -> Rate | None:
    return _rate(value["publishThrottlingRateInMsg"], value["publishThrottlingRateInByte"])


def _subscribe_rate(value: Json) -> Rate | None:
    return _rate(value["subscribeThrottlingRatePerConsumer"], 0, value["ratePeriodInSecond"])


def _retention(value: Json) -> Retention:
    minutes, megabytes = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
    return Retention(
        None if minutes < 0 else minutes * 60_000, None if megabytes < 0 else megabytes * _MIB
    )


def _quota(value: Json, limit: str) -> Quota | None:
    return None if value[limit] < 0 else Quota(value[limit], value["policy"])


def _delays(value: Json) -> Delays | None:
    return Delays(value["maxDeliveryDelayInMillis"]) if value["active"] else None


DEFAULTS = effective(Settings(), {}, {})
"""What holds where nothing is set."""
