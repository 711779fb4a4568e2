"""`milepost pipeline`: topics into lakes and back, by Spark.

    milepost pipeline archive events lake/          a topic into a lake, exactly once
    milepost pipeline verify lake/                  do both hold the same messages?
    milepost pipeline replay lake/ copy             the lake into a topic, exactly once
    milepost pipeline verify lake/ --copy copy

Each ends with one line that says what was done; `verify` has exit code 7 when something differs, and
names it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.connection import connection
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.output import note, show_rows
from milepost.cli.remote import RemoteCommand

if TYPE_CHECKING:
    from milepost.spark.options import Connection

LAKE = click.Path(file_okay=False, path_type=Path)
master_option = click.option(
    "--master", default="local[*]", show_default=True, help="A Spark master."
)


@click.group(help="Topics into lakes and back, by Spark: exactly once, and verified.")
def pipeline() -> None:
    pass


def _spark(master: str) -> Any:
    try:
        from milepost.spark.pipelines.tasks import session
    except ImportError as error:
        raise CommandFailed(
            f"pipelines need Spark: pip install 'milepost[spark]' ({error.name} is missing)",
            Exit.USAGE,
        ) from None
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise CommandFailed(
            "Spark needs Java 17 or newer: install it (Debian: apt install openjdk-17-jre-headless), or "
            "set JAVA_HOME",
            Exit.USAGE,
        )
    return session(master)


def _broker() -> Connection:
    from milepost.spark.options import SERVICE_URL_DEFAULT, Connection

    where = connection()
    return Connection(
        service_url=where.url or SERVICE_URL_DEFAULT,
        admin_url=where.admin_url,
        token=where.read_token(),
    )


@pipeline.command(cls=RemoteCommand)
@click.argument("topic")
@click.argument("lake", type=LAKE)
@click.option("--step", type=click.IntRange(min=1), help="Messages that are published at once.")
@master_option
def archive(topic: str, lake: Path, step: int | None, master: str) -> None:
    """Archive what a topic holds now into the directory LAKE, as Parquet.

    Run again, it goes on where the lake ends. It can be killed at any moment."""
    from milepost.spark.options import ReadOptions, topic_name

    spark = _spark(master)
    from milepost.spark.pipelines.archive import archive as run

    options = ReadOptions(_broker(), topics=(topic_name("TOPIC", topic),), messages_max=step)
    done = run(spark, options, lake, on_step=_progress)
    show_rows(
        ("lake", "steps", "files", "messages", "end"),
        [(str(lake), done.steps, done.files, done.messages, sum(done.end.values()))],
    )


@pipeline.command(cls=RemoteCommand)
@click.argument("lake", type=LAKE)
@click.option("--copy", metavar="TOPIC", help="Compare with a topic that the lake was replayed to.")
@master_option
def verify(lake: Path, copy: str | None, master: str) -> None:
    """Compare the directory LAKE with its topic, message by message.

    Exit code 7 when anything differs; every difference is a line on standard error."""
    from milepost.spark.options import topic_name

    spark = _spark(master)
    from milepost.spark.pipelines import verify as verifying

    if copy is None:
        found = verifying.verify(spark, _broker(), lake)
    else:
        found = verifying.verify_copy(spark, _broker(), lake, topic_name("--copy", copy))
    for problem in found.problems:
        note(problem)
    show_rows(
        ("lake", "files", "messages", "problems"),
        [(str(lake), found.files, found.messages, len(found.problems))],
    )
    if found.problems:
        raise CommandFailed(f"{lake} and the topic differ: {found.problems[0]}", Exit.DATA)


@pipeline.command(cls=RemoteCommand)
@click.argument("lake", type=LAKE)
@click.argument("topic")
@click.option(
    "--name", default="replay", show_default=True, help="Run again under it, nothing is sent twice."
)
@master_option
def replay(lake: Path, topic: str, name: str, master: str) -> None:
    """Write everything in the directory LAKE to a topic, each partition in its order.

    The topic must deduplicate."""
    from milepost.spark.options import topic_name

    spark = _spark(master)
    from milepost.spark.pipelines.replay import replay as run

    done = run(spark, _broker(), lake, topic_name("TOPIC", topic), name=name)
    show_rows(("lake", "messages", "sent"), [(str(lake), done.messages, done.sent)])


def _progress(done: int, total: int) -> None:
    """A line that is written over, for who watches."""
    if sys.stderr.isatty():
        end: dict[str, Any] = {"nl": done == total}
        click.echo(f"\r{done:,} of {total:,} messages", err=True, **end)
