"""Calls about namespaces and their permissions."""

from __future__ import annotations

from milepost.admin.request import (
    Json,
    Script,
    delete,
    get,
    namespace_path,
    post,
    put,
    tenant_path,
)


def list_namespaces(tenant: str) -> Script[list[str]]:
    return (yield get(tenant_path("admin/v2/namespaces", tenant))).strings()


def create_namespace(
    namespace: str, *, clusters: list[str] | None = None, bundles: int | None = None
) -> Script[None]:
    """`Conflict` if it exists."""
    body: Json = {}
    if clusters:
        body["replication_clusters"] = clusters
    if bundles:
        body["bundles"] = {"numBundles": bundles}
    yield put(namespace_path(namespace), body or None)


def delete_namespace(namespace: str, *, force: bool = False) -> Script[None]:
    """`Conflict` while it has topics, unless forced."""
    yield delete(namespace_path(namespace), force=force)


def get_namespace_topics(
    namespace: str, *, mode: str | None = None, include_system: bool = False
) -> Script[list[str]]:
    """`mode`: PERSISTENT, NON_PERSISTENT or ALL."""
    request = get(
        namespace_path(namespace, "topics"), mode=mode, includeSystemTopic=include_system or None
    )
    return (yield request).strings()


def get_policies(namespace: str) -> Script[Json]:
    return (yield get(namespace_path(namespace))).object()


def get_namespace_permissions(namespace: str) -> Script[dict[str, list[str]]]:
    return (yield get(namespace_path(namespace, "permissions"))).object()


def grant_namespace_permission(namespace: str, role: str, actions: list[str]) -> Script[None]:
    yield post(namespace_path(namespace, "permissions", role), actions)


def revoke_namespace_permission(namespace: str, role: str) -> Script[None]:
    yield delete(namespace_path(namespace, "permissions", role))


def get_subscription_permissions(namespace: str) -> Script[dict[str, list[str]]]:
    """Subscription → the roles that may use it, and no others."""
    return (yield get(namespace_path(namespace, "permissions", "subscription"))).object()


def grant_subscription_permission(
    namespace: str, subscription: str, roles: list[str]
) -> Script[None]:
    yield post(namespace_path(namespace, "permissions", "subscription", subscription), roles)


def revoke_subscription_permission(namespace: str, subscription: str, role: str) -> Script[None]:
    yield delete(namespace_path(namespace, "permissions", subscription, role))


def get_namespace_properties(namespace: str) -> Script[dict[str, str]]:
    return (yield get(namespace_path(namespace, "properties"))).object()


def get_namespace_property(namespace: str, key: str) -> Script[str | None]:
    answer = yield get(namespace_path(namespace, "property", key))
    return answer.text() if answer.body else None


def set_namespace_properties(namespace: str, properties: dict[str, str]) -> Script[None]:
    """Those that are not named stay."""
    yield put(namespace_path(namespace, "properties"), properties)


def remove_namespace_property(namespace: str, key: str) -> Script[str | None]:
    """What it was."""
    answer = yield delete(namespace_path(namespace, "property", key))
    return answer.text() if answer.body else None


def clear_namespace_properties(namespace: str) -> Script[None]:
    yield delete(namespace_path(namespace, "properties"))


def get_bundles(namespace: str) -> Script[Json]:
    return (yield get(namespace_path(namespace, "bundles"))).object()


def clear_namespace_backlog(
    namespace: str, subscription: str | None = None, *, bundle: str | None = None
) -> Script[None]:
    """Of every topic; of one subscription, if it is named."""
    yield post(_within(namespace, bundle, "clearBacklog", subscription))


def unsubscribe_namespace(
    namespace: str, subscription: str, *, bundle: str | None = None
) -> Script[None]:
    yield post(_within(namespace, bundle, "unsubscribe", subscription))


def unload_namespace(
    namespace: str, *, bundle: str | None = None, destination: str | None = None
) -> Script[None]:
    """Close every topic; with a destination it goes to that broker of the cluster."""
    yield put(_within(namespace, bundle, "unload"), destinationBroker=destination)


def _within(namespace: str, *parts: str | None) -> str:
    """A path below a namespace, or below one of its bundles."""
    return namespace_path(namespace, *(part for part in parts if part is not None))
