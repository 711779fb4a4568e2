"""Resource groups, and the one that a namespace is in."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import Body, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.policies.table import POLICIES
from milepost.errors import NotFound, PreconditionFailed
from milepost.rest.audit import Asked
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.resources.policies import NAMESPACE_PATH, NamespaceTarget
from milepost.rest.route_access import Router

router = Router("resource groups")

GROUP: Final = POLICIES["resource_group"]
GROUPS: Final = f"{ADMIN}/resourcegroups"
OF_NAMESPACE: Final = f"{NAMESPACE_PATH}/resourcegroup"


class ResourceGroup(BaseModel):
    """Rates of all topics of the group together; less than 1 is no limit."""

    publishRateInMsgs: int
    publishRateInBytes: int
    dispatchRateInMsgs: int
    dispatchRateInBytes: int


@router.get(GROUPS, Operation.SUPERUSER)
async def get_groups(broker: AskedBroker) -> list[str]:
    return broker.policies.groups.names()


@router.get(f"{GROUPS}/{{name}}", Operation.SUPERUSER)
async def get_group(broker: AskedBroker, name: str) -> ResourceGroup:
    return ResourceGroup(**broker.policies.groups.rates(name))


@router.put(f"{GROUPS}/{{name}}", Operation.SUPERUSER, status_code=204)
async def put_group(asked: Asked, name: str, rates: Annotated[dict[str, Any], Body()]) -> None:
    """Make a group, or change those of its rates that the body has; in force when answered."""
    await asked.broker.policies.groups.put(name, rates)
    await asked.broker.policies.use(asked.broker.settings)
    asked.note("put-resource-group", name, rates=json.dumps(rates)[:200])


@router.delete(f"{GROUPS}/{{name}}", Operation.SUPERUSER, status_code=204)
async def delete_group(asked: Asked, name: str) -> None:
    """412 while a namespace is in it."""
    users = asked.broker.policies.book.users_of(GROUP.name, name)
    if users:
        raise PreconditionFailed(f"resource group {name[:80]!a} is used by {users[0]}")
    await asked.broker.policies.groups.delete(name)
    asked.note("delete-resource-group", name)


@router.get(OF_NAMESPACE, Operation.ADMINISTER_NAMESPACE, response_class=PlainTextResponse)
async def get_group_of_namespace(target: NamespaceTarget) -> Response:
    """Its name as text; nothing if there is none."""
    return PlainTextResponse(target.value(GROUP) or "")


@router.post(f"{OF_NAMESPACE}/{{name}}", Operation.ADMINISTER_NAMESPACE, status_code=204)
async def set_group_of_namespace(asked: Asked, target: NamespaceTarget, name: str) -> None:
    """Its topics, open or not yet, share the group's rates when this is answered."""
    try:
        asked.broker.policies.groups.rates(name)
    except NotFound as error:
        raise PreconditionFailed(str(error)) from None
    await target.set(GROUP, name)
    asked.note("set-resource-group", target.name, group=name)


@router.delete(OF_NAMESPACE, Operation.ADMINISTER_NAMESPACE, status_code=204)
async def remove_group_of_namespace(asked: Asked, target: NamespaceTarget) -> None:
    await target.set(GROUP, None)
    asked.note("remove-resource-group", target.name)
