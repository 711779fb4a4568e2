"""`milepost resourcegroups` and `milepost broker-stats`."""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.admin.calls import Ask, Call, names
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import LazyGroup, Rows, table_of

NAME = click.argument("name")
INDENT = click.option("-i", "--indent", is_flag=True, hidden=True, expose_value=False)


def rates(command: Any) -> Any:
    for flags, field in (
        (("-bd", "--byte-dispatch-rate"), "dispatchRateInBytes"),
        (("-md", "--msg-dispatch-rate"), "dispatchRateInMsgs"),
        (("-bp", "--byte-publish-rate"), "publishRateInBytes"),
        (("-mp", "--msg-publish-rate"), "publishRateInMsgs"),
    ):
        command = click.option(*flags, field, type=int, help="A second; -1 is no limit.")(command)
    return command


def _put(name: str, **given: int | None) -> None:
    with connection().admin() as admin:
        admin.put_resource_group(
            name, {field: rate for field, rate in given.items() if rate is not None}
        )


@click.command(cls=RemoteCommand, help="Make a group.")
@NAME
@rates
def create(name: str, **given: int | None) -> None:
    _put(name, **given)


@click.command(cls=RemoteCommand, help="Change those rates that are given.")
@NAME
@rates
def update(name: str, **given: int | None) -> None:
    with connection().admin() as admin:
        admin.get_resource_group(name)  # the broker makes what is not there, as Pulsar does
    _put(name, **given)


_GROUPS: Rows = {
    "list": Ask("list_resource_groups", "Names of the groups.", show=names("group")),
    "get": Ask("get_resource_group", "The rates of a group.", NAME),
    "create": "Make a group.",
    "update": "Change those rates that are given.",
    "delete": Call("delete_resource_group", "Delete a group that no namespace is in.", NAME),
}
_STATS = {
    "monitoring-metrics": Ask("get_broker_metrics", "By namespace.", INDENT),
    "topics": Ask("get_broker_topics", "Of every open topic.", INDENT),
    "load-report": Ask("get_load_report", "What there is to carry."),
}

resourcegroups = LazyGroup(
    "resourcegroups",
    table=table_of({__name__: _GROUPS}),
    help="Resource groups: rates that topics of some namespaces share.",
)
broker_stats = LazyGroup("broker-stats", table=_STATS, help="The broker's numbers, as JSON.")
