"""`milepost`: the table of commands, and error handling.

Errors become one line and an exit code. `milepost admin …` is `pulsar-admin …`: the same commands,
and like there every failure is a 1.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import click

from milepost import __version__
from milepost.cli.exits import Exit, explain, one_line
from milepost.cli.groups import Lazy, LazyGroup

COMMANDS = {
    "serve": Lazy("milepost.cli.server.serve:serve", "Run the broker."),
    "standalone": Lazy(
        "milepost.cli.server.serve:serve", "The same, by the name Pulsar has for it."
    ),
    "topics": Lazy("milepost.cli.admin.topics_group:topics", "Topics, as `pulsar-admin topics`."),
    "subscriptions": Lazy(
        "milepost.cli.progress.subscriptions:subscriptions", "Subscriptions and their progress."
    ),
    "progress": Lazy(
        "milepost.cli.progress.progress:progress", "How far every group is, trouble first."
    ),
    "top": Lazy("milepost.cli.progress.top:top", "The broker's numbers and groups, live."),
    "topicPolicies": Lazy("milepost.cli.admin.topics_group:topic_policies", "Policies of topics."),
    "namespaces": Lazy(
        "milepost.cli.admin.namespaces_group:namespaces", "Namespaces and their policies."
    ),
    "tenants": Lazy("milepost.cli.admin.tenants:tenants", "Tenants."),
    "schemas": Lazy("milepost.cli.admin.schemas:schemas", "Schemas of topics."),
    "clusters": Lazy("milepost.cli.admin.tenants:clusters", "Clusters.", is_hidden=True),
    "resourcegroups": Lazy(
        "milepost.cli.admin.resource_groups:resourcegroups",
        "Rates that topics share.",
        is_hidden=True,
    ),
    "broker-stats": Lazy(
        "milepost.cli.admin.resource_groups:broker_stats", "The broker's numbers.", is_hidden=True
    ),
    "non-persistent": Lazy(
        "milepost.cli.admin.topics_group:non_persistent",
        "Non-persistent topics.",
        is_hidden=True,
    ),
    "transactions": Lazy(
        "milepost.cli.admin.transactions:transactions", "Which are open, and whose; abort one."
    ),
    "brokers": Lazy(
        "milepost.cli.admin.brokers:brokers", "The broker's health, version and settings."
    ),
    "produce": Lazy("milepost.cli.messages.produce:produce", "Publish arguments, files or lines."),
    "consume": Lazy(
        "milepost.cli.messages.consume:consume", "Print messages, as a Unix filter likes them."
    ),
    "peek": Lazy("milepost.cli.messages.peek:peek", "Look at messages without consuming them."),
    "explain": Lazy(
        "milepost.cli.progress.explain:explain", "Decode an id or an index; say where it lies."
    ),
    "seek": Lazy("milepost.cli.progress.seek:seek", "Move a subscription, and say what that does."),
    "perf": Lazy("milepost.cli.messages.perf:perf", "Measure publishing and consuming."),
    "migrate": Lazy(
        "milepost.cli.migrate.migrate:migrate", "Copy topics with all that belongs to them."
    ),
    "console": Lazy(
        "milepost.cli.console.console:console", "Serve the console's pages for another broker."
    ),
    "verify": Lazy(
        "milepost.cli.server.verify:verify", "Check a data directory or a bucket, without a broker."
    ),
    "bucket": Lazy("milepost.cli.server.bucket:bucket", "Try out a bucket for a broker."),
    "pipeline": Lazy("milepost.cli.pipeline:pipeline", "Topics into lakes and back, by Spark."),
    "context": Lazy(
        "milepost.cli.connection.context:context", "Names for the brokers that you work with."
    ),
    "tokens": Lazy("milepost.cli.admin.tokens:tokens", "Keys, and tokens signed with them."),
    "config": Lazy(
        "milepost.cli.server.config:config", "Show the settings and where they come from."
    ),
    "admin": Lazy(
        "milepost.cli.admin.admin_group:admin", "The same as pulsar-admin: exit codes 0 and 1."
    ),
    "completion": Lazy("milepost.cli.completion:completion", "Let a shell complete commands."),
    "demo": Lazy("milepost.cli.tour.demo:demo", "A short tour: crash the broker, lose nothing."),
    "version": Lazy("milepost.cli.version:version", "Print the version."),
}


# What click says of a number, and what we do.
_PLAIN = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float range": "is not a number",
}


class _PipeClosed(Exception):
    """The reader of our output has left. Not an OSError, which click would answer in its own way."""


class _Root(LazyGroup):
    # The first word of the command line that is being run.
    called = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        from milepost.cli.connection.connection import connection_options
        from milepost.cli.output import output_option

        self.params += [*connection_options(hidden=False), output_option()]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        self.called = args[0]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _PipeClosed from None


@click.group(
    cls=_Root,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Milepost: a message broker for official Apache Pulsar clients in which every position "
    "is exact.",
    epilog="Options about the broker may stand before or after the command. Exit codes: 0 done, "
    "1 a bug, 2 usage or settings, 3 cannot connect, 4 not permitted, 5 not found, 6 taken "
    "already, 7 damaged or newer data, 8 disk, 9 a group in trouble.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def milepost() -> None:
    pass


def run(args: list[str]) -> int:
    """Run one command line; the answer is the exit code."""
    milepost.called = ""
    code = _run(args)
    if milepost.called == "admin" and Exit.OK < code < Exit.INTERRUPTED:
        return Exit.FAILED
    return code


def _run(args: list[str]) -> int:
    try:
        result = milepost.main(args, prog_name="milepost", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else _command_path(args)
        message = " ".join(error.format_message().split()).rstrip(".")
        for words, plain in _PLAIN.items():
            message = message.replace(words, plain)
        return _fail(one_line(f"{message} (see `{where} --help`)"), Exit.USAGE)
    except click.ClickException as error:
        return _fail(one_line(error.format_message()), Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except (_PipeClosed, BrokenPipeError):
        # The interpreter flushes once more when it ends: give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.CLOSED_PIPE
    except Exception as error:
        if os.environ.get("MILEPOST_DEBUG"):
            import traceback  # costs more than a command's help, and is mostly not needed

            traceback.print_exc()
        return _fail(*explain(error))
    return result if isinstance(result, int) else Exit.OK


def _command_path(words: list[str]) -> str:
    """The command of a line; click does not say it of an option whose value is missing.

    >>> _command_path(["-o", "json", "topics", "stats", "orders", "--topic"])
    'milepost topics stats'
    """
    context = click.Context(milepost, info_name="milepost")
    for word in words:
        if isinstance(context.command, click.Group):
            found = None if word.startswith("-") else context.command.get_command(context, word)
            if found is not None:
                context = click.Context(found, info_name=word, parent=context)
    return context.command_path


def _fail(message: str, code: Exit) -> int:
    click.echo(f"milepost: {message}", err=True)
    return code


def main() -> None:
    code = run(sys.argv[1:])
    if "obstore" in sys.modules:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process without the interpreter's own end: threads of obstore may still let go of something of
    Python's then, and the system would abort the process and not give it this code."""
    import logging  # costs more than a command's help, and is loaded by what loads obstore

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed by the reader; `run` has told it by the code
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
