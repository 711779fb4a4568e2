"""Calls about namespaces, their policies and who may use them."""

from __future__ import annotations

from typing import Any

from milepost.admin.request import Json, Script, delete, get, namespace_path, path, post, put


def list_namespaces(tenant: str) -> Script[list[str]]:
    return (yield get(path("admin/v2/namespaces", tenant))).strings()


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


def get_policy(namespace: str, name: str) -> Script[Any]:
    """One policy by the last part of its path (`retention`, `messageTTL`, `deduplication` …).

    None where nothing is set.
    """
    answer = yield get(namespace_path(namespace, name))
    return answer.json() if answer.body else None


def set_policy(namespace: str, name: str, value: object) -> Script[None]:
    yield post(namespace_path(namespace, name), value)


def remove_policy(namespace: str, name: str) -> Script[None]:
    yield delete(namespace_path(namespace, name))


def get_namespace_permissions(namespace: str) -> Script[dict[str, list[str]]]:
    return (yield get(namespace_path(namespace, "permissions"))).object()


def grant_namespace_permission(namespace: str, role: str, actions: list[str]) -> Script[None]:
    yield post(namespace_path(namespace, "permissions", role), actions)


def revoke_namespace_permission(namespace: str, role: str) -> Script[None]:
    yield delete(namespace_path(namespace, "permissions", role))


def clear_namespace_backlog(namespace: str, subscription: str | None = None) -> Script[None]:
    """Of every topic; of one subscription, if it is named."""
    rest = ("clearBacklog", subscription) if subscription else ("clearBacklog",)
    yield post(namespace_path(namespace, *rest))


def unsubscribe_namespace(namespace: str, subscription: str) -> Script[None]:
    yield post(namespace_path(namespace, "unsubscribe", subscription))


def unload_namespace(namespace: str) -> Script[None]:
    yield put(namespace_path(namespace, "unload"))
