"""Every call as upstream's paths have it: method, path, query and body, one row each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.admin.conftest import Played

from milepost.admin.calls import Calls
from milepost.admin.face import SyncFace, call
from milepost.positions import EARLIEST, MessageId


class Face(Calls, SyncFace):
    pass


TOPIC = "persistent://acme/shop/orders"
T = "/admin/v2/persistent/acme/shop/orders"
S = f"{T}/subscription/billing"
N = "/admin/v2/namespaces/acme/shop"
ID = {"ledgerId": 3, "entryId": 7, "partitionIndex": -1, "batchIndex": 2}
AT = MessageId(3, 7, -1, 2)
X = "/admin/v3/transactions"
ORDERS = "acme/shop/orders"
NO_FORCE = "force=false"
STATS = "getPreciseBacklog=false&subscriptionBacklogSize=true&getEarliestTimeInBacklog=false"

# call, arguments, keywords, the line of the request, its body
ROWS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Any]] = [
    ("create_topic", (TOPIC,), {}, f"PUT {T}", {}),
    ("create_topic", (TOPIC, {"a": "b"}), {}, f"PUT {T}", {"a": "b"}),
    ("create_topic", ("orders",), {}, "PUT /admin/v2/persistent/public/default/orders", {}),
    ("create_topic", ("a/b/x y%",), {}, "PUT /admin/v2/persistent/a/b/x%20y%25", {}),
    ("create_partitioned_topic", (TOPIC, 4), {}, f"PUT {T}/partitions", 4),
    (
        "create_partitioned_topic",
        (TOPIC, 4, {"a": "b"}),
        {},
        f"PUT {T}/partitions",
        {"partitions": 4, "properties": {"a": "b"}},
    ),
    (
        "update_partitioned_topic",
        (TOPIC, 8),
        {},
        f"POST {T}/partitions?updateLocalTopicOnly=false&force=false",
        8,
    ),
    ("create_missed_partitions", (TOPIC,), {}, f"POST {T}/createMissedPartitions", None),
    ("get_partitioned_topic_metadata", (TOPIC,), {}, f"GET {T}/partitions", None),
    ("delete_topic", (TOPIC,), {"force": True}, f"DELETE {T}?force=true", None),
    ("delete_partitioned_topic", (TOPIC,), {}, f"DELETE {T}/partitions?{NO_FORCE}", None),
    ("truncate_topic", (TOPIC,), {}, f"DELETE {T}/truncate", None),
    ("unload_topic", (TOPIC,), {}, f"PUT {T}/unload", None),
    ("trim_topic", (TOPIC,), {}, f"POST {T}/trim", None),
    ("get_stats", (TOPIC,), {}, f"GET {T}/stats?{STATS}", None),
    ("get_partitioned_stats", (TOPIC,), {}, f"GET {T}/partitioned-stats?perPartition=false&{STATS}", None),
    ("get_internal_stats", (TOPIC,), {}, f"GET {T}/internalStats?metadata=false", None),
    ("get_partitioned_internal_stats", (TOPIC,), {}, f"GET {T}/partitioned-internalStats", None),
    ("get_internal_info", (TOPIC,), {}, f"GET {T}/internal-info", None),
    ("get_topic_properties", (TOPIC,), {}, f"GET {T}/properties", None),
    ("update_topic_properties", (TOPIC, {"a": "b"}), {}, f"PUT {T}/properties", {"a": "b"}),
    ("remove_topic_property", (TOPIC, "a&b"), {}, f"DELETE {T}/properties?key=a%26b", None),
    ("lookup_topic", (TOPIC,), {}, "GET /lookup/v2/topic/persistent/acme/shop/orders", None),
    ("get_bundle_range", (TOPIC,), {}, "GET /lookup/v2/topic/persistent/acme/shop/orders/bundle", None),
    ("compact_topic", (TOPIC,), {}, f"PUT {T}/compaction", None),
    ("get_compaction_status", (TOPIC,), {}, f"GET {T}/compaction", None),
    ("get_topic_permissions", (TOPIC,), {}, f"GET {T}/permissions", None),
    ("grant_topic_permission", (TOPIC, "r", ["produce"]), {}, f"POST {T}/permissions/r", ["produce"]),
    ("revoke_topic_permission", (TOPIC, "a/b"), {}, f"DELETE {T}/permissions/a%2Fb", None),
    ("create_subscription", (TOPIC, "billing", AT), {}, f"PUT {S}", ID),
    (
        "create_subscription",
        (TOPIC, "billing"),
        {"replicated": True, "properties": {"a": "b"}},
        f"PUT {S}?replicated=true",
        {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, "properties": {"a": "b"}},
    ),
    ("delete_subscription", (TOPIC, "billing"), {}, f"DELETE {S}?{NO_FORCE}", None),
    ("get_subscription_properties", (TOPIC, "billing"), {}, f"GET {S}/properties", None),
    ("update_subscription_properties", (TOPIC, "billing", {}), {}, f"PUT {S}/properties", {}),
    ("skip_messages", (TOPIC, "billing", 3), {}, f"POST {S}/skip/3", None),
    ("skip_all_messages", (TOPIC, "billing"), {}, f"POST {S}/skip_all", None),
    ("skip_all_messages", (TOPIC, "a/b"), {}, f"POST {T}/subscription/a%252Fb/skip_all", None),
    ("expire_messages", (TOPIC, "billing", 60), {}, f"POST {S}/expireMessages/60", None),
    (
        "expire_messages_until",
        (TOPIC, "billing", AT),
        {"excluded": True},
        f"POST {S}/expireMessages",
        {**ID, "excluded": True},
    ),
    (
        "expire_messages_for_all_subscriptions",
        (TOPIC, 60),
        {},
        f"POST {T}/all_subscription/expireMessages/60",
        None,
    ),
    ("reset_cursor", (TOPIC, "billing", AT), {}, f"POST {S}/resetcursor", {**ID, "excluded": False}),
    (
        "reset_cursor",
        (TOPIC, "billing", EARLIEST),
        {},
        f"POST {S}/resetcursor",
        {"ledgerId": -1, "entryId": -1, "excluded": False},
    ),
    ("reset_cursor_to_time", (TOPIC, "billing", 1700), {}, f"POST {S}/resetcursor/1700", None),
    ("analyze_subscription_backlog", (TOPIC, "billing"), {}, f"POST {S}/analyzeBacklog", None),
    ("create_namespace", ("acme/shop",), {}, f"PUT {N}", None),
    (
        "create_namespace",
        ("acme/shop",),
        {"clusters": ["c"], "bundles": 4},
        f"PUT {N}",
        {"replication_clusters": ["c"], "bundles": {"numBundles": 4}},
    ),
    ("delete_namespace", ("acme/shop",), {}, f"DELETE {N}?{NO_FORCE}", None),
    ("get_policies", ("acme/shop",), {}, f"GET {N}", None),
    ("get_policy", ("acme/shop", "retention"), {}, f"GET {N}/retention", None),
    ("set_policy", ("acme/shop", "messageTTL", 5), {}, f"POST {N}/messageTTL", 5),
    ("set_policy", ("acme/shop", "compactionThreshold", 5), {}, f"PUT {N}/compactionThreshold", 5),
    ("set_policy", ("acme/shop", "backlogQuota", {}), {"backlogQuotaType": "message_age"},
     f"POST {N}/backlogQuota?backlogQuotaType=message_age", {}),
    ("remove_policy", ("acme/shop", "retention"), {}, f"DELETE {N}/retention", None),
    ("get_topic_policy", (TOPIC, "retention"), {}, f"GET {T}/retention", None),
    ("get_topic_policy", (TOPIC, "retention"), {"applied": True, "is_global": True},
     f"GET {T}/retention?applied=true&isGlobal=true", None),
    ("set_topic_policy", (TOPIC, "messageTTL", 5), {}, f"POST {T}/messageTTL?messageTTL=5", None),
    ("set_topic_policy", (TOPIC, "dispatchRate", {}), {"subscription": "a/b"},
     f"POST {T}/a%2Fb/dispatchRate", {}),
    ("set_topic_policy", (TOPIC, "schemaCompatibilityStrategy", "FULL"), {},
     f"PUT {T}/schemaCompatibilityStrategy", "FULL"),
    ("remove_topic_policy", (TOPIC, "retention"), {}, f"DELETE {T}/retention", None),
    ("get_namespace_permissions", ("acme/shop",), {}, f"GET {N}/permissions", None),
    ("grant_namespace_permission", ("acme/shop", "r", ["consume"]), {},
     f"POST {N}/permissions/r", ["consume"]),
    ("revoke_namespace_permission", ("acme/shop", "r"), {}, f"DELETE {N}/permissions/r", None),
    ("get_subscription_permissions", ("acme/shop",), {}, f"GET {N}/permissions/subscription", None),
    ("grant_subscription_permission", ("acme/shop", "s", ["r"]), {},
     f"POST {N}/permissions/subscription/s", ["r"]),
    ("revoke_subscription_permission", ("acme/shop", "s", "r"), {},
     f"DELETE {N}/permissions/s/r", None),
    ("get_namespace_properties", ("acme/shop",), {}, f"GET {N}/properties", None),
    ("set_namespace_properties", ("acme/shop", {"a": "b"}), {}, f"PUT {N}/properties", {"a": "b"}),
    ("clear_namespace_properties", ("acme/shop",), {}, f"DELETE {N}/properties", None),
    ("get_bundles", ("acme/shop",), {}, f"GET {N}/bundles", None),
    ("unload_namespace", ("acme/shop",), {"bundle": "0x0_0xf"}, f"PUT {N}/0x0_0xf/unload", None),
    ("clear_namespace_backlog", ("acme/shop",), {}, f"POST {N}/clearBacklog", None),
    ("clear_namespace_backlog", ("acme/shop", "s"), {}, f"POST {N}/clearBacklog/s", None),
    ("unsubscribe_namespace", ("acme/shop", "s"), {}, f"POST {N}/unsubscribe/s", None),
    ("unload_namespace", ("acme/shop",), {}, f"PUT {N}/unload", None),
    ("get_tenant", ("acme",), {}, "GET /admin/v2/tenants/acme", None),
    ("delete_tenant", ("acme",), {}, f"DELETE /admin/v2/tenants/acme?{NO_FORCE}", None),
    ("check_health", (), {}, "GET /admin/v2/brokers/health", None),
    ("get_version", (), {}, "GET /admin/v2/brokers/version", None),
    ("is_milepost", (), {}, "GET /admin/v2/brokers/version", None),
    ("get_leader_broker", (), {}, "GET /admin/v2/brokers/leaderBroker", None),
    ("get_owned_namespaces", ("c", "h:1"), {}, "GET /admin/v2/brokers/c/h%3A1/ownedNamespaces", None),
    ("get_broker_topics", (), {}, "GET /admin/v2/broker-stats/topics", None),
    ("get_dynamic_settings", (), {}, "GET /admin/v2/brokers/configuration/values", None),
    ("get_runtime_settings", (), {}, "GET /admin/v2/brokers/configuration/runtime", None),
    ("get_internal_configuration", (), {}, "GET /admin/v2/brokers/internal-configuration", None),
    ("set_dynamic_setting", ("a", "b/c"), {}, "POST /admin/v2/brokers/configuration/a/b%2Fc", None),
    ("remove_dynamic_setting", ("a",), {}, "DELETE /admin/v2/brokers/configuration/a", None),
    ("check_backlog_quotas", (), {}, "GET /admin/v2/brokers/backlog-quota-check", None),
    ("split_bundle", ("acme/shop", "HOT"), {}, f"PUT {N}/HOT/split?unload=false", None),
    ("get_topic_positions", ("acme/shop", "0x0_0xf", []), {},
     f"GET {N}/0x0_0xf/topicHashPositions", None),
    ("get_replicated_status", (TOPIC, "billing"), {}, f"GET {S}/replicatedSubscriptionStatus", None),
    ("set_replicated_status", (TOPIC, "billing", True), {},
     f"POST {S}/replicatedSubscriptionStatus", True),
    ("offload_topic", (TOPIC, 3, 7), {}, f"PUT {T}/offload", {"ledgerId": 3, "entryId": 7}),
    ("get_offload_status", (TOPIC,), {}, f"GET {T}/offload", None),
    ("get_resource_group", ("g",), {}, "GET /admin/v2/resourcegroups/g", None),
    ("put_resource_group", ("g", {"a": 1}), {}, "PUT /admin/v2/resourcegroups/g", {"a": 1}),
    ("delete_resource_group", ("g",), {}, "DELETE /admin/v2/resourcegroups/g", None),
    ("get_broker_metrics", (), {}, "GET /admin/v2/broker-stats/metrics", None),
    ("get_load_report", (), {}, "GET /admin/v2/broker-stats/load-report", None),
    ("get_coordinator_stats", (), {}, f"GET {X}/coordinatorStats", None),
    ("get_coordinator_internal_stats", (0,), {},
     f"GET {X}/coordinatorInternalStats/0?metadata=false", None),
    ("get_slow_transactions", (5000, 0), {}, f"GET {X}/slowTransactions/5000?coordinatorId=0", None),
    ("get_transaction_metadata", (0, 17), {}, f"GET {X}/transactionMetadata/0/17", None),
    ("get_transaction_in_buffer_stats", (0, 17, TOPIC), {},
     f"GET {X}/transactionInBufferStats/{ORDERS}/0/17", None),
    ("get_transaction_in_pending_ack_stats", (0, 17, TOPIC, "s"), {},
     f"GET {X}/transactionInPendingAckStats/{ORDERS}/s/0/17", None),
    ("get_transaction_buffer_stats", (TOPIC,), {},
     f"GET {X}/transactionBufferStats/{ORDERS}?lowWaterMarks=false&segmentStats=false", None),
    ("get_transaction_buffer_internal_stats", (TOPIC,), {},
     f"GET {X}/transactionBufferInternalStats/{ORDERS}?metadata=false", None),
    ("get_pending_ack_stats", (TOPIC, "s"), {},
     f"GET {X}/pendingAckStats/{ORDERS}/s?lowWaterMarks=false", None),
    ("get_pending_ack_internal_stats", (TOPIC, "s"), {},
     f"GET {X}/pendingAckInternalStats/{ORDERS}/s?metadata=false", None),
    ("get_position_stats_in_pending_ack", (TOPIC, "s", 1, 2, 3), {},
     f"GET {X}/positionStatsInPendingAck/{ORDERS}/s/1/2?batchIndex=3", None),
    ("abort_transaction", (0, 17), {}, f"POST {X}/abortTransaction/0/17", None),
    ("scale_transaction_coordinators", (4,), {}, f"POST {X}/transactionCoordinator/replicas", 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "line", "body"),
    ROWS,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(ROWS)],
)
def test_a_call_is_this_request(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: str, body: Any
) -> None:
    transport = Played()
    getattr(Face(transport), name)(*args, **kwargs)
    (request,) = transport.asked
    assert f"{request.method} {request.target}" == line
    assert (json.loads(request.body) if request.body is not None else None) == body


# Those that read a list, a number or an id, or ask more than once, have tests beside their resource.
ELSEWHERE = {
    "get_progress", "get_strip", "get_overview", "search_topics", "get_losses", "accept_loss",
    "list_topics", "list_partitioned_topics", "lookup_partitioned_topic",
    "terminate_topic", "terminate_partitioned_topic",
    "get_subscriptions", "get_message_id_by_index", "get_message_id_by_timestamp", "get_index_by_message_id",
    "get_last_message_id", "get_backlog_size", "get_message_by_id", "examine_message",
    "peek_messages", "list_namespaces", "get_namespace_topics", "list_tenants", "create_tenant",
    "update_tenant", "list_clusters", "list_brokers", "list_dynamic_settings",
    "get_namespace_property", "remove_namespace_property",
    "peek_entry", "reset_subscription", "get_resets",
    "get_schema", "get_all_schemas", "create_schema", "delete_schema", "get_schema_compatibility",
    "get_schema_version",
    "list_topics_in_bundle", "get_namespaces_of_group", "list_resource_groups", "list_coordinators",
}  # fmt: skip


def test_every_call_has_a_row() -> None:
    calls = {name for name, value in vars(Calls).items() if isinstance(value, call)}
    assert calls == {row[0] for row in ROWS} | ELSEWHERE


def test_a_broker_says_which_it_is() -> None:
    assert Face(Played(({"x-milepost-version": "0.1.0"}, b"0.1.0"))).is_milepost()
    assert not Face(Played(b"4.2.4")).is_milepost()
