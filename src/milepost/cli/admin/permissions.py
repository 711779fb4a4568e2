"""Commands that grant, revoke and show permissions.

Namespaces and topics have the same three commands, made here for both; subscriptions are a namespace's.

    milepost topics grant-permission --role billing --actions consume orders
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.output import show_pairs
from milepost.cli.quantities import split_names

if TYPE_CHECKING:
    from milepost.admin import Admin

ROLE = click.option("-r", "--role", required=True)


class _Calls(NamedTuple):
    """What the admin client calls them."""

    get: Callable[[Admin, str], dict[str, list[str]]]
    grant: Callable[[Admin, str, str, list[str]], None]
    revoke: Callable[[Admin, str, str], None]


_CALLS = {
    "namespace": _Calls(
        lambda admin, name: admin.get_namespace_permissions(name),
        lambda admin, name, role, actions: admin.grant_namespace_permission(name, role, actions),
        lambda admin, name, role: admin.revoke_namespace_permission(name, role),
    ),
    "topic": _Calls(
        lambda admin, name: admin.get_topic_permissions(name),
        lambda admin, name, role, actions: admin.grant_topic_permission(name, role, actions),
        lambda admin, name, role: admin.revoke_topic_permission(name, role),
    ),
}


def _show(found: dict[str, list[str]]) -> None:
    show_pairs({name: f"[{', '.join(values)}]" for name, values in found.items()})


def _made(thing: str) -> tuple[click.Command, click.Command, click.Command]:
    calls = _CALLS[thing]

    @click.command("permissions", cls=RemoteCommand, help=f"Who may do what with a {thing}.")
    @click.argument(thing)
    def permissions(**values: Any) -> None:
        with connection().admin() as admin:
            _show(calls.get(admin, values[thing]))

    @click.command("grant-permission", cls=RemoteCommand, help=f"Let a role use a {thing}.")
    @click.argument(thing)
    @ROLE
    @click.option("-a", "--actions", multiple=True, required=True, help="produce,consume,…")
    def grant(role: str, actions: tuple[str, ...], **values: Any) -> None:
        with connection().admin() as admin:
            calls.grant(admin, values[thing], role, split_names(actions))

    @click.command(
        "revoke-permission", cls=RemoteCommand, help=f"Take a role's rights on a {thing}."
    )
    @click.argument(thing)
    @ROLE
    def revoke(role: str, **values: Any) -> None:
        with connection().admin() as admin:
            calls.revoke(admin, values[thing], role)

    return permissions, grant, revoke


namespace_permissions, grant_namespace, revoke_namespace = _made("namespace")
topic_permissions, grant_topic, revoke_topic = _made("topic")


@click.command(cls=RemoteCommand, help="Which roles may use which subscriptions of a namespace.")
@click.argument("namespace")
def subscription_permission(namespace: str) -> None:
    with connection().admin() as admin:
        _show(admin.get_subscription_permissions(namespace))


@click.command(cls=RemoteCommand, help="Let roles, and no others, use a subscription.")
@click.argument("namespace")
@click.option("-s", "--subscription", required=True)
@click.option("-rs", "--roles", multiple=True, required=True, help="Behind commas.")
def grant_subscription_permission(
    namespace: str, subscription: str, roles: tuple[str, ...]
) -> None:
    with connection().admin() as admin:
        admin.grant_subscription_permission(namespace, subscription, split_names(roles))


@click.command(cls=RemoteCommand, help="Take a role's right to a subscription.")
@click.argument("namespace")
@click.option("-s", "--subscription", required=True)
@ROLE
def revoke_subscription_permission(namespace: str, subscription: str, role: str) -> None:
    with connection().admin() as admin:
        admin.revoke_subscription_permission(namespace, subscription, role)
