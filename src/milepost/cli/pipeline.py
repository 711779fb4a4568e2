"""`milepost pipeline`: archive, verify, replay and progress reports, by Spark.

    milepost pipeline archive events lake/          a topic into a lake, exactly once
    milepost pipeline archive events lake/ --follow on and on, until Ctrl-C or SIGTERM
    milepost pipeline verify lake/                  do both hold the same messages?
    milepost pipeline replay lake/ copy             the lake into a topic, exactly once
    milepost pipeline verify lake/ --copy copy
    milepost pipeline progress history/ --record 10m

Each ends with one line that says what was done; `verify` has exit code 7 when something differs, and
names it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from milepost.cli import java
from milepost.cli.bars import bar
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.groups import Group
from milepost.cli.messages.peek import partitions_of
from milepost.cli.output import note, show_rows
from milepost.cli.quantities import DURATION, Number
from milepost.cli.server.stopping import stopping
from milepost.cli.tour.quiet import quiet
from milepost.client.connection.endpoint import FILES, Endpoint

if TYPE_CHECKING:
    from milepost.spark.pipelines.lake.lakes import AnyLake

LAKE = click.Path(file_okay=False, path_type=Path)
FOLLOW_EVERY_S = 10
RECORD_EVERY_S = 1.0
master_option = click.option(
    "--master", default="local[*]", show_default=True, help="A Spark master."
)

pipeline = Group(
    "pipeline", help="Topics into lakes and back, by Spark: exactly once, and verified."
)


def _check_installed() -> None:
    """Say in one line which package is missing for pipelines."""
    try:
        from milepost.spark.pipelines import tasks  # noqa: F401
    except ImportError as error:
        raise CommandFailed(
            f"pipelines need Spark: pip install 'milepost[spark]' ({error.name} is missing)",
            Exit.USAGE,
        ) from None


def start_spark(master: str) -> Any:
    """A session, or one line on what is missing."""
    _check_installed()
    if lack := java.missing():
        raise CommandFailed(lack, Exit.USAGE)
    from milepost.spark.pipelines.tasks import session

    with quiet():
        return session(master)


def _broker(topic: str, *, creates: bool = False) -> Endpoint:
    """The broker of this command line, as every other command finds it."""
    from milepost.spark.reading.survey import probe

    given = connection()
    where = given.located(topic)
    # Before Spark is started for a broker, or for a topic, that is not there.
    if given.url is not None:
        probe(where, None if creates else topic)
    elif not creates:
        with given.admin() as admin:
            partitions_of(admin, topic)
    # Executors run in directories of their own.
    files: dict[str, Any] = {
        name: str(Path(path).absolute())
        for name in FILES
        if (path := getattr(where, name)) is not None
    }
    return replace(where, admin_url=where.http_url, **files)


def _lake(directory: Path) -> AnyLake:
    """A lake that something was archived into; exit 5 if there is none."""
    from milepost.spark.pipelines.lake.lakes import open_lake

    found = open_lake(directory)
    if not found.end:
        raise CommandFailed(
            f"{directory}: nothing was archived there; `milepost pipeline archive` makes a lake",
            Exit.NOT_FOUND,
        )
    return found


@pipeline.command(cls=RemoteCommand)
@click.argument("topic")
@click.argument("lake", type=LAKE)
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C or SIGTERM.")
@click.option(
    "--every",
    type=DURATION,
    default=str(FOLLOW_EVERY_S),
    show_default=True,
    help="How often to look, with --follow.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(("parquet", "delta")),
    help="Of a new lake: Parquet with manifests (the default), or a Delta table.",
)
@click.option(
    "--decode",
    type=click.Choice(("auto", "schema", "raw")),
    default="auto",
    show_default=True,
    help="Columns by the topic's schema, beside the bytes: where they can be had, always, never.",
)
@click.option("--step", type=click.IntRange(min=1), help="Messages that are published at once.")
@click.option(
    "--merge",
    "files_min",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    help="Merge small files when so many lie beside each other; 0: never.",
)
@click.option(
    "--subscription", help="Durable: shows how far the archive is, and makes retention wait for it."
)
@master_option
def archive(
    topic: str,
    lake: Path,
    follow: bool,
    every: int,
    kind: str | None,
    decode: str,
    step: int | None,
    files_min: int,
    subscription: str | None,
    master: str,
) -> None:
    """Archive what a topic holds into the directory LAKE, as Parquet or as a Delta table.

    Run again, it goes on where the lake ends. It can be killed at any moment."""
    _check_installed()
    from milepost.spark.options import ReadOptions, topic_name

    name = topic_name("TOPIC", topic)
    broker = _broker(name)
    spark = start_spark(master)
    from milepost.spark.pipelines.archive import archive as run

    options = ReadOptions(
        broker,
        topics=(name,),
        messages_max=step,
        subscription=subscription,
    )
    with ExitStack() as stack:
        # Behind Spark's start, which takes Ctrl-C for itself.
        stop = stack.enter_context(stopping()) if follow else None
        show = stack.enter_context(bar("archiving"))
        done = run(
            spark,
            options,
            lake,
            kind=kind,
            decode=decode,
            until=stop,
            every_s=every,
            files_min=files_min,
            on_step=show,
        )
    if done.bytes_only is not None:
        note(f"values are archived as bytes alone: {done.bytes_only}")
    show_rows(
        ("lake", "steps", "files", "merged", "messages", "corrupt", "end"),
        [
            (
                str(lake),
                done.steps,
                done.files,
                done.merged,
                done.messages,
                done.corrupt,
                sum(done.end.values()),
            )
        ],
    )


@pipeline.command(cls=RemoteCommand)
@click.argument("lake", type=LAKE)
@click.option("--copy", metavar="TOPIC", help="Compare with a topic that the lake was replayed to.")
@master_option
def verify(lake: Path, copy: str | None, master: str) -> None:
    """Compare the directory LAKE with its topic, message by message.

    Exit code 7 when anything differs; every difference is a line on standard error."""
    _check_installed()
    from milepost.spark.options import topic_name

    name = None if copy is None else topic_name("--copy", copy)
    topics = _lake(lake).end
    broker = _broker(name or min(topics))
    spark = start_spark(master)
    from milepost.spark.pipelines import verify as verifying

    with bar("verifying") as show:
        if name is None:
            found = verifying.verify(spark, broker, lake, on_done=show)
        else:
            found = verifying.verify_copy(spark, broker, lake, name, on_done=show)
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

    A topic that does not exist is made, with deduplication and the partitions of LAKE; one that exists
    must have both. Nothing is written before that is known."""
    _check_installed()
    from milepost.spark.options import topic_name

    target = topic_name("TOPIC", topic)
    _lake(lake)
    broker = _broker(target, creates=True)
    spark = start_spark(master)
    from milepost.spark.pipelines.replay import replay as run

    with bar("replaying") as show:
        done = run(spark, broker, lake, target, name=name, on_done=show)
    show_rows(("lake", "messages", "sent"), [(str(lake), done.messages, done.sent)])


