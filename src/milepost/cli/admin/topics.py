"""`milepost topics`: list, create, delete, partitions, stats, lookup, unload, compact.

Commands, options and output are pulsar-admin's, so that a script moves over by the program's name.
New are `-o`, `--dry-run` where something would be lost, indexes beside ids, and exit codes. Here are
topics and their stats; subscriptions and messages are in `topic_subscriptions.py` and
`topic_messages.py`.
"""

from __future__ import annotations

import re
import time
from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.input_files import read_text
from milepost.cli.output import note, show_names, show_object, show_pairs, show_rows
from milepost.cli.progress.losses import ledgers_would_go, topics_would_go
from milepost.cli.quantities import Property

TOPIC = click.argument("topic")
PROPERTIES = click.option(
    "-p", "--property", "properties", type=Property(), multiple=True, help="key=value; repeatable."
)
METADATA = click.option(
    "-m", "--metadata", type=Property(), multiple=True, help="key=value; repeatable."
)
FORCE = click.option("-f", "--force", is_flag=True, help="Close whatever uses it first.")
DELETE_SCHEMA = click.option("-d", "--deleteSchema", "delete_schema", is_flag=True, hidden=True)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")


def stats_options(command: Any) -> Any:
    for option in (
        click.option("-etb", "--get-earliest-time-in-backlog", "earliest_time", is_flag=True),
        click.option("-sbs", "--get-subscription-backlog-size", "backlog_size", is_flag=True),
        click.option("-gpb", "--get-precise-backlog", "precise_backlog", is_flag=True),
    ):
        command = option(command)
    return command


@click.command("list", cls=RemoteCommand, help="Names of the topics of a namespace.")
@click.argument("namespace")
@click.option("-td", "--topic-domain", type=click.Choice(["persistent", "non_persistent"]))
@click.option("-ist", "--include-system-topic", "include_system", is_flag=True)
@click.option("-b", "--bundle", hidden=True)
@click.option("-p", "--property", "properties", type=Property(), multiple=True, hidden=True)
def list_topics(
    namespace: str, topic_domain: str | None, include_system: bool, bundle: str | None, **_: Any
) -> None:
    domain = topic_domain.replace("_", "-") if topic_domain else None
    with connection().admin() as admin:
        found = admin.list_topics(namespace, domain=domain, include_system=include_system)
    show_names(found, "topic")


@click.command(cls=RemoteCommand, help="Names of the partitioned topics of a namespace.")
@click.argument("namespace")
@click.option("-ist", "--include-system-topic", "include_system", is_flag=True)
def list_partitioned_topics(namespace: str, include_system: bool) -> None:
    with connection().admin() as admin:
        found = admin.list_partitioned_topics(namespace, include_system=include_system)
    show_names(found, "topic")


DEDUPLICATION = click.option(
    "--deduplication", is_flag=True, help="Refuse what a producer of that name has sent before."
)


@click.command(cls=RemoteCommand, help="Create a topic without partitions.")
@TOPIC
@METADATA
@DEDUPLICATION
def create(topic: str, metadata: tuple[tuple[str, str], ...], deduplication: bool) -> None:
    with connection().admin() as admin:
        admin.create_topic(topic, dict(metadata))
        if deduplication:
            admin.set_topic_policy(topic, "deduplicationEnabled", True)


@click.command(cls=RemoteCommand, help="Create a topic with partitions.")
@TOPIC
@click.option("-p", "--partitions", type=int, required=True, help="How many.")
@METADATA
@DEDUPLICATION
def create_partitioned_topic(
    topic: str, partitions: int, metadata: tuple[tuple[str, str], ...], deduplication: bool
) -> None:
    with connection().admin() as admin:
        admin.create_partitioned_topic(topic, partitions, dict(metadata))
        if deduplication:
            admin.set_topic_policy(topic, "deduplicationEnabled", True)


@click.command(cls=RemoteCommand, help="Create partitions that a partitioned topic should have.")
@TOPIC
def create_missed_partitions(topic: str) -> None:
    with connection().admin() as admin:
        admin.create_missed_partitions(topic)


@click.command(cls=RemoteCommand, help="Give a partitioned topic more partitions.")
@TOPIC
@click.option("-p", "--partitions", type=int, required=True, help="How many in all.")
@click.option("-ulo", "--update-local-only", "local_only", is_flag=True, hidden=True)
@click.option("-f", "--force", is_flag=True, hidden=True)
def update_partitioned_topic(topic: str, partitions: int, local_only: bool, force: bool) -> None:
    with connection().admin() as admin:
        admin.get_partitioned_topic_metadata(
            topic
        )  # one that is not there is a conflict, in Pulsar
        admin.update_partitioned_topic(topic, partitions, local_only=local_only, force=force)


