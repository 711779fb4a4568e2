"""Makes a command of one call of the admin client.

Most of pulsar-admin's words are a call and its arguments. Such a command is a row in its group's table: the
call, the line of its help, and its parameters, which are named like the call's arguments.

    "create": Call("create_tenant", "Create a tenant.", TENANT, ROLES, CLUSTERS),
    "get": Ask("get_tenant", "Roles and clusters of a tenant.", TENANT),

Other keywords are arguments that the command always passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.output import show_names, show_object, show_pairs

# What `click.argument` and `click.option` make.
Parameter = Callable[[Any], Any]


class Call:
    """A command that says nothing where all is well."""

    is_hidden = False

    def __init__(
        self,
        method: str,
        summary: str,
        *parameters: Parameter,
        show: Callable[[Any], None] | None = None,
        **fixed: Any,
    ) -> None:
        self.method = method
        self.summary = summary
        self.parameters = parameters
        self.show = show
        self.fixed = fixed

    def command(self, name: str) -> click.Command:
        def run(**values: Any) -> None:
            with connection().admin() as admin:
                result = getattr(admin, self.method)(**values, **self.fixed)
            if self.show is not None:
                self.show(result)

        decorated: Callable[..., Any] = run
        for parameter in reversed(self.parameters):
            decorated = parameter(decorated)
        return click.command(name, cls=RemoteCommand, help=self.summary)(decorated)


class Ask(Call):
    """A command that shows what the call returns."""

    def __init__(self, *what: Any, show: Callable[[Any], None] = show_object, **fixed: Any) -> None:
        super().__init__(*what, show=show, **fixed)


def names(column: str) -> Callable[[Any], None]:
    """Show a name a line; in a table and in CSV below this column."""
    return lambda found: show_names(found, column)


def show_lists(found: dict[str, list[str]]) -> None:
    """Show a name with its list a line, as Java prints lists."""
    show_pairs({name: f"[{', '.join(values)}]" for name, values in found.items()})
