"""What Tab offers where a command takes the name of something: topics, groups, namespaces, settings.

The broker of the command line is asked, as the command itself would ask it, and has half a second. One that
does not answer in time, or refuses, offers nothing: a person who presses Tab wants no error.

    click.argument("topic", type=Offered(topics))
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from milepost.cli.figures import short_topic

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from milepost.admin import Admin

# From the key to the names; starting Python is not in it.
LIMIT_S = 0.5
NAMESPACE_DEFAULT = "public/default"

_PARTITION = re.compile(r"-partition-[0-9]+\Z")
_SCHEME = "persistent://"

# Asks for the names that may stand where `incomplete` does.
Source = Callable[["Admin", click.Context, str], Iterable[str]]


class Offered(click.types.StringParamType):
    """Text, with names that the broker knows for Tab."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found = _in_time(ctx, lambda admin: list(self._source(admin, ctx, incomplete)))
        return _items(found, incomplete)


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # no other command needs it

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _in_time(ctx: click.Context, ask: Callable[[Admin], list[str]]) -> list[str]:
    """What the broker answers within the limit. The thread that asks ends with the process."""
    from dataclasses import replace
    from threading import Thread

    from milepost.cli.connection.connection import flags_of, resolve
    from milepost.cli.exits import CommandFailed
    from milepost.errors import MilepostError

    found: list[str] = []

    def run() -> None:
        try:
            endpoint = replace(resolve(flags_of(ctx), os.environ), timeout_s=LIMIT_S)
            with endpoint.admin() as admin:
                found.extend(ask(admin))
        except (MilepostError, CommandFailed, OSError, ValueError, KeyError, TypeError):
            return  # no offer

    asking = Thread(target=run, daemon=True)
    asking.start()
    asking.join(LIMIT_S)
    return [] if asking.is_alive() else found


def topics(admin: Admin, ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Topics in the form in which the name was begun; of another namespace, once that is written."""
    is_full = incomplete.startswith(_SCHEME)
    name = incomplete.removeprefix(_SCHEME)
    tenant, slash, rest = name.partition("/")
    namespace, second, _ = rest.partition("/")
    head = _SCHEME if is_full else ""
    if slash and not second:
        return [f"{head}{one}/" for one in admin.list_namespaces(tenant)]
    if is_full and not slash:
        return [f"{head}{one}/" for one in admin.list_tenants()]
    asked = f"{tenant}/{namespace}" if second else NAMESPACE_DEFAULT
    found = admin.list_topics(asked, domain="persistent")
    if "-partition-" not in name:
        found = list(dict.fromkeys(_PARTITION.sub("", one) for one in found))
    if is_full:
        return found
    return [one.removeprefix(_SCHEME) if second else short_topic(one) for one in found]


def subscriptions(admin: Admin, ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Those of the topic that the command line names; without one, those of the broker."""
    topic = ctx.params.get("topic")
    if topic:
        return admin.get_subscriptions(str(topic))
    found = admin.get_progress(namespace=ctx.params.get("namespace"))
    return sorted({str(line["subscription"]) for line in found})


def namespaces(admin: Admin, ctx: click.Context, incomplete: str) -> Iterable[str]:
    tenant, slash, _ = incomplete.partition("/")
    if slash:
        return admin.list_namespaces(tenant)
    found = list(admin.list_tenants())
    # One tenant alone leads on to its namespaces.
    fitting = [one for one in found if one.startswith(incomplete)]
    return admin.list_namespaces(fitting[0]) if len(fitting) == 1 else [f"{one}/" for one in found]


def tenants(admin: Admin, ctx: click.Context, incomplete: str) -> Iterable[str]:
    return admin.list_tenants()


def dynamic_settings(admin: Admin, ctx: click.Context, incomplete: str) -> Iterable[str]:
    return admin.list_dynamic_settings()


# By the names that parameters have in commands that ask a broker.
BY_NAME: dict[str, Source] = {
    "topic": topics,
    "subscription": subscriptions,
    "group": subscriptions,
    "namespace": namespaces,
    "tenant": tenants,
}


def offer_names(parameters: Iterable[click.Parameter]) -> None:
    """Let Tab complete the parameters that name something a broker has."""
    for one in parameters:
        if one.name in BY_NAME and type(one.type) is click.types.StringParamType:
            one.type = Offered(BY_NAME[one.name])


class OfferedContext(click.types.StringParamType):
    """Text, with the names of contexts for Tab: they are in a file."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from milepost.cli.connection.contexts import load_contexts
        from milepost.cli.exits import CommandFailed

        try:
            names = load_contexts().named
        except CommandFailed:  # the file is broken, which the command itself will say
            return []
        return _items(names, incomplete)


class OfferedSetting(click.types.StringParamType):
    """`NAME=VALUE`, with the names of settings for Tab, and the values of those that have few."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from milepost.broker.settings.setting import Kind
        from milepost.broker.settings.settings import TABLE

        name, equals, _ = incomplete.partition("=")
        if not equals:
            return _items((f"{one}=" for one in TABLE), incomplete)
        if name not in TABLE:
            return []
        is_switch = TABLE[name].kind is Kind.SWITCH
        values = ("true", "false") if is_switch else TABLE[name].choices
        return _items((f"{name}={one}" for one in values), incomplete)
