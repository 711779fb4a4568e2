"""Permissions over REST: what roles are granted on namespaces, topics and subscriptions.

Paths, JSON and statuses are upstream's. Grants may be made while authorisation is off: they hold from the
moment it is on. A change is durable when it is answered, and has been applied to everyone connected.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Request
from pydantic import AfterValidator, BaseModel, Field

from milepost.broker.auth.authorizer import Target
from milepost.broker.auth.grants import Grants, SubscriptionMode, written
from milepost.broker.auth.operations import Action, Operation
from milepost.broker.broker import Broker
from milepost.broker.labels import check_label
from milepost.errors import InvalidInput, NotFound, TopicNotFound
from milepost.positions.names import NamespaceName, TopicName
from milepost.rest import audit
from milepost.rest.permission import identity_of, needs
from milepost.rest.request import ADMIN, TOPIC, AskedBroker, AskedNamespace, AskedTopic

router = APIRouter(tags=["permissions"])

NAMESPACES = f"{ADMIN}/namespaces"
NAMESPACE = f"{NAMESPACES}/{{tenant}}/{{namespace}}"

# Topics of one bulk change, and roles of one subscription.
MANY_MAX = 1000


def _role(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise InvalidInput("the role is empty, or has blanks around it")
    check_label("role", text)
    return text


Role = Annotated[str, AfterValidator(_role)]
Actions = Annotated[set[Action], Body(max_length=len(Action))]


class TopicGrant(BaseModel):
    """One of a bulk: upstream's GrantTopicPermissionOptions."""

    topic: str
    role: Role
    actions: Annotated[set[Action], Field(max_length=len(Action))]


class TopicRevocation(BaseModel):
    topic: str
    role: Role


# -- namespaces --------------------------------------------------------------------------------------


@router.get(f"{NAMESPACE}/permissions", dependencies=[needs(Operation.ADMINISTER_NAMESPACE)])
async def get_permissions(broker: AskedBroker, name: AskedNamespace) -> dict[str, list[str]]:
    """Roles and their actions on all topics of the namespace."""
    return written(_grants(broker, name).namespace)


@router.post(
    f"{NAMESPACE}/permissions/{{role}}",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)
async def grant_permission(
    request: Request,
    broker: AskedBroker,
    name: AskedNamespace,
    role: Annotated[Role, Path()],
    actions: Actions,
) -> None:
    """Give a role these actions, and no others."""
    _grants(broker, name)
    await broker.guard.grants.edit(name, lambda grants: grants.with_namespace_role(role, actions))
    audit.note(request, "grant", name, role=role, actions=sorted(actions))


@router.delete(
    f"{NAMESPACE}/permissions/{{role}}",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)
async def revoke_permission(
    request: Request, broker: AskedBroker, name: AskedNamespace, role: Annotated[Role, Path()]
) -> None:
    """A role that has none loses none."""
    _grants(broker, name)
    await broker.guard.grants.edit(name, lambda grants: grants.without_namespace_role(role))
    audit.note(request, "revoke", name, role=role)


# -- subscriptions -----------------------------------------------------------------------------------


@router.get(
    f"{NAMESPACE}/permissions/subscription",
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)
async def get_subscription_permissions(
    broker: AskedBroker, name: AskedNamespace
) -> dict[str, list[str]]:
    """Subscriptions that are for some roles only, and those roles."""
    found = _grants(broker, name).subscriptions
    return {subscription: sorted(roles) for subscription, roles in found.items()}


@router.post(
    f"{NAMESPACE}/permissions/subscription/{{named}}",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)
async def grant_subscription(
    request: Request,
    broker: AskedBroker,
    name: AskedNamespace,
    named: Annotated[str, Path()],
    roles: Annotated[set[Role], Body(max_length=MANY_MAX)],
) -> None:
    """Let these roles use a subscription of that name, and no others; none given lets everyone."""
    check_label("subscription", named)
    _grants(broker, name)
    await broker.guard.grants.edit(
        name, lambda grants: grants.with_subscription_roles(named, roles)
    )
    audit.note(request, "grant-subscription", name, subscription=named, roles=sorted(roles))


@router.delete(
    f"{NAMESPACE}/permissions/{{named}}/{{role}}",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)
async def revoke_subscription(
    request: Request,
    broker: AskedBroker,
    name: AskedNamespace,
    named: Annotated[str, Path()],
    role: Annotated[Role, Path()],
) -> None:
    """Take one role from a subscription; when the last is gone it is everyone's again, as upstream."""
    if named not in _grants(broker, name).subscriptions:
        raise NotFound(f"subscription {named} of namespace {name} is for no role in particular")

    def without(grants: Grants) -> Grants:
        return grants.with_subscription_roles(
            named, grants.subscriptions.get(named, frozenset()) - {role}
        )

    await broker.guard.grants.edit(name, without)
    audit.note(request, "revoke-subscription", name, subscription=named, role=role)


@router.get(
    f"{NAMESPACE}/subscriptionAuthMode", dependencies=[needs(Operation.ADMINISTER_NAMESPACE)]
)
async def get_subscription_mode(broker: AskedBroker, name: AskedNamespace) -> SubscriptionMode:
    return _grants(broker, name).mode


