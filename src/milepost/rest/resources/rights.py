"""Who is asking, what that role may do, and which policies hold where: for a page that offers only that.

    GET /milepost/v1/session
    GET /milepost/v1/topics/{tenant}/{namespace}/{topic}/rights?subscription=reports
    GET /milepost/v1/topics/{tenant}/{namespace}/{topic}/policies

A right that is shown here is judged again by the route that needs it.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from milepost import __version__
from milepost.broker.auth.authorizer import BROKER, Target
from milepost.broker.auth.operations import Operation
from milepost.broker.policies.policy import merged
from milepost.broker.policies.table import TABLE
from milepost.positions.names import NamespaceName
from milepost.rest.request import AskedBroker, check_topic
from milepost.rest.resources.reset import PersistentTopic
from milepost.rest.route_access import identity_of, needs

router = APIRouter(prefix="/milepost/v1", tags=["rights"])

TOPIC = "/topics/{tenant}/{namespace}/{topic}"
NAMESPACES_MAX = 500


class SessionAnswer(BaseModel):
    version: str
    cluster: str
    role: str | None
    """Null where clients need not say who they are."""
    is_superuser: bool
    read_only: bool
    """Whether pages may change nothing (`console_read_only`)."""
    namespaces: list[str]
    """Those whose topics the role may list; 500 at most."""


class RightsAnswer(BaseModel):
    look_up: bool
    consume: bool
    """To read messages and to reset the subscription."""
    produce: bool
    administer: bool


class HeldPolicy(BaseModel):
    name: str
    doc: str
    value: Any
    source: str
    """`topic`, `namespace` or `broker`: where it is set."""


@router.get("/session", dependencies=[needs(Operation.IDENTIFIED)])
async def get_session(request: Request, broker: AskedBroker) -> SessionAnswer:
    """Who is asking, and where that role may look."""
    identity, authorizer = identity_of(request), broker.access_control.security.authorizer
    names = [
        name
        for tenant in broker.directory.tenants()
        for name in broker.directory.namespaces(tenant)
        if authorizer.may(
            identity, Operation.LIST_TOPICS, Target.of_namespace(NamespaceName.parse(name))
        )
    ]
    return SessionAnswer(
        version=__version__,
        cluster=broker.settings.cluster_name,
        role=None if identity is None else str(identity),
        is_superuser=authorizer.may(identity, Operation.SUPERUSER, BROKER),
        read_only=broker.settings.console_read_only,
        namespaces=names[:NAMESPACES_MAX],
    )


@router.get(f"{TOPIC}/rights", dependencies=[needs(Operation.IDENTIFIED)])
async def get_rights(
    request: Request,
    broker: AskedBroker,
    name: PersistentTopic,
    subscription: Annotated[str, Query(max_length=1024)] = "",
) -> RightsAnswer:
    """What the role that asks may do to a topic, and to a subscription of it."""
    identity, authorizer = identity_of(request), broker.access_control.security.authorizer
    target = Target.of_topic(name, subscription)

    def may(operation: Operation) -> bool:
        return authorizer.may(identity, operation, target)

    return RightsAnswer(
        look_up=may(Operation.LOOK_UP),
        consume=may(Operation.CONSUME),
        produce=may(Operation.PRODUCE),
        administer=may(Operation.ADMINISTER_TOPIC),
    )


@router.get(f"{TOPIC}/policies", dependencies=[needs(Operation.ADMINISTER_TOPIC)])
async def get_held_policies(broker: AskedBroker, name: PersistentTopic) -> list[HeldPolicy]:
    """The policies that hold for a topic, each with the level that it comes from."""
    check_topic(broker, name)
    of_namespace, of_topic = broker.policies.book.levels(name)
    held = []
    for policy in TABLE:
        value = merged(policy, broker.settings, of_namespace, of_topic)
        if of_topic.get(policy.name) is not None:
            source = "topic"
        else:
            source = "namespace" if of_namespace.get(policy.name) is not None else "broker"
        if value is not None:
            held.append(HeldPolicy(name=policy.name, doc=policy.doc, value=value, source=source))
    return held
