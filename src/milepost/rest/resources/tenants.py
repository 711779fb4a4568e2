"""Lists, creates, changes and deletes tenants."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.errors import NotAllowed, PreconditionFailed
from milepost.positions.names import NamespaceName
from milepost.rest import audit
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.resources.permissions import Role
from milepost.rest.route_access import needs

router = APIRouter(prefix=f"{ADMIN}/tenants", tags=["tenants"])


class TenantInfo(BaseModel):
    adminRoles: list[Role] = []
    allowedClusters: list[str] = []


async def _tenant(tenant: str) -> str:
    return NamespaceName.parse(f"{tenant}/x").tenant


AskedTenant = Annotated[str, Depends(_tenant)]


@router.get("", dependencies=[needs(Operation.SUPERUSER)])
async def get_tenants(broker: AskedBroker) -> list[str]:
    return broker.directory.tenants()


@router.get("/{tenant}", dependencies=[needs(Operation.ADMINISTER_TENANT)])
async def get_tenant(broker: AskedBroker, name: AskedTenant) -> TenantInfo:
    doc = broker.directory.tenant(name)
    return TenantInfo(
        adminRoles=doc.get("adminRoles", []),
        allowedClusters=doc.get("allowedClusters", [broker.settings.cluster_name]),
    )


@router.put("/{tenant}", status_code=204, dependencies=[needs(Operation.SUPERUSER)])
async def create_tenant(
    request: Request, broker: AskedBroker, name: AskedTenant, info: Annotated[TenantInfo, Body()]
) -> None:
    """Create a tenant. Its clusters must be there: of one broker, the one that it is."""
    await broker.directory.create_tenant(name, _checked(broker, info))
    audit.note(request, "create-tenant", name, admins=info.adminRoles)


@router.post("/{tenant}", status_code=204, dependencies=[needs(Operation.SUPERUSER)])
async def set_tenant(
    request: Request, broker: AskedBroker, name: AskedTenant, info: Annotated[TenantInfo, Body()]
) -> None:
    """Change who administers a tenant."""
    before = broker.directory.tenant(name)
    await broker.directory.set_tenant(name, {**before, **_checked(broker, info)})
    broker.access_control.recheck()  # a role that is no admin any more may have been connected as one
    audit.note(
        request, "update-tenant", name, before=before.get("adminRoles", []), after=info.adminRoles
    )


@router.delete("/{tenant}", status_code=204, dependencies=[needs(Operation.SUPERUSER)])
async def delete_tenant(
    request: Request, broker: AskedBroker, name: AskedTenant, force: bool = False
) -> None:
    """Delete a tenant that has no namespaces."""
    if force:
        raise NotAllowed("tenants are not deleted by force: delete their namespaces first")
    await broker.directory.delete_tenant(name)
    audit.note(request, "delete-tenant", name)


def _checked(broker: Broker, info: TenantInfo) -> dict[str, list[str]]:
    if not info.allowedClusters:
        raise PreconditionFailed("allowedClusters names no cluster")
    unknown = set(info.allowedClusters) - {broker.settings.cluster_name}
    if unknown:
        raise PreconditionFailed(f"cluster {min(unknown)[:80]!a} does not exist")
    return {"adminRoles": info.adminRoles, "allowedClusters": info.allowedClusters}