@router.post(
    f"{NAMESPACE}/subscriptionAuthMode",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)
async def set_subscription_mode(
    request: Request,
    broker: AskedBroker,
    name: AskedNamespace,
    mode: Annotated[SubscriptionMode, Body()],
) -> None:
    """`Prefix`: a subscription's name begins with the role that consumes by it."""
    _grants(broker, name)
    await broker.guard.grants.edit(name, lambda grants: grants.with_mode(mode))
    audit.note(request, "set-subscription-auth-mode", name, mode=mode.value)


# -- topics ------------------------------------------------------------------------------------------


@router.get(f"{TOPIC}/permissions", dependencies=[needs(Operation.ADMINISTER_TOPIC)])
async def get_topic_permissions(broker: AskedBroker, name: AskedTopic) -> dict[str, list[str]]:
    """What holds on the topic: its namespace's grants and its own together."""
    _check_topic(broker, name)
    grants = broker.guard.grants.of(name.namespace)
    own = grants.topics.get(str(name), {})
    together = {
        role: grants.namespace.get(role, frozenset()) | own.get(role, frozenset())
        for role in {**grants.namespace, **own}
    }
    return written(together)


@router.post(
    f"{TOPIC}/permissions/{{role}}",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_TOPIC)],
)
async def grant_topic_permission(
    request: Request,
    broker: AskedBroker,
    name: AskedTopic,
    role: Annotated[Role, Path()],
    actions: Actions,
) -> None:
    """On a partitioned topic it holds for all its partitions, those to come included."""
    await _grant(broker, [(name, role, actions)])
    audit.note(request, "grant", name, role=role, actions=sorted(actions))


@router.delete(
    f"{TOPIC}/permissions/{{role}}",
    status_code=204,
    dependencies=[needs(Operation.ADMINISTER_TOPIC)],
)
async def revoke_topic_permission(
    request: Request, broker: AskedBroker, name: AskedTopic, role: Annotated[Role, Path()]
) -> None:
    """From the topic and all its partitions; what the namespace grants is not touched."""
    await _revoke(broker, [(name, role)])
    audit.note(request, "revoke", name, role=role)


@router.post(
    f"{NAMESPACES}/grantPermissionsOnTopics",
    status_code=204,
    dependencies=[needs(Operation.IDENTIFIED)],
)
async def grant_on_topics(
    request: Request,
    broker: AskedBroker,
    options: Annotated[list[TopicGrant], Body(max_length=MANY_MAX)],
) -> None:
    """Many at once, all of one namespace, or none."""
    names = _of_one_namespace(request, broker, [one.topic for one in options])
    given = list(zip(names, options, strict=True))
    await _grant(broker, [(name, one.role, one.actions) for name, one in given])
    for name, one in given:
        audit.note(request, "grant", name, role=one.role, actions=sorted(one.actions))


@router.post(
    f"{NAMESPACES}/revokePermissionsOnTopics",
    status_code=204,
    dependencies=[needs(Operation.IDENTIFIED)],
)
async def revoke_on_topics(
    request: Request,
    broker: AskedBroker,
    options: Annotated[list[TopicRevocation], Body(max_length=MANY_MAX)],
) -> None:
    names = _of_one_namespace(request, broker, [one.topic for one in options])
    given = list(zip(names, options, strict=True))
    await _revoke(broker, [(name, one.role) for name, one in given])
    for name, one in given:
        audit.note(request, "revoke", name, role=one.role)


# -- all of them -------------------------------------------------------------------------------------


def _grants(broker: Broker, name: NamespaceName) -> Grants:
    broker.directory.namespace(name)  # or 404
    return broker.guard.grants.of(name)


def _check_topic(broker: Broker, name: TopicName) -> None:
    broker.directory.check_namespace(name)
    if name.is_persistent and not broker.directory.exists(name):
        raise TopicNotFound(f"topic {name} does not exist")


def _of_one_namespace(request: Request, broker: Broker, topics: list[str]) -> list[TopicName]:
    """The topics' names, if they are of one namespace and whoever asks administers it."""
    names = [TopicName.parse(topic) for topic in topics]
    if len({name.namespace for name in names}) != 1:
        raise InvalidInput("expected topics of one namespace")
    for name in names:
        target = Target.of_topic(name)
        broker.guard.check(identity_of(request), Operation.ADMINISTER_TOPIC, target)
        _check_topic(broker, name)
    return names


async def _grant(broker: Broker, given: list[tuple[TopicName, str, set[Action]]]) -> None:
    def change(grants: Grants) -> Grants:
        for name, role, actions in given:
            grants = grants.with_topic_role(name, role, actions)
        return grants

    for name, _, _ in given:
        _check_topic(broker, name)
    await broker.guard.grants.edit(given[0][0].namespace, change)


async def _revoke(broker: Broker, given: list[tuple[TopicName, str]]) -> None:
    def change(grants: Grants) -> Grants:
        for name, role in given:
            grants = grants.without_topic_role(name, role)
            for partition in range(broker.directory.partitions(name) or 0):
                grants = grants.without_topic_role(name.partition_name(partition), role)
        return grants

    for name, _ in given:
        _check_topic(broker, name)
    await broker.guard.grants.edit(given[0][0].namespace, change)
