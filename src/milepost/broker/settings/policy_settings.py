"""Settings that are defaults of policies, and the intervals of housekeeping.

Rows of the one table (`settings.py`); a namespace or a topic may overrule each of the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.broker.settings.setting import Alias, choice, count, duration, switch

_LONG_MAX = 2**63 - 1
_DAY_S = 24 * 3600

QUOTA_POLICIES = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")


# Without slots: of two bases only one may have them.
# Only `Settings` is made: what else a dataclass gets would be compiled with every start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PolicySettings:
    default_retention_minutes: int = count(
        0,
        "How long acked messages are kept; 0 with a size of 0 keeps none, -1 is for ever.",
        "defaultRetentionTimeInMinutes",
        low=-1,
        live=True,
    )
    default_retention_mb: int = count(
        0,
        "How much of them is kept, in MiB; -1 is all.",
        "defaultRetentionSizeInMB",
        low=-1,
        high=_LONG_MAX,
        live=True,
    )
    message_ttl_s: int = count(
        0,
        "Messages that are not acked after this long are acked by the broker; 0 is never.",
        "ttlDurationDefaultInSeconds",
        live=True,
    )
    subscription_expiration_minutes: int = count(
        0,
        "Subscriptions that have had no consumer for this long are deleted; 0 is never.",
        "subscriptionExpirationTimeMinutes",
        live=True,
    )
    encryption_required: bool = switch(
        False,
        "Refuse producers and messages that are not encrypted.",
        "encryptionRequireOnProducer",
        live=True,
    )
    backlog_quota_bytes: int = count(
        -1,
        "The largest backlog of a topic, in bytes; -1 is no limit.",
        "backlogQuotaDefaultLimitBytes",
        low=-1,
        high=_LONG_MAX,
        live=True,
    )
    backlog_quota_s: int = count(
        -1,
        "The age of the oldest message in a backlog; -1 is no limit.",
        "backlogQuotaDefaultLimitSecond",
        low=-1,
        live=True,
    )
    backlog_quota_policy: str = choice(
        QUOTA_POLICIES[0],
        QUOTA_POLICIES,
        "What happens to producers, or to the backlog, when one of the two is exceeded.",
        "backlogQuotaDefaultRetentionPolicy",
        live=True,
    )
    publish_rate_messages: int = count(
        0,
        "Messages a second into one topic; 0 is no limit.",
        "maxPublishRatePerTopicInMessages",
        live=True,
    )
    publish_rate_bytes: int = count(
        0,
        "Bytes a second into one topic; 0 is no limit.",
        "maxPublishRatePerTopicInBytes",
        high=_LONG_MAX,
        live=True,
    )
    dispatch_rate_messages: int = count(
        0,
        "Messages a second out of one topic; 0 is no limit.",
        "dispatchThrottlingRatePerTopicInMsg",
        live=True,
    )
    dispatch_rate_bytes: int = count(
        0,
        "Bytes a second out of one topic; 0 is no limit.",
        "dispatchThrottlingRatePerTopicInByte",
        high=_LONG_MAX,
        live=True,
    )
    subscription_dispatch_rate_messages: int = count(
        0,
        "Messages a second to one subscription; 0 is no limit.",
        "dispatchThrottlingRatePerSubscriptionInMsg",
        live=True,
    )
    subscription_dispatch_rate_bytes: int = count(
        0,
        "Bytes a second to one subscription; 0 is no limit.",
        "dispatchThrottlingRatePerSubscriptionInByte",
        high=_LONG_MAX,
        live=True,
    )
    subscribe_rate: int = count(
        0,
        "How often one consumer may subscribe within the period; 0 is no limit.",
        "subscribeThrottlingRatePerConsumer",
        live=True,
    )
    subscribe_rate_period_s: int = count(
        30, "That period.", "subscribeRatePeriodPerConsumerInSecond", low=1, live=True
    )
    delayed_delivery: bool = switch(
        True,
        "Hold messages back until the time that their producer asks for.",
        "delayedDeliveryEnabled",
        live=True,
    )
    delayed_delivery_max_ms: int = count(
        0,
        "The longest delay a producer may ask for; 0 is no limit.",
        "delayedDeliveryMaxDelayInMillis",
        high=_LONG_MAX,
        live=True,
    )
    retention_check_interval_s: float = duration(
        120,
        "How often is looked for ledgers that may go.",
        "retentionCheckIntervalInSeconds",
        low=0.01,
        high=_DAY_S,
    )
    expiry_check_interval_s: float = duration(
        300,
        "How often is looked for messages that have expired.",
        Alias("messageExpiryCheckIntervalInMinutes", 60),
        low=0.01,
        high=_DAY_S,
    )
    subscription_check_interval_s: float = duration(
        300,
        "How often is looked for subscriptions that have expired.",
        Alias("subscriptionExpiryCheckIntervalInMinutes", 60),
        low=0.01,
        high=_DAY_S,
    )
    quota_check_interval_s: float = duration(
        60,
        "How often backlogs are compared with their quota.",
        "backlogQuotaCheckIntervalInSeconds",
        low=0.01,
        high=_DAY_S,
    )
    compaction_check_interval_s: float = duration(
        60,
        "How often is looked for topics that have grown past their compaction threshold.",
        "brokerServiceCompactionMonitorIntervalInSeconds",
        low=0.01,
        high=_DAY_S,
    )
    inactive_check_interval_s: float = duration(
        60,
        "How often the broker looks for unused topics whose policy is to delete them.",
        "brokerDeleteInactiveTopicsFrequencySeconds",
        low=0.01,
        high=_DAY_S,
    )
