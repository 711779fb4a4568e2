"""`milepost topics`: what is more than one call; the table of all its commands is in `topics_group.py`.

Commands, options and output are pulsar-admin's, so that a script moves over by the program's name.
New are `-o`, `--dry-run` where something would be lost, indexes beside ids, and exit codes. Subscriptions
and messages are in `topic_subscriptions.py` and `topic_messages.py`.
"""

from __future__ import annotations

import re
import time

import click

from milepost.cli.admin.options import DRY_RUN, FORCE, TOPIC, pairs
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.input_files import read_text
from milepost.cli.output import note, show_pairs, show_rows
from milepost.cli.progress.losses import ledgers_would_go, topics_would_go

METADATA = pairs("-m", "--metadata", help="key=value; repeatable.")
DELETE_SCHEMA = click.option("-d", "--deleteSchema", is_flag=True, hidden=True, expose_value=False)
DEDUPLICATION = click.option(
    "--deduplication", is_flag=True, help="Refuse what a producer of that name has sent before."
)


@click.command(cls=RemoteCommand, help="Create a topic without partitions.")
@TOPIC
@METADATA
@DEDUPLICATION
def create(topic: str, metadata: dict[str, str], deduplication: bool) -> None:
    with connection().admin() as admin:
        admin.create_topic(topic, metadata)
        if deduplication:
            admin.set_topic_policy(topic, "deduplicationEnabled", True)


@click.command(cls=RemoteCommand, help="Create a topic with partitions.")
@TOPIC
@click.option("-p", "--partitions", type=int, required=True, help="How many.")
@METADATA
@DEDUPLICATION
def create_partitioned_topic(
    topic: str, partitions: int, metadata: dict[str, str], deduplication: bool
) -> None:
    with connection().admin() as admin:
        admin.create_partitioned_topic(topic, partitions, metadata)
        if deduplication:
            admin.set_topic_policy(topic, "deduplicationEnabled", True)


@click.command(cls=RemoteCommand, help="Give a partitioned topic more partitions.")
@TOPIC
@click.option("-p", "--partitions", type=int, required=True, help="How many in all.")
@click.option("-ulo", "--update-local-only", "local_only", is_flag=True, hidden=True)
@click.option("-f", "--force", is_flag=True, hidden=True)
def update_partitioned_topic(topic: str, partitions: int, local_only: bool, force: bool) -> None:
    with connection().admin() as admin:
        # One that is not there is a conflict, in Pulsar.
        admin.get_partitioned_topic_metadata(topic)
        admin.update_partitioned_topic(topic, partitions, local_only=local_only, force=force)


@click.command(cls=RemoteCommand, help="Delete topics: one, those of a file, or by expression.")
@click.argument("topic")
@FORCE
@DELETE_SCHEMA
@click.option("-r", "--regex", is_flag=True, help="The name is an expression.")
@click.option("--from-file", is_flag=True, help="The name is a file's, with a topic a line.")
@DRY_RUN
def delete(topic: str, force: bool, regex: bool, from_file: bool, dry_run: bool) -> None:
    if regex and from_file:
        raise click.UsageError("--regex and --from-file exclude each other")
    with connection().admin() as admin:
        if from_file:
            lines = read_text(topic).splitlines()
            names = [line.strip() for line in lines if line.strip()]
        elif regex:
            namespace = "/".join(topic.partition("://")[2].split("/")[:2])
            names = [one for one in admin.list_topics(namespace) if re.fullmatch(topic, one)]
        else:
            names = [topic]
        if dry_run:
            topics_would_go(admin, names)
            return
        failed = 0
        for name in names:
            try:
                admin.delete_topic(name, force=force)
            except Exception as error:
                # As with pulsar-admin, one that stays does not save the others; but the exit
                # code tells.
                if len(names) == 1:
                    raise
                note(f"milepost: {name}: {error}")
                failed += 1
    if failed:
        raise CommandFailed(f"{failed} of {len(names)} topics were not deleted", Exit.CONFLICT)


@click.command(cls=RemoteCommand, help="Delete a topic with all its partitions.")
@TOPIC
@FORCE
@DELETE_SCHEMA
@DRY_RUN
def delete_partitioned_topic(topic: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            topics_would_go(admin, [topic])
        else:
            admin.delete_partitioned_topic(topic, force=force)


@click.command(cls=RemoteCommand, help="Move every cursor to the end and delete what is read.")
@TOPIC
@DRY_RUN
def truncate(topic: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            topics_would_go(admin, [topic])
        else:
            admin.truncate_topic(topic)


@click.command(
    cls=RemoteCommand, help="Accept that messages or acks are gone, so that a topic goes on."
)
@TOPIC
@DRY_RUN
def accept_loss(topic: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        losses = admin.get_losses(topic) if dry_run else admin.accept_loss(topic)
    rows = [(one["ledgerId"], one["firstIndex"], one["endIndex"], one["reason"]) for one in losses]
    show_rows(("ledger", "first index", "end index", "reason"), rows)


@click.command(cls=RemoteCommand, help="Delete what retention no longer keeps.")
@TOPIC
@DRY_RUN
def trim_topic(topic: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            ledgers_would_go(admin, topic)
        else:
            admin.trim_topic(topic)


@click.command(cls=RemoteCommand, help="The same for every partition.")
@TOPIC
def partitioned_terminate(topic: str) -> None:
    from milepost.admin import Refused

    with connection().admin() as admin:
        try:
            ends = admin.terminate_partitioned_topic(topic)
        except Refused:
            # A broker says the same of a topic without partitions and of one that does not exist.
            admin.get_stats(topic)
            raise
    for number, last in ends.items():
        click.echo(f"Topic {topic}-partition-{number} successfully terminated at {last}")


@click.command(cls=RemoteCommand, help="Which brokers serve the partitions of a topic.")
@TOPIC
@click.option("-s", "--sort-by-broker", is_flag=True, help="By broker, not by partition.")
def partitioned_lookup(topic: str, sort_by_broker: bool) -> None:
    with connection().admin() as admin:
        found = {
            name: one.get("brokerUrl", "")
            for name, one in admin.lookup_partitioned_topic(topic).items()
        }
    if not sort_by_broker:
        show_pairs(found)
        return
    by_broker: dict[str, list[str]] = {}
    for name, url in found.items():
        by_broker.setdefault(url, []).append(name)
    show_pairs({url: f"[{', '.join(names)}]" for url, names in by_broker.items()})


@click.command(cls=RemoteCommand, help="Start compaction.")
@TOPIC
def compact(topic: str) -> None:
    with connection().admin() as admin:
        admin.compact_topic(topic)
    click.echo(f"Topic compaction requested for {topic}")


@click.command(cls=RemoteCommand, help="How compaction went.")
@TOPIC
@click.option("-w", "--wait-complete", "wait", is_flag=True, help="Until it has ended.")
def compaction_status(topic: str, wait: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_compaction_status(topic)
        while wait and found.get("status") == "RUNNING":
            time.sleep(1)
            found = admin.get_compaction_status(topic)
    words = {
        "NOT_RUN": f"Compaction has not been run for {topic} since broker startup",
        "RUNNING": "Compaction is currently running",
        "SUCCESS": "Compaction was a success",
    }
    status = str(found.get("status"))
    if status not in words:
        raise CommandFailed(f"compaction of {topic}: {found.get('lastError')}", Exit.STORAGE)
    click.echo(words[status])
