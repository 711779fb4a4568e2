"""`milepost namespaces`: list, create, delete, unload, clear-backlog, properties.

Here are namespaces themselves; their policies are made from the table of policies (`policy_commands.py`),
their permissions stand beside those of topics (`permissions.py`).
"""

from __future__ import annotations

import sys

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.output import show_names, show_object, show_pairs
from milepost.cli.progress.losses import backlogs_would_go, topics_would_go
from milepost.cli.quantities import Property, split_names

NAMESPACE = click.argument("namespace")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
BUNDLE = click.option("-b", "--bundle", help="Of this range of hashes only.")


@click.command("list", cls=RemoteCommand, help="Names of the namespaces of a tenant.")
@click.argument("tenant")
def list_namespaces(tenant: str) -> None:
    with connection().admin() as admin:
        show_names(admin.list_namespaces(tenant), "namespace")


@click.command(cls=RemoteCommand, help="Names of the topics of a namespace.")
@NAMESPACE
@click.option("-m", "--mode", type=click.Choice(["persistent", "non_persistent", "all"]))
@click.option("-ist", "--include-system-topic", "include_system", is_flag=True)
def topics(namespace: str, mode: str | None, include_system: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_namespace_topics(
            namespace, mode=mode.upper() if mode else None, include_system=include_system
        )
    show_names(found, "topic")


@click.command(cls=RemoteCommand, help="Create a namespace.")
@NAMESPACE
@click.option("-c", "--clusters", multiple=True, help="All of them if left out.")
@click.option("-b", "--bundles", type=click.IntRange(min=0), hidden=True)
def create(namespace: str, clusters: tuple[str, ...], bundles: int | None) -> None:
    with connection().admin() as admin:
        admin.create_namespace(namespace, clusters=split_names(clusters), bundles=bundles)


@click.command(cls=RemoteCommand, help="Delete a namespace.")
@NAMESPACE
@click.option("-f", "--force", is_flag=True, help="With all its topics.")
@DRY_RUN
def delete(namespace: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            topics_would_go(admin, admin.list_topics(namespace))
        else:
            admin.delete_namespace(namespace, force=force)


@click.command(cls=RemoteCommand, help="Everything that is set for a namespace.")
@NAMESPACE
def policies(namespace: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_policies(namespace))


@click.command(cls=RemoteCommand, help="Close every topic here; clients come back.")
@NAMESPACE
@BUNDLE
def unload(namespace: str, bundle: str | None) -> None:
    with connection().admin() as admin:
        admin.unload_namespace(namespace, bundle=bundle)


@click.command(cls=RemoteCommand, help="Skip what was not acked, in every topic.")
@NAMESPACE
@click.option("-s", "--sub", "subscription", help="Of this subscription only.")
@click.option("-force", "--force", is_flag=True, help="Do not ask.")
@BUNDLE
@DRY_RUN
def clear_backlog(
    namespace: str, subscription: str | None, force: bool, bundle: str | None, dry_run: bool
) -> None:
    if dry_run:
        with connection().admin() as admin:
            backlogs_would_go(admin, namespace, subscription)
        return
    if not force:
        if not sys.stdin.isatty():
            raise CommandFailed(
                f"namespaces clear-backlog {namespace}: there is no terminal to ask at; say --force",
                Exit.USAGE,
            )
        click.confirm(f"Skip everything in {namespace} that was not acked?", abort=True)
    with connection().admin() as admin:
        admin.clear_namespace_backlog(namespace, subscription, bundle=bundle)


@click.command(cls=RemoteCommand, help="Delete a subscription from every topic.")
@NAMESPACE
@click.option("-s", "--sub", "subscription", required=True)
@BUNDLE
@DRY_RUN
def unsubscribe(namespace: str, subscription: str, bundle: str | None, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            backlogs_would_go(admin, namespace, subscription)
        else:
            admin.unsubscribe_namespace(namespace, subscription, bundle=bundle)


@click.command(cls=RemoteCommand, help="The ranges of hashes that a namespace is divided by.")
@NAMESPACE
def bundles(namespace: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_bundles(namespace))


@click.command(cls=RemoteCommand, help="The clusters that a namespace lies on.")
@NAMESPACE
def get_clusters(namespace: str) -> None:
    with connection().admin() as admin:
        show_names(admin.get_policy(namespace, "replication"), "cluster")


@click.command(cls=RemoteCommand, help="A namespace's own properties.")
@NAMESPACE
def get_properties(namespace: str) -> None:
    with connection().admin() as admin:
        show_pairs(admin.get_namespace_properties(namespace))


@click.command(cls=RemoteCommand, help="One property of a namespace.")
@NAMESPACE
@click.option("-k", "--key", required=True)
def get_property(namespace: str, key: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_namespace_property(namespace, key))


@click.command(cls=RemoteCommand, help="Set some properties of a namespace.")
@NAMESPACE
@click.option("-p", "--properties", multiple=True, required=True, help="key=value,key=value.")
def set_properties(namespace: str, properties: tuple[str, ...]) -> None:
    read = Property()
    pairs = dict(read.convert(one, None, None) for one in split_names(properties))
    with connection().admin() as admin:
        admin.set_namespace_properties(namespace, pairs)


@click.command(cls=RemoteCommand, help="Set one property of a namespace.")
@NAMESPACE
@click.option("-k", "--key", required=True)
@click.option("-v", "--value", required=True)
def set_property(namespace: str, key: str, value: str) -> None:
    with connection().admin() as admin:
        admin.set_namespace_properties(namespace, {key: value})


@click.command(cls=RemoteCommand, help="Remove one property of a namespace, and print it.")
@NAMESPACE
@click.option("-k", "--key", required=True)
def remove_property(namespace: str, key: str) -> None:
    with connection().admin() as admin:
        show_object(admin.remove_namespace_property(namespace, key))


@click.command(cls=RemoteCommand, help="Remove every property of a namespace.")
@NAMESPACE
def clear_properties(namespace: str) -> None:
    with connection().admin() as admin:
        admin.clear_namespace_properties(namespace)
