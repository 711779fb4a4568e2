"""Grants of roles on namespaces and subscriptions.

Paths, JSON and statuses are upstream's. Grants may be made while authorisation is off: they hold from the
moment it is on. A change is durable when it is answered, and has been applied to everyone connected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Body, Path
from pydantic import AfterValidator

from milepost.broker.auth.grants import Grants, SubscriptionMode, written
from milepost.broker.auth.operations import Action, Operation
from milepost.broker.broker import Broker
from milepost.errors import InvalidInput, NotFound
from milepost.positions.labels import check_label
from milepost.positions.names import NamespaceName
from milepost.rest.audit import Asked
from milepost.rest.request import ADMIN, AskedBroker, AskedNamespace
from milepost.rest.route_access import Router

NAMESPACES = f"{ADMIN}/namespaces"

router = Router(
    "permissions", Operation.ADMINISTER_NAMESPACE, prefix=f"{NAMESPACES}/{{tenant}}/{{namespace}}"
)

# Topics of one bulk change, and roles of one subscription.
MANY_MAX = 1000


def _role(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise InvalidInput("the role is empty, or has blanks around it")
    check_label("role", text)
    return text


Role = Annotated[str, AfterValidator(_role)]
Actions = Annotated[set[Action], Body(max_length=len(Action))]


# -- namespaces --------------------------------------------------------------------------------------


@router.get("/permissions")
async def get_permissions(broker: AskedBroker, name: AskedNamespace) -> dict[str, list[str]]:
    """Roles and their actions on all topics of the namespace."""
    return written(_grants(broker, name).namespace)


@router.post("/permissions/{role}", status_code=204)
async def grant_permission(
    asked: Asked, name: AskedNamespace, role: Annotated[Role, Path()], actions: Actions
) -> None:
    """Give a role these actions, and no others."""
    await _edit(asked.broker, name, lambda grants: grants.with_namespace_role(role, actions))
    asked.note("grant", name, role=role, actions=sorted(actions))


@router.delete("/permissions/{role}", status_code=204)
async def revoke_permission(
    asked: Asked, name: AskedNamespace, role: Annotated[Role, Path()]
) -> None:
    """A role that has none loses none."""
    await _edit(asked.broker, name, lambda grants: grants.without_namespace_role(role))
    asked.note("revoke", name, role=role)


# -- subscriptions -----------------------------------------------------------------------------------


@router.get("/permissions/subscription")
async def get_subscription_permissions(
    broker: AskedBroker, name: AskedNamespace
) -> dict[str, list[str]]:
    """Subscriptions that are for some roles only, and those roles."""
    found = _grants(broker, name).subscriptions
    return {subscription: sorted(roles) for subscription, roles in found.items()}


@router.post("/permissions/subscription/{named}", status_code=204)
async def grant_subscription(
    asked: Asked,
    name: AskedNamespace,
    named: Annotated[str, Path()],
    roles: Annotated[set[Role], Body(max_length=MANY_MAX)],
) -> None:
    """Let these roles use a subscription of that name, and no others; none given lets everyone."""
    check_label("subscription", named)
    await _edit(asked.broker, name, lambda grants: grants.with_subscription_roles(named, roles))
    asked.note("grant-subscription", name, subscription=named, roles=sorted(roles))


@router.delete("/permissions/{named}/{role}", status_code=204)
async def revoke_subscription(
    asked: Asked, name: AskedNamespace, named: Annotated[str, Path()], role: Annotated[Role, Path()]
) -> None:
    """Take one role from a subscription; when the last is gone it is everyone's again, as upstream."""
    if named not in _grants(asked.broker, name).subscriptions:
        raise NotFound(f"subscription {named} of namespace {name} is for no role in particular")

    def without(grants: Grants) -> Grants:
        return grants.with_subscription_roles(
            named, grants.subscriptions.get(named, frozenset()) - {role}
        )

    await _edit(asked.broker, name, without)
    asked.note("revoke-subscription", name, subscription=named, role=role)


@router.get("/subscriptionAuthMode")
async def get_subscription_mode(broker: AskedBroker, name: AskedNamespace) -> SubscriptionMode:
    return _grants(broker, name).mode


@router.post("/subscriptionAuthMode", status_code=204)
async def set_subscription_mode(
    asked: Asked, name: AskedNamespace, mode: Annotated[SubscriptionMode, Body()]
) -> None:
    """`Prefix`: a subscription's name begins with the role that consumes by it."""
    await _edit(asked.broker, name, lambda grants: grants.with_mode(mode))
    asked.note("set-subscription-auth-mode", name, mode=mode.value)


def _grants(broker: Broker, name: NamespaceName) -> Grants:
    broker.directory.namespace(name)  # or 404
    return broker.access_control.grants.of(name)


async def _edit(broker: Broker, name: NamespaceName, change: Callable[[Grants], Grants]) -> None:
    broker.directory.namespace(name)  # or 404
    await broker.access_control.grants.edit(name, change)
