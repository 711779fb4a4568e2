"""The grants of one namespace: what each role may do there.

A value, changed by making another; `document` and `read` are how it is stored. It knows no superuser and
no tenant: `authorizer.py` asks it about everyone else.

    >>> grants = Grants().with_namespace_role("reporter", {Action.CONSUME})
    >>> topic = TopicName.parse("persistent://acme/shop/orders")
    >>> grants.allow("reporter", Action.CONSUME, topic), grants.allow("other", Action.CONSUME, topic)
    (True, False)

Rules, as upstream has them: a grant on the namespace holds for all its topics; one on a partitioned
topic holds for its partitions; a subscription with roles of its own is theirs alone, and they still need
the right to consume.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from milepost.broker.auth.operations import Action
from milepost.broker.auth.roles import matches
from milepost.positions.names import TopicName

V = TypeVar("V")
Roles = Mapping[str, frozenset[Action]]


class SubscriptionMode(StrEnum):
    """What a subscription may be called, by upstream's names."""

    NONE = "None"
    PREFIX = "Prefix"
    """Its name begins with the role that consumes by it."""


@dataclass(frozen=True, slots=True)
class Grants:
    # Role, or pattern with a wildcard → what it may do on every topic of the namespace.
    namespace: Roles = field(default_factory=dict)

    # Topic's full name → role → what it may do there. Invariant: no topic is without roles.
    topics: Mapping[str, Roles] = field(default_factory=dict)

    # Subscription → the roles that may use it. Invariant: no list is empty; a missing one lets any role.
    subscriptions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    mode: SubscriptionMode = SubscriptionMode.NONE

    # -- asking ------------------------------------------------------------------------------------

    def allow(
        self, role: str, action: Action, topic: TopicName | None = None, *, wildcards: bool = False
    ) -> bool:
        """May the role do it on the topic, or, without one, in the whole namespace?"""
        if _among(self.namespace, role, action, wildcards):
            return True
        if topic is None:
            return False
        if _among(self.topics.get(str(topic), {}), role, action, wildcards):
            return True
        # A partition that was added later has no grants of its own.
        return topic.partition >= 0 and _among(
            self.topics.get(str(topic.base), {}), role, action, wildcards
        )

    def allow_subscription(self, role: str, subscription: str) -> bool:
        """May a role that can consume do so by this subscription?"""
        roles = self.subscriptions.get(subscription)
        if roles is not None and role not in roles:
            return False
        return self.mode is not SubscriptionMode.PREFIX or subscription.startswith(role)

    @property
    def size(self) -> int:
        """How many roles are named, each as often as it is."""
        inner = (*self.topics.values(), *self.subscriptions.values())
        return len(self.namespace) + sum(len(roles) for roles in inner)

    # -- changing ----------------------------------------------------------------------------------

    def with_namespace_role(self, role: str, actions: Collection[Action]) -> Grants:
        return replace(self, namespace=_put(self.namespace, role, frozenset(actions)))

    def without_namespace_role(self, role: str) -> Grants:
        return replace(self, namespace=_without(self.namespace, role))

    def with_topic_role(self, topic: TopicName, role: str, actions: Collection[Action]) -> Grants:
        roles = _put(self.topics.get(str(topic), {}), role, frozenset(actions))
        return replace(self, topics=_put(self.topics, str(topic), roles))

    def without_topic_role(self, topic: TopicName, role: str) -> Grants:
        roles = _without(self.topics.get(str(topic), {}), role)
        topics = (
            _put(self.topics, str(topic), roles) if roles else _without(self.topics, str(topic))
        )
        return replace(self, topics=topics)

    def without_topic(self, topic: TopicName) -> Grants:
        """The topic is gone, and one of its name later starts without grants."""
        return replace(self, topics=_without(self.topics, str(topic)))

    def with_subscription_roles(self, subscription: str, roles: Collection[str]) -> Grants:
        subscriptions = (
            _put(self.subscriptions, subscription, frozenset(roles))
            if roles
            else _without(self.subscriptions, subscription)
        )
        return replace(self, subscriptions=subscriptions)

    def with_mode(self, mode: SubscriptionMode) -> Grants:
        return replace(self, mode=mode)

    # -- storing -----------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        return {
            "namespace": written(self.namespace),
            "topics": {topic: written(roles) for topic, roles in self.topics.items()},
            "subscriptions": {name: sorted(roles) for name, roles in self.subscriptions.items()},
            "mode": self.mode.value,
        }

    @staticmethod
    def read(document: Mapping[str, Any]) -> Grants:
        return Grants(
            _read_roles(document.get("namespace", {})),
            {topic: _read_roles(roles) for topic, roles in document.get("topics", {}).items()},
            {name: frozenset(roles) for name, roles in document.get("subscriptions", {}).items()},
            SubscriptionMode(document.get("mode", SubscriptionMode.NONE)),
        )


def written(roles: Roles) -> dict[str, list[str]]:
    """Roles and their actions as JSON has them."""
    return {role: sorted(actions) for role, actions in roles.items()}


def _read_roles(roles: Mapping[str, Collection[str]]) -> dict[str, frozenset[Action]]:
    return {
        role: frozenset(Action(action) for action in actions) for role, actions in roles.items()
    }


def _among(roles: Roles, role: str, action: Action, wildcards: bool) -> bool:
    if action in roles.get(role, ()):
        return True
    return wildcards and any(
        action in actions and matches(granted, role) for granted, actions in roles.items()
    )


def _put(mapping: Mapping[str, V], key: str, value: V) -> dict[str, V]:
    return {**mapping, key: value}


def _without(mapping: Mapping[str, V], key: str) -> dict[str, V]:
    return {other: value for other, value in mapping.items() if other != key}
