"""`milepost tenants` and `milepost clusters`."""

from __future__ import annotations

import click

from milepost.cli.admin.calls import Ask, Call, names
from milepost.cli.admin.options import DRY_RUN, TENANT, split
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import LazyGroup, Rows, table_of
from milepost.cli.progress.losses import topics_would_go

ROLES = split("-r", "--admin-roles", help="Roles that administer it.")
CLUSTERS = split("-c", "--allowed-clusters", help="All of them if left out.")


@click.command(cls=RemoteCommand, help="Delete a tenant.")
@TENANT
@click.option("-f", "--force", is_flag=True, help="With all its namespaces.")
@DRY_RUN
def delete(tenant: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            names = admin.list_namespaces(tenant)
            topics_would_go(admin, [topic for name in names for topic in admin.list_topics(name)])
        else:
            admin.delete_tenant(tenant, force=force)


_TENANTS: Rows = {
    "list": Ask("list_tenants", "Names of the tenants.", show=names("tenant")),
    "get": Ask("get_tenant", "Roles and clusters of a tenant.", TENANT),
    "create": Call("create_tenant", "Create a tenant.", TENANT, ROLES, CLUSTERS),
    "update": Call(
        "update_tenant", "Change a tenant; what is left out stays.", TENANT, ROLES, CLUSTERS
    ),
    "delete": "Delete a tenant.",
}
_CLUSTERS = {"list": Ask("list_clusters", "Names of the clusters.", show=names("cluster"))}

tenants = LazyGroup(
    "tenants",
    table=table_of({__name__: _TENANTS}),
    help="Tenants: the words of `pulsar-admin tenants`.",
)
clusters = LazyGroup("clusters", table=_CLUSTERS, help="Clusters: a Milepost broker is one.")
