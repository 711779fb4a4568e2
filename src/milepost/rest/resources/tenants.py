"""Lists, creates, changes and deletes tenants."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.errors import NotAllowed, PreconditionFailed
from milepost.positions.names import NamespaceName
from milepost.rest.audit import Asked
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.resources.permissions import Role
from milepost.rest.route_access import Router

router = Router("tenants", prefix=f"{ADMIN}/tenants")


class TenantInfo(BaseModel):
    adminRoles: list[Role] = []
    allowedClusters: list[str] = []


async def _tenant(tenant: str) -> str:
    return NamespaceName.parse(f"{tenant}/x").tenant


AskedTenant = Annotated[str, Depends(_tenant)]


@router.get("", Operation.SUPERUSER)
async def get_tenants(broker: AskedBroker) -> list[str]:
    return broker.directory.tenants()


@router.get("/{tenant}", Operation.ADMINISTER_TENANT)
async def get_tenant(broker: AskedBroker, name: AskedTenant) -> TenantInfo:
    doc = broker.directory.tenant(name)
    return TenantInfo(
        adminRoles=doc.get("adminRoles", []),
        allowedClusters=doc.get("allowedClusters", [broker.settings.cluster_name]),
    )


@router.put("/{tenant}", Operation.SUPERUSER, status_code=204)
async def create_tenant(
    asked: Asked, name: AskedTenant, info: Annotated[TenantInfo, Body()]
) -> None:
    """Create a tenant. Its clusters must be there: of one broker, the one that it is."""
    await asked.broker.directory.create_tenant(name, _checked(asked.broker, info))
    asked.note("create-tenant", name, admins=info.adminRoles)


@router.post("/{tenant}", Operation.SUPERUSER, status_code=204)
async def set_tenant(asked: Asked, name: AskedTenant, info: Annotated[TenantInfo, Body()]) -> None:
    """Change who administers a tenant."""
    before = asked.broker.directory.tenant(name)
    await asked.broker.directory.set_tenant(name, {**before, **_checked(asked.broker, info)})
    asked.broker.access_control.recheck()  # a role that is no admin any more may have been connected as one
    asked.note("update-tenant", name, before=before.get("adminRoles", []), after=info.adminRoles)


@router.delete("/{tenant}", Operation.SUPERUSER, status_code=204)
async def delete_tenant(asked: Asked, name: AskedTenant, force: bool = False) -> None:
    """Delete a tenant that has no namespaces."""
    if force:
        raise NotAllowed("tenants are not deleted by force: delete their namespaces first")
    await asked.broker.directory.delete_tenant(name)
    asked.note("delete-tenant", name)


def _checked(broker: Broker, info: TenantInfo) -> dict[str, list[str]]:
    if not info.allowedClusters:
        raise PreconditionFailed("allowedClusters names no cluster")
    unknown = set(info.allowedClusters) - {broker.settings.cluster_name}
    if unknown:
        raise PreconditionFailed(f"cluster {min(unknown)[:80]!a} does not exist")
    return {"adminRoles": info.adminRoles, "allowedClusters": info.allowedClusters}
