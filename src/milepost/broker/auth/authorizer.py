"""Decides whether a role may do an operation on a tenant, namespace or topic.

A plain function of the settings and of what the directory and the grants say at that moment. It is
asked when a producer, a consumer or a request begins, never for a message, so that rights cost nothing
where messages pass.

    authorizer.check(identity, Operation.PRODUCE, Target.of_topic(topic))    # or NotAuthorized

In order: with authorisation off everyone may do everything; a superuser too; a tenant's admin may do
all that is not a superuser's within the tenant; others what is granted. For a proxy role both the proxy
and the role that it speaks for need the right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from milepost.broker.auth.grants import Grants
from milepost.broker.auth.operations import Operation, Scope
from milepost.broker.auth.roles import Identity
from milepost.errors import NotAuthorized
from milepost.positions.names import NamespaceName, TopicName


class Target(NamedTuple):
    """What an operation is done to. Invariant: the parts belong together, and the narrowest is meant."""

    tenant: str = ""
    namespace: NamespaceName | None = None
    topic: TopicName | None = None
    subscription: str = ""

    @staticmethod
    def of_namespace(namespace: NamespaceName) -> Target:
        return Target(namespace.tenant, namespace)

    @staticmethod
    def of_topic(topic: TopicName, subscription: str = "") -> Target:
        return Target(topic.tenant, topic.namespace, topic, subscription)

    def __str__(self) -> str:
        if self.topic is not None:
            by = f", subscription {self.subscription}" if self.subscription else ""
            return f"topic {self.topic}{by}"
        if self.namespace is not None:
            return f"namespace {self.namespace}"
        return f"tenant {self.tenant}" if self.tenant else "the broker"


BROKER = Target()


@dataclass(frozen=True, slots=True)
class Authorizer:
    is_enabled: bool

    # A tenant's name → the roles that administer it; none for a tenant that is not there.
    admins_of: Callable[[str], Collection[str]]

    # A namespace → its grants; those of a namespace that is not there are empty.
    grants_of: Callable[[NamespaceName], Grants]

    superusers: frozenset[str] = frozenset()

    # Proxy roles: they speak for other roles. Invariant: a proxy role never acts for itself.
    proxies: frozenset[str] = frozenset()

    # Does `*` in a granted role stand for many?
    wildcards: bool = False

    def check(self, identity: Identity | None, operation: Operation, target: Target) -> None:
        """Return if it may, raise `NotAuthorized` if not."""
        if not self.may(identity, operation, target):
            raise NotAuthorized(
                f"role {identity} is not permitted {operation.name} on {target}: "
                f"needs {operation.meaning}"
            )

    def may(self, identity: Identity | None, operation: Operation, target: Target) -> bool:
        if not self.is_enabled or operation.scope is Scope.NOTHING:
            return True
        if identity is None:
            return False
        if identity.role in self.proxies:
            # As upstream: the proxy's own rights are the most that it can pass on.
            return self._role_may(identity.role, operation, target) and self._role_may(
                identity.original_role, operation, target
            )
        return self._role_may(identity.role, operation, target)

    def _role_may(self, role: str, operation: Operation, target: Target) -> bool:
        if role in self.superusers:
            return True
        if operation.scope is Scope.BROKER:
            return False
        assert target.tenant, f"{operation.name} without a tenant: {target}"
        if role in self.admins_of(target.tenant):
            return True
        if not operation.actions or target.namespace is None:
            return False
        grants = self.grants_of(target.namespace)
        if target.subscription and not grants.allow_subscription(role, target.subscription):
            return False
        topic = target.topic if operation.scope is Scope.TOPIC else None
        return any(
            grants.allow(role, action, topic, wildcards=self.wildcards)
            for action in operation.actions
        )

    def check_proxy(self, identity: Identity) -> None:
        """Only a proxy says that it is one."""
        if identity.role not in self.proxies:
            raise NotAuthorized(f"role {identity} says that it is a proxy, and is no proxy role")

    def fault_of_proxy(self, identity: Identity, *, same_is_fine: bool = False) -> str | None:
        """Why a role may not speak for the original role it names; None if it may, or names none.

        `same_is_fine`: over HTTP a client may name itself.
        """
        role, original = identity.role, identity.original_role
        if role in self.proxies:
            if not original:
                return f"proxy role {role} does not say for whom it speaks"
            if original in self.proxies:
                return f"proxy role {role} speaks for {original}, which is a proxy role itself"
        elif original and not (same_is_fine and original == role):
            return f"role {role} speaks for {original}, and is no proxy role"
        return None
