"""Lists, creates, shows and deletes namespaces."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import Body
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict

from milepost.broker.auth.grants import SubscriptionMode
from milepost.broker.auth.operations import Operation
from milepost.broker.directory.bundles import KEY, Bundles
from milepost.broker.policies import document
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.topic import non_persistent
from milepost.broker.workers import workers
from milepost.errors import AlreadyExists, NotAllowed
from milepost.rest.audit import Asked
from milepost.rest.name_lists import name_list
from milepost.rest.request import ADMIN, AskedBroker, AskedNamespace
from milepost.rest.resources import auth_policies
from milepost.rest.resources.bundles import BundlesData
from milepost.rest.resources.replication import ALLOWED_CLUSTERS, MIGRATED
from milepost.rest.resources.tenants import AskedTenant
from milepost.rest.resources.topics import Properties
from milepost.rest.route_access import Router

router = Router("namespaces", prefix=f"{ADMIN}/namespaces")


class Mode(StrEnum):
    PERSISTENT = "PERSISTENT"
    NON_PERSISTENT = "NON_PERSISTENT"
    ALL = "ALL"


class Policies(BaseModel):
    """What every namespace has, and the policies that are set for it."""

    model_config = ConfigDict(extra="allow")

    auth_policies: dict[str, dict[str, Any]]
    subscription_auth_mode: SubscriptionMode
    replication_clusters: list[str]
    allowed_clusters: list[str] = []
    bundles: BundlesData
    deleted: bool = False
    properties: Properties = {}
    migrated: bool = False
    resource_group_name: str | None = None


@router.get("/{tenant}", Operation.ADMINISTER_TENANT)
async def get_namespaces(broker: AskedBroker, tenant: AskedTenant) -> list[str]:
    """As `tenant/namespace`."""
    return broker.directory.namespaces(tenant)


@router.get("/{tenant}/{namespace}", Operation.ADMINISTER_NAMESPACE)
async def get_policies(broker: AskedBroker, name: AskedNamespace) -> Policies:
    doc = broker.directory.namespace(name)
    cluster = broker.settings.cluster_name
    found = broker.policies.book.values(Level.NAMESPACE, str(name))
    grants = broker.access_control.grants.of(name)
    return Policies(
        auth_policies=auth_policies.shown(grants),
        subscription_auth_mode=grants.mode,
        replication_clusters=[cluster],
        bundles=BundlesData.of(Bundles.of_doc(doc)),
        allowed_clusters=doc.get(ALLOWED_CLUSTERS, []),
        migrated=doc.get(MIGRATED, False),
        resource_group_name=found.get("resource_group"),
        properties=doc.get("properties", {}),
        **document.document(found, cluster),
    )


@router.put("/{tenant}/{namespace}", Operation.ADMINISTER_TENANT, status_code=204)
async def create_namespace(
    asked: Asked, name: AskedNamespace, policies: Annotated[dict[str, Any] | None, Body()] = None
) -> None:
    """Create a namespace. Of the policies in the body those are kept that Milepost has, and the grants."""
    given = policies or {}
    properties = given.get("properties")
    doc: dict[str, Any] = {"properties": properties} if isinstance(properties, dict) else {}
    if bundles := _bundles(given):
        doc[KEY] = bundles.to_doc()
    found = document.values(given, asked.broker.settings.cluster_name)
    grants = auth_policies.read(
        name, given.get("auth_policies"), given.get("subscription_auth_mode")
    )
    read = asked.broker.policies.book.read
    values = {one: read(Level.NAMESPACE, POLICIES[one], value) for one, value in found.items()}
    await workers.create_namespace(asked.broker, name, doc, grants, values)
    asked.note("create-namespace", name)


def _bundles(policies: dict[str, Any]) -> Bundles | None:
    """As many as the document asks for; one if it does not."""
    given = policies.get("bundles")
    count = given.get("numBundles") if isinstance(given, dict) else None
    return Bundles.equal(count) if type(count) is int and count > 0 else None


@router.delete("/{tenant}/{namespace}", Operation.ADMINISTER_TENANT, status_code=204)
async def delete_namespace(asked: Asked, name: AskedNamespace, force: bool = False) -> None:
    """Delete a namespace that has no topics."""
    if force:
        raise NotAllowed("namespaces are not deleted by force: delete their topics first")
    if non_persistent.names(asked.broker.topics, str(name)):
        raise AlreadyExists(f"namespace {name} still has topics")
    await workers.delete_namespace(asked.broker, name)
    asked.note("delete-namespace", name)


@router.get("/{tenant}/{namespace}/topics", Operation.LIST_TOPICS, response_model=list[str])
async def get_topics(
    broker: AskedBroker, name: AskedNamespace, mode: Mode = Mode.PERSISTENT
) -> Response:
    """Full names; each partition by its own."""
    broker.directory.namespace(name)
    return name_list(broker.topics_of_namespace(str(name), mode.value))


# -- properties --------------------------------------------------------------------------------------

PROPERTIES = "/{tenant}/{namespace}/properties"
PROPERTY = "/{tenant}/{namespace}/property/{key}"


@router.get(PROPERTIES, Operation.ADMINISTER_NAMESPACE)
async def get_properties(broker: AskedBroker, name: AskedNamespace) -> Properties:
    return dict(broker.directory.namespace(name).get("properties", {}))


@router.put(PROPERTIES, Operation.ADMINISTER_NAMESPACE, status_code=204)
async def set_properties(
    asked: Asked, name: AskedNamespace, properties: Annotated[Properties, Body()]
) -> None:
    """Add to the namespace's properties, or change them."""
    await asked.broker.directory.change_properties(name, lambda before: {**before, **properties})
    asked.note("set-properties", name)


@router.delete(PROPERTIES, Operation.ADMINISTER_NAMESPACE, status_code=204)
async def clear_properties(asked: Asked, name: AskedNamespace) -> None:
    await asked.broker.directory.change_properties(name, lambda before: {})
    asked.note("clear-properties", name)


@router.get(PROPERTY, Operation.ADMINISTER_NAMESPACE, response_class=PlainTextResponse)
async def get_property(broker: AskedBroker, name: AskedNamespace, key: str) -> Response:
    """Its value as text; nothing if there is none, as upstream has it."""
    return PlainTextResponse(broker.directory.namespace(name).get("properties", {}).get(key, ""))


@router.put(PROPERTY + "/{value}", Operation.ADMINISTER_NAMESPACE, status_code=204)
async def set_property(asked: Asked, name: AskedNamespace, key: str, value: str) -> None:
    await asked.broker.directory.change_properties(name, lambda before: {**before, key: value})
    asked.note("set-properties", name)


@router.delete(PROPERTY, Operation.ADMINISTER_NAMESPACE, response_class=PlainTextResponse)
async def remove_property(asked: Asked, name: AskedNamespace, key: str) -> Response:
    """Answers what it was."""
    was: str = asked.broker.directory.namespace(name).get("properties", {}).get(key, "")
    await asked.broker.directory.change_properties(
        name, lambda before: {one: value for one, value in before.items() if one != key}
    )
    asked.note("remove-property", name)
    return PlainTextResponse(was)
