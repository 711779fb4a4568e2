"""`milepost namespaces`: the grammar of `pulsar-admin namespaces`, as far as the broker has it."""

from __future__ import annotations

import sys
from typing import Any

import click

from milepost.cli.connection import connection
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.groups import Group
from milepost.cli.losses import backlogs_would_go, topics_would_go
from milepost.cli.output import show_names, show_object, show_pairs
from milepost.cli.quantities import DURATION, SIZE, split_names
from milepost.cli.remote import RemoteCommand

NAMESPACE = click.argument("namespace")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
MIB = 1024 * 1024


@click.group(cls=Group, help="Namespaces: the words of `pulsar-admin namespaces`.")
def namespaces() -> None:
    pass


@namespaces.command("list", cls=RemoteCommand, help="Names of the namespaces of a tenant.")
@click.argument("tenant")
def list_namespaces(tenant: str) -> None:
    with connection().admin() as admin:
        show_names(admin.list_namespaces(tenant), "namespace")


@namespaces.command(cls=RemoteCommand, help="Names of the topics of a namespace.")
@NAMESPACE
@click.option("-m", "--mode", type=click.Choice(["persistent", "non_persistent", "all"]))
@click.option("-ist", "--include-system-topic", "include_system", is_flag=True)
def topics(namespace: str, mode: str | None, include_system: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_namespace_topics(
            namespace, mode=mode.upper() if mode else None, include_system=include_system
        )
    show_names(found, "topic")


@namespaces.command(cls=RemoteCommand, help="Create a namespace.")
@NAMESPACE
@click.option("-c", "--clusters", multiple=True, help="All of them if left out.")
@click.option("-b", "--bundles", type=click.IntRange(min=0), hidden=True)
def create(namespace: str, clusters: tuple[str, ...], bundles: int | None) -> None:
    with connection().admin() as admin:
        admin.create_namespace(namespace, clusters=split_names(clusters), bundles=bundles)


@namespaces.command(cls=RemoteCommand, help="Delete a namespace.")
@NAMESPACE
@click.option("-f", "--force", is_flag=True, help="With all its topics.")
@DRY_RUN
def delete(namespace: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            topics_would_go(admin, admin.list_topics(namespace))
        else:
            admin.delete_namespace(namespace, force=force)


@namespaces.command(cls=RemoteCommand, help="Everything that is set for a namespace.")
@NAMESPACE
def policies(namespace: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_policies(namespace))


@namespaces.command(cls=RemoteCommand, help="Close every topic here; clients come back.")
@NAMESPACE
def unload(namespace: str) -> None:
    with connection().admin() as admin:
        admin.unload_namespace(namespace)


@namespaces.command(cls=RemoteCommand, help="Skip what was not acked, in every topic.")
@NAMESPACE
@click.option("-s", "--sub", "subscription", help="Of this subscription only.")
@click.option("-force", "--force", is_flag=True, help="Do not ask.")
@DRY_RUN
def clear_backlog(namespace: str, subscription: str | None, force: bool, dry_run: bool) -> None:
    if dry_run:
        with connection().admin() as admin:
            backlogs_would_go(admin, namespace, subscription)
        return
    if not force:
        if not sys.stdin.isatty():
            raise CommandFailed(
                f"namespaces clear-backlog {namespace}: nobody to ask; say --force", Exit.USAGE
            )
        click.confirm(f"Skip everything in {namespace} that was not acked?", abort=True)
    with connection().admin() as admin:
        admin.clear_namespace_backlog(namespace, subscription)


@namespaces.command(cls=RemoteCommand, help="Delete a subscription from every topic.")
@NAMESPACE
@click.option("-s", "--sub", "subscription", required=True)
@DRY_RUN
def unsubscribe(namespace: str, subscription: str, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            backlogs_would_go(admin, namespace, subscription)
        else:
            admin.unsubscribe_namespace(namespace, subscription)


@namespaces.command(cls=RemoteCommand, help="Who may do what in a namespace.")
@NAMESPACE
def permissions(namespace: str) -> None:
    with connection().admin() as admin:
        found = admin.get_namespace_permissions(namespace)
    show_pairs({role: f"[{', '.join(actions)}]" for role, actions in found.items()})


@namespaces.command(cls=RemoteCommand, help="Let a role use a namespace.")
@NAMESPACE
@click.option("-r", "--role", required=True)
@click.option("-a", "--actions", multiple=True, required=True, help="produce,consume,…")
def grant_permission(namespace: str, role: str, actions: tuple[str, ...]) -> None:
    with connection().admin() as admin:
        admin.grant_namespace_permission(namespace, role, split_names(actions))


@namespaces.command(cls=RemoteCommand, help="Take a role's rights on a namespace.")
@NAMESPACE
@click.option("-r", "--role", required=True)
def revoke_permission(namespace: str, role: str) -> None:
    with connection().admin() as admin:
        admin.revoke_namespace_permission(namespace, role)


@namespaces.command(cls=RemoteCommand, help="How long messages are kept.")
@NAMESPACE
@click.option("-t", "--time", "time_s", type=DURATION, required=True, help="3h; -1 for ever.")
@click.option("-s", "--size", "size", type=SIZE, required=True, help="10G; -1 without end.")
def set_retention(namespace: str, time_s: int, size: int) -> None:
    value = {
        "retentionTimeInMinutes": -1 if time_s == -1 else time_s // 60,
        "retentionSizeInMB": -1 if size == -1 else size // MIB,
    }
    _set(namespace, "retention", value)


@namespaces.command(cls=RemoteCommand, help="After how long messages expire.")
@NAMESPACE
@click.option("-ttl", "--messageTTL", "ttl_s", type=DURATION, required=True, help="0 for never.")
def set_message_ttl(namespace: str, ttl_s: int) -> None:
    _set(namespace, "messageTTL", ttl_s)


@namespaces.command(cls=RemoteCommand, help="Drop what a producer sends twice.")
@NAMESPACE
@click.option("-e", "--enable", is_flag=True)
@click.option("-d", "--disable", is_flag=True)
def set_deduplication(namespace: str, enable: bool, disable: bool) -> None:
    if enable == disable:
        raise click.UsageError("give either --enable or --disable")
    _set(namespace, "deduplication", enable)


def _set(namespace: str, name: str, value: object) -> None:
    with connection().admin() as admin:
        admin.set_policy(namespace, name, value)


# Policies that are read and removed alike: the command's word, and the last part of the path.
POLICIES = {
    "retention": "retention",
    "message-ttl": "messageTTL",
    "deduplication": "deduplication",
    "backlog-quotas": "backlogQuotaMap",
    "persistence": "persistence",
    "delayed-delivery": "delayedDelivery",
    "schema-compatibility-strategy": "schemaCompatibilityStrategy",
}


def _add_policy(word: str, path: str) -> None:
    @namespaces.command(f"get-{word}", cls=RemoteCommand, help=f"The {word} that is set.")
    @NAMESPACE
    def get_policy(namespace: str) -> None:
        with connection().admin() as admin:
            found: Any = admin.get_policy(namespace, path)
        show_object(found)

    @namespaces.command(f"remove-{word}", cls=RemoteCommand, help=f"Set no {word}.")
    @NAMESPACE
    def remove_policy(namespace: str) -> None:
        with connection().admin() as admin:
            admin.remove_policy(namespace, path)


for _word, _path in POLICIES.items():
    _add_policy(_word, _path)
