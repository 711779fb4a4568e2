"""`milepost tenants` and `milepost clusters`."""

from __future__ import annotations

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.output import show_names, show_object
from milepost.cli.progress.losses import topics_would_go
from milepost.cli.quantities import split_names

ROLES = click.option("-r", "--admin-roles", multiple=True, help="Roles that administer it.")
CLUSTERS = click.option("-c", "--allowed-clusters", multiple=True, help="All of them if left out.")


@click.group(cls=Group, help="Tenants: the words of `pulsar-admin tenants`.")
def tenants() -> None:
    pass


@tenants.command("list", cls=RemoteCommand, help="Names of the tenants.")
def list_tenants() -> None:
    with connection().admin() as admin:
        show_names(admin.list_tenants(), "tenant")


@tenants.command(cls=RemoteCommand, help="Roles and clusters of a tenant.")
@click.argument("tenant")
def get(tenant: str) -> None:
    with connection().admin() as admin:
        show_object(admin.get_tenant(tenant))


@tenants.command(cls=RemoteCommand, help="Create a tenant.")
@click.argument("tenant")
@ROLES
@CLUSTERS
def create(tenant: str, admin_roles: tuple[str, ...], allowed_clusters: tuple[str, ...]) -> None:
    with connection().admin() as admin:
        admin.create_tenant(
            tenant,
            admin_roles=split_names(admin_roles),
            allowed_clusters=split_names(allowed_clusters),
        )


@tenants.command(cls=RemoteCommand, help="Change a tenant; what is left out stays.")
@click.argument("tenant")
@ROLES
@CLUSTERS
def update(tenant: str, admin_roles: tuple[str, ...], allowed_clusters: tuple[str, ...]) -> None:
    with connection().admin() as admin:
        admin.update_tenant(
            tenant,
            admin_roles=split_names(admin_roles) if admin_roles else None,
            allowed_clusters=split_names(allowed_clusters) if allowed_clusters else None,
        )


@tenants.command(cls=RemoteCommand, help="Delete a tenant.")
@click.argument("tenant")
@click.option("-f", "--force", is_flag=True, help="With all its namespaces.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
def delete(tenant: str, force: bool, dry_run: bool) -> None:
    with connection().admin() as admin:
        if dry_run:
            names = admin.list_namespaces(tenant)
            topics_would_go(admin, [topic for name in names for topic in admin.list_topics(name)])
        else:
            admin.delete_tenant(tenant, force=force)


@click.group(cls=Group, help="Clusters: a Milepost broker is one.")
def clusters() -> None:
    pass


@clusters.command("list", cls=RemoteCommand, help="Names of the clusters.")
def list_clusters() -> None:
    with connection().admin() as admin:
        show_names(admin.list_clusters(), "cluster")
