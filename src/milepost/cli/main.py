"""The `milepost` command: finds the command that was asked for, and loads only that one.

The table below is all that help needs: a command's own module (and with it the broker, the web
framework or protobuf) is imported when the command runs. Errors become one line and an exit code.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import sys
from typing import Any, NamedTuple

import click

from milepost import __version__
from milepost.cli.exits import Exit, explain

logger = logging.getLogger(__name__)


class Lazy(NamedTuple):
    """Where a command lives, and its line in the help."""

    target: str
    summary: str


COMMANDS = {
    "serve": Lazy("milepost.cli.serve:serve", "Run the broker."),
    "standalone": Lazy("milepost.cli.serve:serve", "The same, by the name Pulsar has for it."),
    "config": Lazy("milepost.cli.config:config", "Show the settings and where they come from."),
    "demo": Lazy("milepost.cli.demo:demo", "A short tour: crash the broker, lose nothing."),
    "version": Lazy("milepost.cli.version:version", "Print the version."),
}


class _PipeClosed(Exception):
    """Whoever read our output has left. Not an OSError, which click would answer in its own way."""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            ctx.fail(
                f"there is no command {name!a}" + (f"; did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _PipeClosed from None


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Milepost: a message broker for official Apache Pulsar clients in which every position "
    "is exact.",
    epilog="Exit codes: 0 done, 1 a bug, 2 usage or settings, 3 cannot connect, 4 not permitted, "
    "5 not found, 6 taken by somebody else, 7 damaged or newer data, 8 disk.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def milepost() -> None:
    pass


def run(args: list[str]) -> int:
    """Run one command line; the answer is the exit code."""
    try:
        result = milepost.main(args, prog_name="milepost", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "milepost"
        message = " ".join(error.format_message().split()).rstrip(".")
        return _fail(f"{message} (see `{where} --help`)", Exit.USAGE)
    except click.ClickException as error:
        return _fail(error.format_message(), Exit.FAILED)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except (_PipeClosed, BrokenPipeError):
        # The interpreter flushes once more when it ends: give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.CLOSED_PIPE
    except Exception as error:
        logger.debug("where it failed", exc_info=True)
        return _fail(*explain(error))
    return result if isinstance(result, int) else Exit.OK


def _fail(message: str, code: Exit) -> int:
    click.echo(f"milepost: {message}", err=True)
    return code


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
