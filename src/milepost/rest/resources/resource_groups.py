"""Resource groups, and the one that a namespace is in."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.policies.table import POLICIES
from milepost.errors import NotFound, PreconditionFailed
from milepost.rest import audit
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.resources.policies import NAMESPACE_PATH, Target, namespace_target
from milepost.rest.route_access import needs

router = APIRouter(tags=["resource groups"])

GROUP: Final = POLICIES["resource_group"]
GROUPS: Final = f"{ADMIN}/resourcegroups"
OF_NAMESPACE: Final = f"{NAMESPACE_PATH}/resourcegroup"
Asked = Annotated[Target, Depends(namespace_target)]
_SUPERUSER: Final = [needs(Operation.SUPERUSER)]
_NAMESPACE: Final = [needs(Operation.ADMINISTER_NAMESPACE)]


class ResourceGroup(BaseModel):
    """Rates of all topics of the group together; less than 1 is no limit."""

    publishRateInMsgs: int
    publishRateInBytes: int
    dispatchRateInMsgs: int
    dispatchRateInBytes: int


@router.get(GROUPS, dependencies=_SUPERUSER)
async def get_groups(broker: AskedBroker) -> list[str]:
    return broker.policies.groups.names()


@router.get(f"{GROUPS}/{{name}}", dependencies=_SUPERUSER)
async def get_group(broker: AskedBroker, name: str) -> ResourceGroup:
    return ResourceGroup(**broker.policies.groups.rates(name))


@router.put(f"{GROUPS}/{{name}}", status_code=204, dependencies=_SUPERUSER)
async def put_group(
    request: Request, broker: AskedBroker, name: str, rates: Annotated[dict[str, Any], Body()]
) -> None:
    """Make a group, or change those of its rates that the body has; in force when answered."""
    await broker.policies.groups.put(name, rates)
    await broker.policies.use(broker.settings)
    audit.note(request, "put-resource-group", name, rates=json.dumps(rates)[:200])


@router.delete(f"{GROUPS}/{{name}}", status_code=204, dependencies=_SUPERUSER)
async def delete_group(request: Request, broker: AskedBroker, name: str) -> None:
    """412 while a namespace is in it."""
    users = broker.policies.book.users_of(GROUP.name, name)
    if users:
        raise PreconditionFailed(f"resource group {name[:80]!a} is used by {users[0]}")
    await broker.policies.groups.delete(name)
    audit.note(request, "delete-resource-group", name)


@router.get(OF_NAMESPACE, response_class=PlainTextResponse, dependencies=_NAMESPACE)
async def get_group_of_namespace(target: Asked) -> Response:
    """Its name as text; nothing if there is none."""
    return PlainTextResponse(target.value(GROUP) or "")


@router.post(f"{OF_NAMESPACE}/{{name}}", status_code=204, dependencies=_NAMESPACE)
async def set_group_of_namespace(
    request: Request, broker: AskedBroker, target: Asked, name: str
) -> None:
    """Its topics, open or not yet, share the group's rates when this is answered."""
    try:
        broker.policies.groups.rates(name)
    except NotFound as error:
        raise PreconditionFailed(str(error)) from None
    await target.set(GROUP, name)
    audit.note(request, "set-resource-group", target.name, group=name)


@router.delete(OF_NAMESPACE, status_code=204, dependencies=_NAMESPACE)
async def remove_group_of_namespace(request: Request, target: Asked) -> None:
    await target.set(GROUP, None)
    audit.note(request, "remove-resource-group", target.name)
