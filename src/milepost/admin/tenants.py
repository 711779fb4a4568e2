"""Calls about tenants and clusters."""

from __future__ import annotations

from milepost.admin.request import Json, Script, delete, get, post, put, tenant_path


def list_tenants() -> Script[list[str]]:
    return (yield get("/admin/v2/tenants")).strings()


def get_tenant(tenant: str) -> Script[Json]:
    """`adminRoles` and `allowedClusters`."""
    return (yield get(_path(tenant))).object()


def create_tenant(
    tenant: str, *, admin_roles: list[str] | None = None, allowed_clusters: list[str] | None = None
) -> Script[None]:
    """For every cluster there is, unless some are named. `Conflict` if it exists."""
    clusters = allowed_clusters or (yield get("/admin/v2/clusters")).strings()
    yield put(_path(tenant), {"adminRoles": admin_roles or [], "allowedClusters": clusters})


def update_tenant(
    tenant: str, *, admin_roles: list[str] | None = None, allowed_clusters: list[str] | None = None
) -> Script[None]:
    """What is None stays as it is."""
    now = (yield get(_path(tenant))).object()
    yield post(
        _path(tenant),
        {
            "adminRoles": now.get("adminRoles", []) if admin_roles is None else admin_roles,
            "allowedClusters": (
                now.get("allowedClusters", []) if allowed_clusters is None else allowed_clusters
            ),
        },
    )


def delete_tenant(tenant: str, *, force: bool = False) -> Script[None]:
    """`Conflict` while it has namespaces, unless forced."""
    yield delete(_path(tenant), force=force)


def list_clusters() -> Script[list[str]]:
    return (yield get("/admin/v2/clusters")).strings()


def _path(tenant: str) -> str:
    return tenant_path("admin/v2/tenants", tenant)
