"""Namespaces over REST: lists, making, deleting, and what is known of one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict

from milepost.broker.auth.operations import Operation
from milepost.broker.policies import document
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.errors import NotAllowed
from milepost.rest import audit
from milepost.rest.permission import needs
from milepost.rest.request import ADMIN, AskedBroker, AskedNamespace
from milepost.rest.tenants import AskedTenant

router = APIRouter(prefix=f"{ADMIN}/namespaces", tags=["namespaces"])

# Upstream divides a namespace among brokers by bundles; of one broker, one has it all.
BUNDLE = ("0x00000000", "0xffffffff")


class Mode(StrEnum):
    PERSISTENT = "PERSISTENT"
    NON_PERSISTENT = "NON_PERSISTENT"
    ALL = "ALL"


class Bundles(BaseModel):
    boundaries: list[str] = list(BUNDLE)
    numBundles: int = 1


class Policies(BaseModel):
    """What every namespace has, and the policies that are set for it."""

    model_config = ConfigDict(extra="allow")

    replication_clusters: list[str]
    bundles: Bundles = Bundles()
    deleted: bool = False
    properties: dict[str, str] = {}


@router.get("/{tenant}", dependencies=[needs(Operation.ADMINISTER_TENANT)])
async def get_namespaces(broker: AskedBroker, tenant: AskedTenant) -> list[str]:
    """As `tenant/namespace`."""
    return broker.directory.namespaces(tenant)


@router.get("/{tenant}/{namespace}", dependencies=[needs(Operation.ADMINISTER_NAMESPACE)])
async def get_policies(broker: AskedBroker, name: AskedNamespace) -> Policies:
    doc = broker.directory.namespace(name)
    cluster = broker.settings.cluster_name
    found = broker.steward.book.values(Level.NAMESPACE, str(name))
    return Policies(
        replication_clusters=[cluster],
        properties=doc.get("properties", {}),
        **document.document(found, cluster),
    )


@router.put(
    "/{tenant}/{namespace}", status_code=204, dependencies=[needs(Operation.ADMINISTER_TENANT)]
)
async def create_namespace(
    request: Request,
    broker: AskedBroker,
    name: AskedNamespace,
    policies: Annotated[dict[str, Any] | None, Body()] = None,
) -> None:
    """Create a namespace. Of the policies in the body those are kept that Milepost has."""
    properties = (policies or {}).get("properties")
    doc = {"properties": properties} if isinstance(properties, dict) else {}
    found = document.values(policies or {}, broker.settings.cluster_name)
    await broker.directory.create_namespace(name, doc)
    for policy, value in found.items():
        await broker.steward.book.set(Level.NAMESPACE, str(name), POLICIES[policy], value)
    audit.note(request, "create-namespace", name)


@router.delete(
    "/{tenant}/{namespace}", status_code=204, dependencies=[needs(Operation.ADMINISTER_TENANT)]
)
async def delete_namespace(
    request: Request, broker: AskedBroker, name: AskedNamespace, force: bool = False
) -> None:
    """Delete a namespace that has no topics."""
    if force:
        raise NotAllowed("namespaces are not deleted by force: delete their topics first")
    await broker.directory.delete_namespace(name)
    await broker.guard.forget_namespace(name)
    await broker.steward.book.forget(Level.NAMESPACE, str(name))
    audit.note(request, "delete-namespace", name)


@router.get("/{tenant}/{namespace}/topics", dependencies=[needs(Operation.LIST_TOPICS)])
async def get_topics(
    broker: AskedBroker, name: AskedNamespace, mode: Mode = Mode.PERSISTENT
) -> list[str]:
    """Full names; each partition by its own."""
    broker.directory.namespace(name)
    return await broker.topics_of_namespace(str(name), mode.value)


@router.get("/{tenant}/{namespace}/bundles", dependencies=[needs(Operation.ADMINISTER_NAMESPACE)])
async def get_bundles(broker: AskedBroker, name: AskedNamespace) -> Bundles:
    broker.directory.namespace(name)
    return Bundles()
