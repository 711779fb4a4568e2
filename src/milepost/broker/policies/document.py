"""The policies of a namespace as one JSON document, in upstream's names.

What `GET /admin/v2/namespaces/{tenant}/{namespace}` answers, and what may be given when one is made. Rates
stand under the name of a cluster there, of which there is one.

    >>> document({"message_ttl": 60}, "standalone")["message_ttl_in_seconds"]
    60
    >>> values({"message_ttl_in_seconds": 60}, "standalone")
    {'message_ttl': 60}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from milepost.broker.policies.policy import NOTHING, Values
from milepost.broker.policies.shapes import Json
from milepost.broker.policies.table import POLICIES
from milepost.errors import InvalidPolicy

# Policy → its name in the document.
NAMES: Final = {
    "retention": "retention_policies",
    "message_ttl": "message_ttl_in_seconds",
    "subscription_expiration": "subscription_expiration_time_minutes",
    "delayed_delivery": "delayed_delivery_policies",
    "deduplication": "deduplicationEnabled",
    "max_producers": "max_producers_per_topic",
    "max_consumers": "max_consumers_per_topic",
    "max_consumers_per_subscription": "max_consumers_per_subscription",
    "max_subscriptions": "max_subscriptions_per_topic",
    "max_unacked_per_consumer": "max_unacked_messages_per_consumer",
    "max_unacked_per_subscription": "max_unacked_messages_per_subscription",
    "max_topics": "max_topics_per_namespace",
    "auto_topic_creation": "autoTopicCreationOverride",
    "auto_subscription_creation": "autoSubscriptionCreationOverride",
    "subscription_types": "subscription_types_enabled",
    "schema_compatibility": "schema_compatibility_strategy",
    "schema_validation": "schema_validation_enforced",
    "schema_auto_update": "is_allow_auto_update_schema",
    "encryption_required": "encryption_required",
    "compaction_threshold": "compaction_threshold",
    "inactive_topics": "inactive_topic_policies",
    "persistence": "persistence",
    "deduplication_snapshot_interval": "deduplicationSnapshotIntervalSeconds",
    "dispatcher_pause": "dispatcherPauseOnAckStatePersistentEnabled",
    "offload": "offload_policies",
}
# The same for those that stand under the name of a cluster.
BY_CLUSTER: Final = {
    "publish_rate": "publishMaxMessageRate",
    "dispatch_rate": "topicDispatchRate",
    "subscription_dispatch_rate": "subscriptionDispatchRate",
    "replicator_dispatch_rate": "replicatorDispatchRate",
    "subscribe_rate": "clusterSubscribeRate",
}
QUOTA_MAP: Final = "backlog_quota_map"
_QUOTAS: Final = {
    route.kind: name for name, policy in POLICIES.items() if (route := policy.topic) and route.kind
}
# What the document says of these while nothing is set; of the others it says nothing.
_ALWAYS: Final = (
    "subscription_types",
    "schema_compatibility",
    "schema_validation",
    "schema_auto_update",
    "encryption_required",
    "dispatcher_pause",
)


def document(found: Values, cluster: str) -> dict[str, Json]:
    """What a namespace has set."""
    shown: dict[str, Json] = {
        QUOTA_MAP: {kind: found[name] for kind, name in _QUOTAS.items() if name in found}
    }
    for name, key in BY_CLUSTER.items():
        shown[key] = {cluster: found[name]} if name in found else {}
    for name, key in NAMES.items():
        route = POLICIES[name].namespace
        assert route is not None, name
        if name in found:
            shown[key] = found[name]
        elif name in _ALWAYS and route.unset is not NOTHING:
            shown[key] = route.unset
    return shown


def values(given: Mapping[str, Any], cluster: str) -> dict[str, Json]:
    """The policies in a document as it came from outside; what is no policy is left out."""
    found = {name: given[key] for name, key in NAMES.items() if given.get(key) is not None}
    for name, key in BY_CLUSTER.items():
        by_cluster = _object(given, key)
        if by_cluster.get(cluster) is not None:
            found[name] = by_cluster[cluster]
    quotas = _object(given, QUOTA_MAP)
    found |= {name: quotas[kind] for kind, name in _QUOTAS.items() if quotas.get(kind) is not None}
    return {name: POLICIES[name].shape.read(value, name) for name, value in found.items()}


def _object(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = given.get(key) or {}
    if not isinstance(found, dict):
        raise InvalidPolicy(f"{key}: expected an object")
    return found
