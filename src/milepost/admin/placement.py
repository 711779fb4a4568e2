"""Calls about bundles, clusters and resource groups.

admin.split_bundle("public/default", "0x00000000_0xffffffff")
admin.put_resource_group("batch", {"publishRateInMsgs": 1000})
"""

from __future__ import annotations

from milepost.admin.request import (
    Json,
    Request,
    Script,
    delete,
    encode,
    get,
    namespace_path,
    path,
    put,
    subscription_path,
    topic_path,
)

_GROUPS = "admin/v2/resourcegroups"
_STATS = "admin/v2/broker-stats"


# -- bundles -----------------------------------------------------------------------------------------


def split_bundle(
    namespace: str,
    bundle: str,
    *,
    way: str | None = None,
    unload: bool = False,
    positions: list[int] | None = None,
) -> Script[None]:
    """`LARGEST` and `HOT` are bundles too: with most topics, and with most messages a second."""
    query: dict[str, object] = {"unload": unload, "splitAlgorithmName": way}
    body = None if positions is None else encode(positions)
    yield Request("PUT", namespace_path(namespace, bundle, "split"), query, body)


def get_topic_positions(
    namespace: str, bundle: str, topics: list[str] | None = None
) -> Script[Json]:
    """The hashes of a bundle's topics, or of those that are named."""
    target = namespace_path(namespace, bundle, "topicHashPositions")
    return (yield get(target, topics=",".join(topics or ()) or None)).object()


def list_topics_in_bundle(namespace: str, bundle: str) -> Script[list[str]]:
    """The non-persistent topics that are open in a bundle."""
    tenant, _, name = namespace.partition("/")
    return (yield get(path("admin/v2/non-persistent", tenant, name, bundle))).strings()


# -- clusters ----------------------------------------------------------------------------------------


def get_namespaces_of_group(tenant: str, cluster: str, group: str) -> Script[list[str]]:
    """Of an anti-affinity group."""
    target = path("admin/v2/namespaces", cluster, "antiAffinity", group)
    return (yield get(target, tenant=tenant)).strings()


def get_replicated_status(topic: str, subscription: str) -> Script[Json]:
    target = subscription_path(topic, subscription, "replicatedSubscriptionStatus")
    return (yield get(target)).object()


def set_replicated_status(topic: str, subscription: str, replicated: bool) -> Script[None]:
    target = subscription_path(topic, subscription, "replicatedSubscriptionStatus")
    yield Request("POST", target, {}, encode(replicated))


def offload_topic(topic: str, ledger_id: int, entry_id: int) -> Script[None]:
    """What lies before a position."""
    yield put(topic_path(topic, "offload"), {"ledgerId": ledger_id, "entryId": entry_id})


def get_offload_status(topic: str) -> Script[Json]:
    return (yield get(topic_path(topic, "offload"))).object()


# -- resource groups ---------------------------------------------------------------------------------


def list_resource_groups() -> Script[list[str]]:
    return (yield get(path(_GROUPS))).strings()


def get_resource_group(name: str) -> Script[Json]:
    return (yield get(path(_GROUPS, name))).object()


def put_resource_group(name: str, rates: dict[str, int]) -> Script[None]:
    """Make it, or change those of its rates that are given."""
    yield put(path(_GROUPS, name), rates)


def delete_resource_group(name: str) -> Script[None]:
    yield delete(path(_GROUPS, name))


# -- numbers -----------------------------------------------------------------------------------------


def get_broker_metrics() -> Script[object]:
    return (yield get(path(_STATS, "metrics"))).json()


def get_load_report() -> Script[Json]:
    return (yield get(path(_STATS, "load-report"))).object()