@pipeline.command(cls=RemoteCommand)
@click.argument("history", type=LAKE)
@click.option(
    "--record", type=DURATION, metavar="TIME", help="First watch for so long, and record."
)
@click.option(
    "--every",
    type=Number(min=0.05),
    default=RECORD_EVERY_S,
    show_default=True,
    help="Seconds between two looks, with --record.",
)
@click.option("-g", "--group", metavar="NAME", help="Record one subscription only.")
@click.option("-t", "--topic", metavar="TOPIC", help="Record one topic only.")
@click.option("-n", "--namespace", metavar="TENANT/NAME", help="Record one namespace only.")
@click.option("--out", type=LAKE, help="Where to write the report.  [default: HISTORY/report]")
@master_option
def progress(
    history: Path,
    record: int | None,
    every: float,
    group: str | None,
    topic: str | None,
    namespace: str | None,
    out: Path | None,
    master: str,
) -> None:
    """Tables and pictures of what the directory HISTORY has recorded of groups' positions.

    With --record it watches first; Ctrl-C ends that early, and the report is made all the same."""
    if topic is not None and namespace is not None:
        raise click.UsageError("a topic has a namespace already: say --topic or --namespace")
    _check_installed()
    from milepost.spark.pipelines.report.history import files

    if record is None:
        files(history, "samples")  # none: there is nothing to start Spark for
    elif lack := java.missing():
        raise CommandFailed(lack, Exit.USAGE)
    else:
        _record(history, record, every, topic, namespace, group)
    spark = start_spark(master)
    from milepost.spark.pipelines.progress import reduce
    from milepost.spark.pipelines.report.report import write_report

    tables = reduce(spark, history)
    paths = write_report(tables, out or history / "report")
    show_rows(
        ("history", "samples", "groups", "holes", "resets", "report"),
        [
            (
                str(history),
                tables.samples,
                len(tables.groups),
                len(tables.holes),
                len(tables.resets),
                str(paths[0]),
            )
        ],
    )


def _record(
    history: Path,
    for_s: int,
    every_s: float,
    topic: str | None,
    namespace: str | None,
    group: str | None,
) -> None:
    from milepost.spark.pipelines.report import history as recording

    with connection().admin() as admin, stopping() as stop, bar("recording") as show:
        recording.record(
            lambda: admin.get_progress(topic, namespace=namespace, subscription=group),
            history,
            for_s=for_s,
            every_s=every_s,
            resets_of=admin.get_resets,
            until=stop,
            on_sample=show,
        )
