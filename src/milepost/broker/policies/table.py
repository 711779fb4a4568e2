"""The table of policies: begin here to add one.

Those that have no effect in this broker are declared in `accepted_only.py`.

Nothing else lists them: REST routes, commands, checks, effective values and `docs/policies.md` are made from
this table. What differs in upstream from one policy to the next (the verb that sets it, what is answered
while nothing is set, whether it can be removed) is said in its route and nowhere else.
"""

from __future__ import annotations

from milepost.broker.policies.accepted_only import (
    DISPATCH_RATE,
    NOT_BUILT,
    SINGLE_PROCESS,
    dispatch_rate,
)
from milepost.broker.policies.policy import Of, Policy, Route
from milepost.broker.policies.shapes import (
    INT_MAX,
    LONG_MAX,
    Choice,
    Json,
    Record,
    Several,
    Shape,
    Switch,
    Text,
    Whole,
)
from milepost.broker.settings.policy_settings import QUOTA_POLICIES

# Names of subscription types, as `subscriptionTypesEnabled` has them.
SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")

# In the order of upstream; UNDEFINED asks the level behind.
SCHEMA_STRATEGIES = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)

_COUNT = Whole(0, INT_MAX)


def _retention_fault(value: dict[str, Json]) -> str | None:
    minutes, megabytes = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
    if (minutes == 0) != (megabytes == 0):
        return f"{minutes} minutes and {megabytes} MB: both are 0, or none; -1 is no limit"
    return None


def _partitions_fault(value: dict[str, Json]) -> str | None:
    count = value["defaultNumPartitions"] or 0
    if value["topicType"] == "partitioned" and count < 1:
        return f"{count} partitions for partitioned topics"
    return None


def _quota(name: str, kind: str, limit: str, setting: str, doc: str) -> Policy:
    """The two quotas share one path: `backlogQuotaType` tells them apart."""

    def fault(value: dict[str, Json]) -> str | None:
        missing = [part for part in (limit, "policy") if value[part] is None]
        return f"{missing[0]} is missing" if missing else None

    limits = {"limitSize": Whole(-1, LONG_MAX, 1 << 30), "limitTime": Whole(-1, INT_MAX, 3600)}
    fields: dict[str, tuple[Shape, Json]] = {
        part: (shape, None if part == limit else -1) for part, shape in limits.items()
    }
    route = Route(path="backlogQuota", kind=kind)
    return Policy(
        name=name,
        doc=doc,
        shape=Record({**fields, "policy": (Choice(QUOTA_POLICIES), None)}, fault),
        default={
            **dict.fromkeys(limits, -1),
            limit: Of(setting),
            "policy": Of("backlog_quota_policy"),
        },
        namespace=route,
        topic=route,
    )


def _limit(name: str, doc: str, setting: str, namespace: Route, topic: Route | None) -> Policy:
    """A largest number of something; 0 is no limit."""
    return Policy(
        name=name,
        doc=doc,
        shape=_COUNT,
        default=Of(setting),
        namespace=namespace,
        topic=topic,
    )