@click.command(cls=RemoteCommand, help="How many partitions a topic has; 0 for none.")
@TOPIC
def get_partitioned_topic_metadata(topic: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_partitioned_topic_metadata(topic))


@click.command(cls=RemoteCommand, help="Delete topics: one, those of a file, or by expression.")
@click.argument("topic")
@FORCE
@DELETE_SCHEMA
@click.option("-r", "--regex", is_flag=True, help="The name is an expression.")
@click.option("--from-file", is_flag=True, help="The name is a file's, with a topic a line.")
@DRY_RUN
def delete(
    topic: str, force: bool, regex: bool, from_file: bool, dry_run: bool, delete_schema: bool
) -> None:
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
def delete_partitioned_topic(topic: str, force: bool, dry_run: bool, delete_schema: bool) -> None:
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


@click.command(cls=RemoteCommand, help="Accept that messages are gone, so that a topic goes on.")
@TOPIC
@DRY_RUN
def accept_loss(topic: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        losses = admin.get_losses(topic) if dry_run else admin.accept_loss(topic)
    rows = [(one["ledgerId"], one["firstIndex"], one["endIndex"], one["reason"]) for one in losses]
    show_rows(("ledger", "first index", "end index", "reason"), rows)


@click.command(cls=RemoteCommand, help="Close a topic here; clients come back by themselves.")
@TOPIC
def unload(topic: str) -> None:
    with connection().admin() as admin:
        admin.unload_topic(topic)


@click.command(cls=RemoteCommand, help="Delete what retention no longer keeps.")
@TOPIC
@DRY_RUN
def trim_topic(topic: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            ledgers_would_go(admin, topic)
        else:
            admin.trim_topic(topic)


@click.command(cls=RemoteCommand, help="Let no message follow the last.")
@TOPIC
def terminate(topic: str) -> None:
    with connection().admin() as admin:
        last = admin.terminate_topic(topic)
    click.echo(f"Topic successfully terminated at {last}")


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


@click.command(cls=RemoteCommand, help="Rates, sizes, producers, subscriptions, consumers.")
@TOPIC
@stats_options
def stats(topic: str, precise_backlog: bool, backlog_size: bool, earliest_time: bool) -> None:
    with connection().admin() as admin:
        show_object(
            admin.get_stats(topic, precise_backlog=precise_backlog, earliest_time=earliest_time)
        )


@click.command(cls=RemoteCommand, help="The same, of all partitions together.")
@TOPIC
@click.option("--per-partition", is_flag=True, help="And of each.")
@stats_options
def partitioned_stats(
    topic: str, per_partition: bool, precise_backlog: bool, backlog_size: bool, earliest_time: bool
) -> None:
    with connection().admin() as admin:
        show_object(
            admin.get_partitioned_stats(
                topic,
                per_partition=per_partition,
                precise_backlog=precise_backlog,
                earliest_time=earliest_time,
            )
        )


@click.command(cls=RemoteCommand, help="Ledgers and cursors.")
@TOPIC
@click.option("-m", "--metadata", is_flag=True, help="With the ledgers' metadata.")
def stats_internal(topic: str, metadata: bool) -> None:
    with connection().admin() as admin:
        show_object(admin.get_internal_stats(topic, metadata=metadata))


@click.command(cls=RemoteCommand, help="The same, of every partition.")
@TOPIC
def partitioned_stats_internal(topic: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_partitioned_internal_stats(topic))


@click.command(cls=RemoteCommand, help="What the catalog says of a topic.")
@TOPIC
def info_internal(topic: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_internal_info(topic))


@click.command(cls=RemoteCommand, help="A topic's own properties.")
@TOPIC
def get_properties(topic: str) -> None:
    with connection().admin() as admin:
        show_pairs(admin.get_topic_properties(topic))


@click.command(cls=RemoteCommand, help="Set some properties of a topic.")
@TOPIC
@PROPERTIES
def update_properties(topic: str, properties: tuple[tuple[str, str], ...]) -> None:
    with connection().admin() as admin:
        admin.update_topic_properties(topic, dict(properties))


@click.command(cls=RemoteCommand, help="Remove one property of a topic.")
@TOPIC
@click.option("-k", "--key", required=True)
def remove_properties(topic: str, key: str) -> None:
    with connection().admin() as admin:
        admin.remove_topic_property(topic, key)


@click.command(cls=RemoteCommand, help="Which broker serves a topic.")
@TOPIC
def lookup(topic: str) -> None:
    with connection().admin() as admin:
        found = admin.lookup_topic(topic)
    show_object(found.get("brokerUrl") or found.get("nativeUrl") or "")


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


@click.command(cls=RemoteCommand, help="The range of hashes that a topic's bundle has.")
@TOPIC
def bundle_range(topic: str) -> None:
    with connection().admin() as admin:
        click.echo(admin.get_bundle_range(topic))


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
