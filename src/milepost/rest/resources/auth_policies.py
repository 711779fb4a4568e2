"""The `auth_policies` inside the policies document of a namespace.

Who makes a namespace may say in the same call who may use it, and a reader of its policies sees the
grants among them. Owns the JSON; what a grant means is `broker/auth/grants.py`.

    >>> given = read(NamespaceName.parse("acme/shop"), {"namespace_auth": {"app": ["produce"]}})
    >>> given.allow("app", Action.PRODUCE, TopicName.parse("acme/shop/orders"))
    True
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from milepost.broker.auth.grants import Grants, SubscriptionMode, written
from milepost.broker.auth.operations import Action
from milepost.errors import InvalidPolicy
from milepost.positions.names import NamespaceName, TopicName
from milepost.rest.resources.permissions import MANY_MAX, Role

Granted = dict[Role, set[Action]]
Many = Field(max_length=MANY_MAX)


class AuthPolicies(BaseModel):
    """Names as upstream's JSON has them."""

    namespace_auth: Annotated[Granted, Many] = {}
    destination_auth: Annotated[dict[str, Granted], Many] = {}
    subscription_auth_roles: Annotated[dict[str, set[Role]], Many] = {}


_MODE: TypeAdapter[SubscriptionMode] = TypeAdapter(SubscriptionMode)


def read(namespace: NamespaceName, given: Any, mode: Any = None) -> Grants:
    """The grants that the document of a namespace names; `InvalidPolicy` if they are none."""
    try:
        policies = AuthPolicies.model_validate(given or {})
        grants = Grants(mode=_MODE.validate_python(mode or SubscriptionMode.NONE))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(("auth_policies", *map(str, first["loc"])))
        raise InvalidPolicy(f"{where[:200]}: {first['msg']}") from None
    for role, actions in policies.namespace_auth.items():
        grants = grants.with_namespace_role(role, actions)
    for topic, roles in policies.destination_auth.items():
        name = TopicName.parse(topic)
        if name.namespace != namespace:
            raise InvalidPolicy(f"auth_policies: {name} is not a topic of {namespace}")
        for role, actions in roles.items():
            grants = grants.with_topic_role(name, role, actions)
    for subscription, names in policies.subscription_auth_roles.items():
        grants = grants.with_subscription_roles(subscription, names)
    return grants


def shown(grants: Grants) -> dict[str, dict[str, Any]]:
    """The same as it is answered."""
    return {
        "namespace_auth": written(grants.namespace),
        "destination_auth": {topic: written(roles) for topic, roles in grants.topics.items()},
        "subscription_auth_roles": {
            name: sorted(roles) for name, roles in grants.subscriptions.items()
        },
    }
