"""Adds the commands of policies to a group.

The table of policies is read when the user asks for help, or for a name that is no command of the group's
own; so the other commands start as fast as without. Help shows a policy once, not three times.

    topics = PolicyGroup("topics", level="topic", table={…})
"""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.groups import LazyGroup


class PolicyGroup(LazyGroup):
    def __init__(self, *args: Any, level: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.level = level

    def list_commands(self, ctx: click.Context) -> list[str]:
        words = [word for word, _ in self.policies()]
        made = [f"{verb}-{word}" for word in words for verb in ("get", "set", "remove")]
        # Not all of them can be removed.
        there = [name for name in made if self.get_command(ctx, name) is not None]
        return [*super().list_commands(ctx), *there]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from milepost.broker.policies.policy import Level
        from milepost.cli.admin.policy_commands import command_of

        return command_of(Level(self.level), cmd_name)

    def policies(self) -> list[tuple[str, str]]:
        """The word of each, and what it means."""
        from milepost.broker.policies.policy import Level
        from milepost.cli.admin.policy_commands import names

        return list(names(Level(self.level)))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.table:
            super().format_commands(ctx, formatter)
        with formatter.section("Policies (get-…, set-…, remove-…)"):
            formatter.write_dl(self.policies())
