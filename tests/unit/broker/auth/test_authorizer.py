"""May this role do that to this object?"""

from __future__ import annotations

import pytest

from milepost.broker.auth.authorizer import BROKER, Authorizer, Target
from milepost.broker.auth.grants import Grants
from milepost.broker.auth.operations import Action, Operation, Scope
from milepost.broker.auth.roles import Identity
from milepost.errors import NotAuthorized
from milepost.positions.names import NamespaceName, TopicName

SHOP = NamespaceName.parse("acme/shop")
ORDERS = TopicName.parse("persistent://acme/shop/orders")
GRANTS = (
    Grants()
    .with_namespace_role("writer", {Action.PRODUCE})
    .with_namespace_role("reader", {Action.CONSUME})
    .with_namespace_role("machine", {Action.FUNCTIONS, Action.SOURCES, Action.SINKS})
    .with_topic_role(ORDERS, "of-topic", {Action.CONSUME, Action.PRODUCE})
    .with_subscription_roles("private", ["reader"])
)

AUTHORIZER = Authorizer(
    is_enabled=True,
    admins_of=lambda tenant: {"acme": ["boss"], "zeta": ["zed"]}.get(tenant, []),
    grants_of=lambda namespace: GRANTS if namespace == SHOP else Grants(),
    superusers=frozenset({"root"}),
    proxies=frozenset({"proxy", "root-proxy"}),
)

TARGETS = {
    Scope.NOTHING: BROKER,
    Scope.BROKER: BROKER,
    Scope.TENANT: Target("acme"),
    Scope.NAMESPACE: Target.of_namespace(SHOP),
    Scope.TOPIC: Target.of_topic(ORDERS),
}

ROLES = ("root", "boss", "zed", "writer", "reader", "of-topic", "machine", "stranger")

# Who may do what, beside those whom an operation is open to; kept here to be read.
ALLOWED = {
    Operation.SUPERUSER: {"root"},
    Operation.ADMINISTER_TENANT: {"root", "boss"},
    Operation.ADMINISTER_NAMESPACE: {"root", "boss"},
    Operation.ADMINISTER_TOPIC: {"root", "boss"},
    Operation.LIST_TOPICS: {"root", "boss", "writer", "reader"},
    Operation.FUNCTIONS: {"root", "boss", "machine"},
    Operation.SOURCES: {"root", "boss", "machine"},
    Operation.SINKS: {"root", "boss", "machine"},
    Operation.PACKAGES: {"root", "boss"},
    Operation.LOOK_UP: {"root", "boss", "writer", "reader", "of-topic"},
    Operation.PRODUCE: {"root", "boss", "writer", "of-topic"},
    Operation.CONSUME: {"root", "boss", "reader", "of-topic"},
}


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("role", ROLES)
def test_every_operation_for_every_role(operation: Operation, role: str) -> None:
    allowed = ALLOWED.get(operation, set(ROLES))
    may = AUTHORIZER.may(Identity(role, "token"), operation, TARGETS[operation.scope])
    assert may is (role in allowed)


@pytest.mark.parametrize("operation", ALLOWED)
def test_nobody_may_nothing_that_is_not_open(operation: Operation) -> None:
    assert not AUTHORIZER.may(None, operation, TARGETS[operation.scope])


def test_a_refusal_names_role_right_and_object() -> None:
    with pytest.raises(NotAuthorized) as refused:
        AUTHORIZER.check(
            Identity("writer", "token"), Operation.CONSUME, Target.of_topic(ORDERS, "s")
        )
    for word in ("writer", "CONSUME", str(ORDERS), "subscription s"):
        assert word in str(refused.value)


def test_with_authorization_off_everyone_may() -> None:
    free = Authorizer(is_enabled=False, admins_of=lambda _: (), grants_of=lambda _: Grants())
    free.check(None, Operation.SUPERUSER, BROKER)


def test_a_subscription_of_others() -> None:
    target = Target.of_topic(ORDERS, "private")
    assert AUTHORIZER.may(Identity("reader", "token"), Operation.CONSUME, target)
    assert not AUTHORIZER.may(Identity("of-topic", "token"), Operation.CONSUME, target)
    assert AUTHORIZER.may(Identity("boss", "token"), Operation.CONSUME, target)


def test_both_the_proxy_and_whoever_it_speaks_for_need_the_right() -> None:
    target = Target.of_topic(ORDERS)
    strong = Authorizer(
        is_enabled=True,
        admins_of=AUTHORIZER.admins_of,
        grants_of=AUTHORIZER.grants_of,
        superusers=frozenset({"root", "root-proxy"}),
        proxies=frozenset({"proxy", "root-proxy"}),
    )
    for_writer = Identity("root-proxy", "token", None, "writer")
    assert strong.may(for_writer, Operation.PRODUCE, target)
    assert not strong.may(for_writer, Operation.CONSUME, target)
    weak = Identity("proxy", "token", None, "root")
    assert not strong.may(weak, Operation.PRODUCE, target)


@pytest.mark.parametrize(
    ("role", "original", "same_is_fine", "is_fine"),
    [
        ("writer", "", False, True),
        ("writer", "root", False, False),
        ("writer", "writer", False, False),
        ("writer", "writer", True, True),
        ("writer", "root", True, False),
        ("proxy", "writer", False, True),
        ("proxy", "", False, False),
        ("proxy", "root-proxy", False, False),
        ("proxy", "proxy", True, False),
    ],
)
def test_who_may_speak_for_whom(
    role: str, original: str, same_is_fine: bool, is_fine: bool
) -> None:
    identity = Identity(role, "token", None, original)
    fault = AUTHORIZER.fault_of_proxy(identity, same_is_fine=same_is_fine)
    assert (fault is None) is is_fine


def test_only_a_proxy_says_that_it_is_one() -> None:
    AUTHORIZER.check_proxy(Identity("proxy", "token", None, "writer"))
    with pytest.raises(NotAuthorized):
        AUTHORIZER.check_proxy(Identity("writer", "token"))


def test_a_target_says_what_it_is() -> None:
    assert str(BROKER) == "the broker"
    assert str(Target("acme")) == "tenant acme"
    assert str(Target.of_namespace(SHOP)) == "namespace acme/shop"
    assert str(Target.of_topic(ORDERS)) == f"topic {ORDERS}"
