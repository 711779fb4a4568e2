"""Command groups that load a command when it is called, and suggest near names.

A table of names is all that help needs. A command's own module (and with it the broker, the HTTP
client or protobuf) is imported when the command runs.

    topics = LazyGroup("topics", table={"list": Lazy("milepost.cli.admin.topics:list_topics", "…")})
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Lazy(NamedTuple):
    """Where a command lives, and its line in the help."""

    target: str
    summary: str
    is_hidden: bool = False


def table_of(modules: Mapping[str, Mapping[str, tuple[str | None, str]]]) -> dict[str, Lazy]:
    """The table of a group: module → command → attribute (None: named like the command) and summary."""
    return {
        name: Lazy(f"{module}:{attribute or name.replace('-', '_')}", summary)
        for module, rows in modules.items()
        for name, (attribute, summary) in rows.items()
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


class LazyGroup(Group):
    def __init__(self, *args: Any, table: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self.table.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, one.summary) for name, one in self.table.items() if not one.is_hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
