"""`milepost namespaces`: what is more than one call.

The table of all its commands is in `namespaces_group.py`; policies are made from the table of policies
(`policy_commands.py`).
"""

from __future__ import annotations

import sys

import click

from milepost.cli.admin.options import BUNDLE, DRY_RUN, KEY, NAMESPACE
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.progress.losses import backlogs_would_go, topics_would_go


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
@click.option("-s", "--sub", "subscription", required=True, help="Its name.")
@BUNDLE
@DRY_RUN
def unsubscribe(namespace: str, subscription: str, bundle: str | None, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            backlogs_would_go(admin, namespace, subscription)
        else:
            admin.unsubscribe_namespace(namespace, subscription, bundle=bundle)


@click.command(cls=RemoteCommand, help="Set one property of a namespace.")
@NAMESPACE
@KEY
@click.option("-v", "--value", required=True, help="What it is to be.")
def set_property(namespace: str, key: str, value: str) -> None:
    with connection().admin() as admin:
        admin.set_namespace_properties(namespace, {key: value})
