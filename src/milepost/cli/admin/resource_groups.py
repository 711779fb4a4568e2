"""`milepost resourcegroups` and `milepost broker-stats`."""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.output import show_names, show_object

NAME = click.argument("name")


def rates(command: Any) -> Any:
    for flags, field in (
        (("-bd", "--byte-dispatch-rate"), "dispatchRateInBytes"),
        (("-md", "--msg-dispatch-rate"), "dispatchRateInMsgs"),
        (("-bp", "--byte-publish-rate"), "publishRateInBytes"),
        (("-mp", "--msg-publish-rate"), "publishRateInMsgs"),
    ):
        command = click.option(*flags, field, type=int, help="A second; -1 is no limit.")(command)
    return command


@click.group(cls=Group, help="Resource groups: rates that topics of some namespaces share.")
def resourcegroups() -> None:
    pass


@resourcegroups.command("list", cls=RemoteCommand, help="Names of the groups.")
def list_groups() -> None:
    with connection().admin() as admin:
        show_names(admin.list_resource_groups(), "group")


@resourcegroups.command(cls=RemoteCommand, help="The rates of a group.")
@NAME
def get(name: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_resource_group(name))


def _put(name: str, **given: int | None) -> None:
    with connection().admin() as admin:
        admin.put_resource_group(
            name, {field: rate for field, rate in given.items() if rate is not None}
        )


@resourcegroups.command(cls=RemoteCommand, help="Make a group.")
@NAME
@rates
def create(name: str, **given: int | None) -> None:
    _put(name, **given)


@resourcegroups.command(cls=RemoteCommand, help="Change those rates that are given.")
@NAME
@rates
def update(name: str, **given: int | None) -> None:
    with connection().admin() as admin:
        admin.get_resource_group(name)  # the broker makes what is not there, as Pulsar does
    _put(name, **given)


@resourcegroups.command(cls=RemoteCommand, help="Delete a group that no namespace is in.")
@NAME
def delete(name: str) -> None:
    with connection().admin() as admin:
        admin.delete_resource_group(name)


@click.group("broker-stats", cls=Group, help="The broker's numbers, as JSON.")
def broker_stats() -> None:
    pass


@broker_stats.command("monitoring-metrics", cls=RemoteCommand, help="By namespace.")
@click.option("-i", "--indent", is_flag=True, hidden=True)
def monitoring_metrics(indent: bool) -> None:
    with connection().admin() as admin:
        show_object(admin.get_broker_metrics())


@broker_stats.command(cls=RemoteCommand, help="Of every open topic.")
@click.option("-i", "--indent", is_flag=True, hidden=True)
def topics(indent: bool) -> None:
    with connection().admin() as admin:
        show_object(admin.get_broker_topics())


@broker_stats.command(cls=RemoteCommand, help="What there is to carry.")
def load_report() -> None:
    with connection().admin() as admin:
        show_object(admin.get_load_report())
