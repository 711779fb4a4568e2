"""Command groups that load a command when it is called, and suggest near names.

A table of names is all that help needs. A command's own module (and with it the broker, the HTTP
client or protobuf) is imported when the command runs.

    topics = LazyGroup("topics", table={"list": Lazy("milepost.cli.admin.topics:list_topics", "…")})
"""

from __future__ import annotations

import difflib
import gc
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import click

# More characters than any sentence has.
WHOLE = 10_000


class Row(Protocol):
    """A command in the table of its group."""

    @property
    def summary(self) -> str: ...

    @property
    def is_hidden(self) -> bool: ...

    def command(self, name: str) -> click.Command: ...


class Lazy(NamedTuple):
    """Where a command lives, and its line in the help."""

    target: str
    summary: str
    is_hidden: bool = False

    def command(self, name: str) -> click.Command:
        module, _, attribute = self.target.partition(":")
        was_enabled = gc.isenabled()
        gc.disable()  # modules stay: the collector would look through all of them, several times
        try:
            command = getattr(importlib.import_module(module), attribute)
        finally:
            if was_enabled:
                gc.enable()
        assert isinstance(command, click.Command)
        return command


# The row of each command, or the summary of a function of its name in the module.
Rows = Mapping[str, str | Row]


def table_of(modules: Mapping[str, Rows]) -> dict[str, Row]:
    """The table of a group, of the rows that each module has commands for."""
    return {
        name: Lazy(f"{module}:{name.replace('-', '_')}", row) if isinstance(row, str) else row
        for module, rows in modules.items()
        for name, row in rows.items()
    }


class Group(click.Group):
    """A group whose errors are one line with the nearest name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(
                f"there is no command {name!a}" + (f"; did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence of each command, whole: click cuts it where the line ends."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, one.get_short_help_str(limit=WHOLE))
            for name, one in found
            if one is not None and not one.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class LazyGroup(Group):
    def __init__(self, *args: Any, table: Mapping[str, Row], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = self.table.get(cmd_name)
        return None if row is None else row.command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, one.summary) for name, one in self.table.items() if not one.is_hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
