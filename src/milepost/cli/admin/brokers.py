"""`milepost brokers`: health, version, dynamic settings. Health, version, settings that change live."""

from __future__ import annotations

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.output import show_names, show_object, show_pairs

CONFIG = click.option("-c", "--config", "key", required=True, help="Its name in `broker.conf`.")


@click.group(cls=Group, help="The broker itself, and its settings.")
def brokers() -> None:
    pass


@brokers.command(cls=RemoteCommand, help="Is it well? A round trip through its storage.")
@click.option("-tv", "--topic-version", hidden=True)
def healthcheck(topic_version: str | None) -> None:
    with connection().admin() as admin:
        click.echo(admin.check_health())


@brokers.command("list", cls=RemoteCommand, help="Addresses of the brokers of a cluster.")
@click.argument("cluster")
def list_brokers(cluster: str) -> None:
    with connection().admin() as admin:
        show_names(admin.list_brokers(cluster), "broker")


@brokers.command(cls=RemoteCommand, help="The version of the broker.")
def version() -> None:
    with connection().admin() as admin:
        click.echo(admin.get_version())


@brokers.command(cls=RemoteCommand, help="The broker that leads its cluster.")
def leader_broker() -> None:
    with connection().admin() as admin:
        show_object(admin.get_leader_broker())


@brokers.command(cls=RemoteCommand, help="The bundles that a broker serves.")
@click.argument("cluster")
@click.option(
    "-u", "--url", "broker", required=True, help="The broker, as `brokers list` shows it."
)
def namespaces(cluster: str, broker: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_owned_namespaces(cluster, broker))


# Here `--url` is upstream's word for the broker that is asked about, not for the one that is asked.
namespaces.params = [one for one in namespaces.params if one.name != "url"]


@brokers.command(cls=RemoteCommand, help="Names of the settings that may change while it runs.")
def list_dynamic_config() -> None:
    with connection().admin() as admin:
        show_names(admin.list_dynamic_settings(), "setting")


@brokers.command(cls=RemoteCommand, help="Those that were changed, and to what.")
def get_all_dynamic_config() -> None:
    with connection().admin() as admin:
        show_pairs(admin.get_dynamic_settings())


@brokers.command(cls=RemoteCommand, help="Every setting as it is now.")
def get_runtime_config() -> None:
    with connection().admin() as admin:
        show_pairs(admin.get_runtime_settings())


@brokers.command(cls=RemoteCommand, help="Where the broker keeps what it knows.")
def get_internal_config() -> None:
    with connection().admin() as admin:
        show_object(admin.get_internal_configuration())


@brokers.command(cls=RemoteCommand, help="Change a setting, now and for every start that follows.")
@CONFIG
@click.option("-v", "--value", required=True)
def update_dynamic_config(key: str, value: str) -> None:
    with connection().admin() as admin:
        admin.set_dynamic_setting(key, value)


@brokers.command(cls=RemoteCommand, help="Back to what the broker was started with.")
@CONFIG
def delete_dynamic_config(key: str) -> None:
    with connection().admin() as admin:
        admin.remove_dynamic_setting(key)


@brokers.command(cls=RemoteCommand, help="Look for backlogs past their quota now.")
def backlog_quota_check() -> None:
    with connection().admin() as admin:
        admin.check_backlog_quotas()
