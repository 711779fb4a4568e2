"""Parameters that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from milepost.cli.quantities import Property, split_names

F = TypeVar("F", bound=Callable[..., Any] | click.Command)


def _not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A script whose variable is empty would unload in place of a move."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty: name a broker as `brokers list` shows it")
    return value


TENANT = click.argument("tenant")
NAMESPACE = click.argument("namespace")
TOPIC = click.argument("topic")
SUBSCRIPTION = click.option("-s", "--subscription", required=True, help="Its name.")
BUNDLE = click.option("-b", "--bundle", help="Of this range of hashes only.")
DESTINATION = click.option(
    "-d",
    "--destination",
    callback=_not_empty,
    help="Serve it at this broker of the cluster from now on, as `brokers list` shows it.",
)
ROLE = click.option("-r", "--role", required=True, help="The role that is meant.")
KEY = click.option("-k", "--key", required=True, help="The name of the property.")
FORCE = click.option("-f", "--force", is_flag=True, help="Close whatever uses it first.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
SYSTEM = click.option(
    "-ist", "--include-system-topic", "include_system", is_flag=True, help="System topics too."
)
GLOBAL = click.option("-g", "--global", is_flag=True, hidden=True, expose_value=False)


def split(*words: str, **more: Any) -> Callable[[F], F]:
    """An option that may be repeated and hold names behind commas: a list; None if it is not given."""
    return click.option(
        *words, multiple=True, callback=lambda *of: split_names(of[2]) if of[2] else None, **more
    )


def pairs(*words: str, **more: Any) -> Callable[[F], F]:
    """An option `key=value` that may be repeated: a dict."""
    return click.option(
        *words, type=Property(), multiple=True, callback=lambda *of: dict(of[2]), **more
    )


PROPERTIES = pairs("-p", "--property", "properties", help="key=value; repeatable.")
