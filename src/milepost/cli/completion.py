"""`milepost completion`: Tab completion for shells.

Prints click's own script; nothing is installed.

    eval "$(milepost completion bash)"
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(help="Print the lines that let bash, zsh or fish complete commands and options.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    kind = get_completion_class(shell)
    assert kind is not None, f"click no longer knows {shell}"
    click.echo(kind(ctx.find_root().command, {}, "milepost", "_MILEPOST_COMPLETE").source())
