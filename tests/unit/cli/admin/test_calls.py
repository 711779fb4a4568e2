"""Rows that are calls: what they pass is what the admin client takes."""

from __future__ import annotations

import inspect

import click
import pytest

from milepost.admin.calls import Calls
from milepost.cli.admin import (
    brokers,
    namespaces_group,
    resource_groups,
    tenants,
    topics_group,
    transactions,
)
from milepost.cli.admin.calls import Call
from milepost.cli.groups import LazyGroup

GROUPS: tuple[LazyGroup, ...] = (
    brokers.brokers,
    namespaces_group.namespaces,
    resource_groups.broker_stats,
    resource_groups.resourcegroups,
    tenants.clusters,
    tenants.tenants,
    topics_group.non_persistent,
    topics_group.topic_policies,
    topics_group.topics,
    transactions.transactions,
)


ROWS = {
    f"{group.name} {name}": row
    for group in GROUPS
    for name, row in group.table.items()
    if isinstance(row, Call)
}


@pytest.mark.parametrize(("words", "row"), list(ROWS.items()), ids=list(ROWS))
def test_a_row_passes_what_the_call_takes(words: str, row: Call) -> None:
    """The rows name calls by text, so that no command waits for the admin client to load."""
    given = {
        one.name: None
        for one in row.command(words.split()[1]).params
        if one.expose_value and not (isinstance(one, click.Option) and one.name == "output")
    }
    inspect.signature(getattr(Calls, row.method).script).bind(**given, **row.fixed)


def test_a_row_that_is_wrong_would_be_found() -> None:
    with pytest.raises(TypeError):
        test_a_row_passes_what_the_call_takes(
            "x y", Call("get_tenant", "", click.argument("topic"))
        )