TABLE: tuple[Policy, ...] = (
    Policy(
        name="retention",
        doc="How long, and how much, of what everybody has acked is kept; -1 is no limit, 0 and 0 is "
        "nothing.",
        shape=Record(
            {
                "retentionTimeInMinutes": (Whole(-1, INT_MAX, 60), 0),
                "retentionSizeInMB": (Whole(-1, LONG_MAX, 1024), 0),
            },
            _retention_fault,
        ),
        default={
            "retentionTimeInMinutes": Of("default_retention_minutes"),
            "retentionSizeInMB": Of("default_retention_mb"),
        },
        namespace=Route(path="retention"),
        topic=Route(path="retention"),
    ),
    Policy(
        name="message_ttl",
        doc="Seconds after which a message that was not acked is acked; 0 is never.",
        shape=_COUNT,
        default=Of("message_ttl_s"),
        namespace=Route(path="messageTTL"),
        topic=Route(path="messageTTL", query="messageTTL"),
    ),
    Policy(
        name="subscription_expiration",
        doc="Minutes after which a subscription that was not used is deleted; 0 is never.",
        shape=_COUNT,
        default=Of("subscription_expiration_minutes"),
        namespace=Route(path="subscriptionExpirationTime"),
        topic=Route(path="subscriptionExpirationTime", query="subscriptionExpirationTime"),
    ),
    _quota(
        "backlog_quota_size",
        "destination_storage",
        "limitSize",
        "backlog_quota_bytes",
        "The largest backlog, in bytes, and what happens beyond it; -1 is no limit.",
    ),
    _quota(
        "backlog_quota_time",
        "message_age",
        "limitTime",
        "backlog_quota_s",
        "The greatest age of a backlog, in seconds, and what happens beyond it; -1 is no limit.",
    ),
    Policy(
        name="delayed_delivery",
        doc="Whether messages are held back until the time their producer asks for, and for how long at "
        "most; 0 is no limit. Due messages leave at their time, whatever `tickTime` says.",
        shape=Record(
            {
                "tickTime": (Whole(0, LONG_MAX, 1000), 1000),
                "active": (Switch(), False),
                "maxDeliveryDelayInMillis": (Whole(0, LONG_MAX, 0), 0),
            }
        ),
        default={
            "tickTime": 1000,
            "active": Of("delayed_delivery"),
            "maxDeliveryDelayInMillis": Of("delayed_delivery_max_ms"),
        },
        namespace=Route(path="delayedDelivery"),
        topic=Route(path="delayedDelivery"),
    ),
    Policy(
        name="deduplication",
        doc="Drop publishes whose sequence id their producer already used.",
        shape=Switch(),
        default=Of("deduplication"),
        namespace=Route(path="deduplication"),
        topic=Route(path="deduplicationEnabled"),
    ),
    Policy(
        name="publish_rate",
        doc="Messages and bytes a second into a topic; 0 or less is no limit. Producers wait, and lose "
        "nothing.",
        shape=Record(
            {
                "publishThrottlingRateInMsg": (Whole(-1, INT_MAX, 1000), -1),
                "publishThrottlingRateInByte": (Whole(-1, LONG_MAX, 1 << 20), -1),
            }
        ),
        default={
            "publishThrottlingRateInMsg": Of("publish_rate_messages"),
            "publishThrottlingRateInByte": Of("publish_rate_bytes"),
        },
        namespace=Route(path="publishRate"),
        topic=Route(path="publishRate", unset_status=204),
    ),
    Policy(
        name="dispatch_rate",
        doc="Messages and bytes in a period to all consumers of a topic; 0 or less is no limit.",
        shape=DISPATCH_RATE,
        default=dispatch_rate(Of("dispatch_rate_messages"), Of("dispatch_rate_bytes")),
        namespace=Route(path="dispatchRate"),
        topic=Route(path="dispatchRate"),
    ),
    Policy(
        name="subscription_dispatch_rate",
        doc="The same for each subscription by itself.",
        shape=DISPATCH_RATE,
        default=dispatch_rate(
            Of("subscription_dispatch_rate_messages"), Of("subscription_dispatch_rate_bytes")
        ),
        namespace=Route(path="subscriptionDispatchRate"),
        topic=Route(path="subscriptionDispatchRate", per_subscription="dispatchRate"),
    ),
    Policy(
        name="resource_group",
        doc="The resource group whose rates all topics of the namespace, and of others, share.",
        shape=Text("batch"),
        namespace=Route(path="resourcegroup", in_path=True),
    ),
    Policy(
        name="subscribe_rate",
        doc="How often one consumer may subscribe in a period; 0 or less is no limit.",
        shape=Record(
            {
                "subscribeThrottlingRatePerConsumer": (Whole(-1, INT_MAX), -1),
                "ratePeriodInSecond": (Whole(1, INT_MAX, 30), 30),
            }
        ),
        default={
            "subscribeThrottlingRatePerConsumer": Of("subscribe_rate"),
            "ratePeriodInSecond": Of("subscribe_rate_period_s"),
        },
        namespace=Route(path="subscribeRate"),
        topic=Route(path="subscribeRate"),
    ),
    Policy(
        name="max_message_size",
        doc="The largest message or batch, in bytes, not above the broker's own; 0 leaves it at that.",
        shape=Whole(0, INT_MAX, 1024),
        default=0,
        topic=Route(path="maxMessageSize", unset_status=204),
    ),
    _limit(
        "max_producers",
        "Producers connected to a topic; 0 is no limit.",
        "max_producers_per_topic",
        Route(path="maxProducersPerTopic"),
        Route(path="maxProducers"),
    ),
    _limit(
        "max_consumers",
        "Consumers connected to a topic; 0 is no limit.",
        "max_consumers_per_topic",
        Route(path="maxConsumersPerTopic"),
        Route(path="maxConsumers"),
    ),
    _limit(
        "max_consumers_per_subscription",
        "Consumers connected to one subscription; 0 is no limit.",
        "max_consumers_per_subscription",
        Route(path="maxConsumersPerSubscription"),
        Route(path="maxConsumersPerSubscription", unset_status=204),
    ),
    _limit(
        "max_subscriptions",
        "Subscriptions of a topic; 0 is no limit.",
        "max_subscriptions_per_topic",
        Route(path="maxSubscriptionsPerTopic"),
        Route(path="maxSubscriptionsPerTopic", unset_status=204),
    ),
    _limit(
        "max_unacked_per_consumer",
        "Messages inflight at one consumer of a shared subscription; 0 is no limit.",
        "max_unacked_messages_per_consumer",
        Route(path="maxUnackedMessagesPerConsumer"),
        Route(path="maxUnackedMessagesOnConsumer"),
    ),
    _limit(
        "max_unacked_per_subscription",
        "Messages inflight on one shared subscription; 0 is no limit.",
        "max_unacked_messages_per_subscription",
        Route(path="maxUnackedMessagesPerSubscription"),
        Route(path="maxUnackedMessagesOnSubscription"),
    ),
    _limit(
        "max_topics",
        "Topics of a namespace; 0 is no limit.",
        "max_topics_per_namespace",
        Route(path="maxTopicsPerNamespace", unset=0),
        None,
    ),
    Policy(
        name="auto_topic_creation",
        doc="Whether a topic is made when a client first names it, and with how many partitions.",
        shape=Record(
            {
                "allowAutoTopicCreation": (Switch(), False),
                # Go's admin client sends an empty type where it switches creation off.
                "topicType": (
                    Choice(("non-partitioned", "partitioned"), may_be_empty=True),
                    "non-partitioned",
                ),
                "defaultNumPartitions": (Whole(0, 10_000, 1), None),
            },
            _partitions_fault,
        ),
        default={
            "allowAutoTopicCreation": Of("allow_auto_topic_creation"),
            "topicType": Of("allow_auto_topic_creation_type"),
            "defaultNumPartitions": Of("default_num_partitions"),
        },
        namespace=Route(path="autoTopicCreation"),
    ),
    Policy(
        name="auto_subscription_creation",
        doc="Whether a subscription is made when a consumer first names it.",
        shape=Record({"allowAutoSubscriptionCreation": (Switch(), False)}),
        default={"allowAutoSubscriptionCreation": Of("allow_auto_subscription_creation")},
        namespace=Route(path="autoSubscriptionCreation"),
        topic=Route(path="autoSubscriptionCreation"),
    ),
    Policy(
        name="subscription_types",
        doc="Which types of subscriptions consumers may open; an empty list allows all.",
        shape=Several(SUBSCRIPTION_TYPES),
        default=[],
        namespace=Route(path="subscriptionTypesEnabled", unset=[]),
        topic=Route(path="subscriptionTypesEnabled"),
    ),
    Policy(
        name="schema_compatibility",
        doc="What a new schema of a topic must agree with; UNDEFINED asks the level behind.",
        shape=Choice(SCHEMA_STRATEGIES),
        default=Of("schema_compatibility_strategy"),
        unset_by="UNDEFINED",
        namespace=Route(
            path="schemaCompatibilityStrategy", method="PUT", removable=False, unset="UNDEFINED"
        ),
        topic=Route(path="schemaCompatibilityStrategy", method="PUT"),
    ),
    Policy(
        name="schema_validation",
        doc="Whether producers without a schema are refused on topics that have one.",
        shape=Switch(),
        default=Of("schema_validation_enforced"),
        namespace=Route(path="schemaValidationEnforced", removable=False, unset=False),
        topic=Route(path="schemaValidationEnforced", removable=False, unset=False),
    ),
    Policy(
        name="schema_auto_update",
        doc="Whether producers may add schema versions.",
        shape=Switch(),
        default=Of("allow_auto_update_schema"),
        # Upstream reads null as false: a caller that would remove it forbids updates.
        namespace=Route(path="isAllowAutoUpdateSchema", removable=False, unset=True, null=False),
    ),
    Policy(
        name="encryption_required",
        doc="Whether producers, and messages, that are not encrypted are refused.",
        shape=Switch(),
        default=Of("encryption_required"),
        namespace=Route(path="encryptionRequired", removable=False, unset=False),
    ),
    Policy(
        name="compaction_threshold",
        doc="Bytes of backlog at which a topic is compacted; 0 is never by itself.",
        shape=Whole(0, LONG_MAX, 1 << 30),
        default=0,
        namespace=Route(path="compactionThreshold", method="PUT"),
        topic=Route(path="compactionThreshold"),
    ),
    Policy(
        name="inactive_topics",
        doc="Whether topics that are not in use are deleted, when, and what counts as use.",
        shape=Record(
            {
                "inactiveTopicDeleteMode": (
                    Choice(
                        (
                            "delete_when_no_subscriptions",
                            "delete_when_subscriptions_caught_up",
                        )
                    ),
                    "delete_when_no_subscriptions",
                ),
                "maxInactiveDurationSeconds": (Whole(1, INT_MAX, 60), 60),
                "deleteWhileInactive": (Switch(), False),
            }
        ),
        default={
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 60,
            "deleteWhileInactive": False,
        },
        namespace=Route(path="inactiveTopicPolicies"),
        topic=Route(path="inactiveTopicPolicies"),
    ),
    *SINGLE_PROCESS,
    *NOT_BUILT,
)

POLICIES: dict[str, Policy] = {policy.name: policy for policy in TABLE}
"""By name. Invariant: no name twice, no route twice at one level."""

assert len(POLICIES) == len(TABLE), "a name twice"
