"""Commands that grant, revoke and show permissions.

Namespaces and topics have the same three commands; subscriptions are a namespace's.

    milepost topics grant-permission --role billing --actions consume orders
"""

from __future__ import annotations

import click

from milepost.cli.admin.calls import Ask, Call, Parameter, show_lists
from milepost.cli.admin.options import NAMESPACE, ROLE, TOPIC, split
from milepost.cli.quantities import split_names

KNOWN = ("produce", "consume", "functions", "sources", "sinks", "packages")


def _known(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    found = split_names(value)
    for one in found:
        if one not in KNOWN:
            raise click.BadParameter(f"{one!a}: expected {', '.join(KNOWN)}", ctx, param)
    return found


ACTIONS = click.option(
    "-a",
    "--actions",
    required=True,
    multiple=True,
    callback=_known,
    help=f"With commas between: {', '.join(KNOWN)}.",
)
SUBSCRIPTION = click.option(
    "-s", "--subscription", required=True, help="The name of the subscription."
)
ROLES = split("-rs", "--roles", required=True, help="With commas between.")


def _of(thing: str, target: Parameter) -> dict[str, Call]:
    return {
        "permissions": Ask(
            f"get_{thing}_permissions", f"Who may do what with a {thing}.", target, show=show_lists
        ),
        "grant-permission": Call(
            f"grant_{thing}_permission", f"Let a role use a {thing}.", target, ROLE, ACTIONS
        ),
        "revoke-permission": Call(
            f"revoke_{thing}_permission", f"Take a role's rights on a {thing}.", target, ROLE
        ),
    }


OF_TOPICS = _of("topic", TOPIC)
OF_NAMESPACES = _of("namespace", NAMESPACE) | {
    "subscription-permission": Ask(
        "get_subscription_permissions",
        "Which roles may use which subscriptions of a namespace.",
        NAMESPACE,
        show=show_lists,
    ),
    "grant-subscription-permission": Call(
        "grant_subscription_permission",
        "Let roles, and no others, use a subscription.",
        NAMESPACE,
        SUBSCRIPTION,
        ROLES,
    ),
    "revoke-subscription-permission": Call(
        "revoke_subscription_permission",
        "Take a role's right to a subscription.",
        NAMESPACE,
        SUBSCRIPTION,
        ROLE,
    ),
}
