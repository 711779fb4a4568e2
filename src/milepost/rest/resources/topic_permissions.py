"""Grants of roles on topics.

Paths, JSON and statuses are upstream's. What a namespace grants (`permissions.py`) holds on its topics too.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Path, Request
from pydantic import BaseModel, Field

from milepost.broker.auth.authorizer import Target
from milepost.broker.auth.grants import Grants, written
from milepost.broker.auth.operations import Action, Operation
from milepost.broker.broker import Broker
from milepost.errors import InvalidInput
from milepost.positions.names import TopicName
from milepost.rest.audit import Asked
from milepost.rest.request import TOPIC, AskedBroker, AskedTopic, check_topic
from milepost.rest.resources.permissions import MANY_MAX, NAMESPACES, Actions, Role
from milepost.rest.route_access import Router, identity_of

router = Router("permissions")


class TopicGrant(BaseModel):
    """One of a bulk: upstream's GrantTopicPermissionOptions."""

    topic: str
    role: Role
    actions: Annotated[set[Action], Field(max_length=len(Action))]


class TopicRevocation(BaseModel):
    topic: str
    role: Role


@router.get(f"{TOPIC}/permissions", Operation.ADMINISTER_TOPIC)
async def get_topic_permissions(broker: AskedBroker, name: AskedTopic) -> dict[str, list[str]]:
    """What holds on the topic: its namespace's grants and its own together."""
    check_topic(broker, name)
    grants = broker.access_control.grants.of(name.namespace)
    own = grants.topics.get(str(name), {})
    together = {
        role: grants.namespace.get(role, frozenset()) | own.get(role, frozenset())
        for role in {**grants.namespace, **own}
    }
    return written(together)


@router.post(f"{TOPIC}/permissions/{{role}}", Operation.ADMINISTER_TOPIC, status_code=204)
async def grant_topic_permission(
    asked: Asked, name: AskedTopic, role: Annotated[Role, Path()], actions: Actions
) -> None:
    """On a partitioned topic it holds for all its partitions, those to come included."""
    await _grant(asked.broker, [(name, role, actions)])
    asked.note("grant", name, role=role, actions=sorted(actions))


@router.delete(f"{TOPIC}/permissions/{{role}}", Operation.ADMINISTER_TOPIC, status_code=204)
async def revoke_topic_permission(
    asked: Asked, name: AskedTopic, role: Annotated[Role, Path()]
) -> None:
    """From the topic and all its partitions; what the namespace grants is not touched."""
    await _revoke(asked.broker, [(name, role)])
    asked.note("revoke", name, role=role)


@router.post(f"{NAMESPACES}/grantPermissionsOnTopics", Operation.IDENTIFIED, status_code=204)
async def grant_on_topics(
    asked: Asked, options: Annotated[list[TopicGrant], Body(max_length=MANY_MAX)]
) -> None:
    """Many at once, all of one namespace, or none."""
    names = _of_one_namespace(asked.request, asked.broker, [one.topic for one in options])
    given = list(zip(names, options, strict=True))
    await _grant(asked.broker, [(name, one.role, one.actions) for name, one in given])
    for name, one in given:
        asked.note("grant", name, role=one.role, actions=sorted(one.actions))


@router.post(f"{NAMESPACES}/revokePermissionsOnTopics", Operation.IDENTIFIED, status_code=204)
async def revoke_on_topics(
    asked: Asked, options: Annotated[list[TopicRevocation], Body(max_length=MANY_MAX)]
) -> None:
    names = _of_one_namespace(asked.request, asked.broker, [one.topic for one in options])
    given = list(zip(names, options, strict=True))
    await _revoke(asked.broker, [(name, one.role) for name, one in given])
    for name, one in given:
        asked.note("revoke", name, role=one.role)


def _of_one_namespace(request: Request, broker: Broker, topics: list[str]) -> list[TopicName]:
    """The topics' names, if they are of one namespace and the caller administers it."""
    names = [TopicName.parse(topic) for topic in topics]
    if len({name.namespace for name in names}) != 1:
        raise InvalidInput("expected topics of one namespace")
    for name in names:
        target = Target.of_topic(name)
        broker.access_control.check(identity_of(request), Operation.ADMINISTER_TOPIC, target)
        check_topic(broker, name)
    return names


async def _grant(broker: Broker, given: list[tuple[TopicName, str, set[Action]]]) -> None:
    def change(grants: Grants) -> Grants:
        for name, role, actions in given:
            grants = grants.with_topic_role(name, role, actions)
        return grants

    for name, _, _ in given:
        check_topic(broker, name)
    await broker.access_control.grants.edit(given[0][0].namespace, change)


async def _revoke(broker: Broker, given: list[tuple[TopicName, str]]) -> None:
    def change(grants: Grants) -> Grants:
        for name, role in given:
            grants = grants.without_topic_role(name, role)
            for partition in range(broker.directory.partitions(name) or 0):
                grants = grants.without_topic_role(name.partition_name(partition), role)
        return grants

    for name, _ in given:
        check_topic(broker, name)
    await broker.access_control.grants.edit(given[0][0].namespace, change)
