"""`milepost namespaces`: bundles and offloading, as far as they are more than one call."""

from __future__ import annotations

import click

from milepost.cli.admin.options import NAMESPACE
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.quantities import DURATION, SIZE

STRATEGIES = (
    "AutoUpdateDisabled", "Backward", "Forward", "Full", "AlwaysCompatible", "BackwardTransitive",
    "ForwardTransitive", "FullTransitive",
)  # fmt: skip


@click.command(cls=RemoteCommand, help="Divide a bundle in two, or where it is said.")
@NAMESPACE
@click.option("-b", "--bundle", help="The range of hashes.")
@click.option("-bt", "--bundle-type", type=click.Choice(["LARGEST", "HOT"]), help="Which one.")
@click.option("-u", "--unload", is_flag=True, help="Close its topics; clients come back.")
@click.option("-san", "--split-algorithm-name", "way", help="By what it is divided.")
@click.option("-sb", "--split-boundaries", "boundaries", help="0x1,0x2 …, where to divide it.")
def split_bundle(
    namespace: str,
    bundle: str | None,
    bundle_type: str | None,
    unload: bool,
    way: str | None,
    boundaries: str | None,
) -> None:
    which = bundle or bundle_type
    if which is None or (bundle and bundle_type):
        raise click.UsageError("give either --bundle or --bundle-type")
    try:
        positions = None if not boundaries else [int(one, 0) for one in boundaries.split(",")]
    except ValueError:
        raise click.UsageError(f"{boundaries!a}: expected numbers with commas between") from None
    with connection().admin() as admin:
        admin.split_bundle(namespace, which, way=way, unload=unload, positions=positions)


@click.command(cls=RemoteCommand, help="Bytes, and seconds, at which ledgers would be offloaded.")
@NAMESPACE
def get_offload_threshold(namespace: str) -> None:
    with connection().admin() as admin:
        click.echo(f"offloadThresholdInBytes: {admin.get_policy(namespace, 'offloadThreshold')}")
        seconds = admin.get_policy(namespace, "offloadThresholdInSeconds")
        click.echo(f"offloadThresholdInSeconds: {seconds}")


@click.command(cls=RemoteCommand, help="Set them; -1 is never.")
@NAMESPACE
@click.option(
    "-s", "--size", type=SIZE, default=-1, show_default=True, help="Bytes, or 10M, 2G; -1 is never."
)
@click.option(
    "-t",
    "--time",
    "seconds",
    type=DURATION,
    default=-1,
    show_default=True,
    help="Seconds, or 100m, 3h; -1 is never.",
)
def set_offload_threshold(namespace: str, size: int, seconds: int) -> None:
    with connection().admin() as admin:
        admin.set_policy(namespace, "offloadThreshold", size)
        admin.set_policy(namespace, "offloadThresholdInSeconds", seconds)


@click.command(cls=RemoteCommand, help="How long offloaded ledgers would stay on disk.")
@NAMESPACE
def get_offload_deletion(namespace: str) -> None:
    with connection().admin() as admin:
        found = admin.get_policy(namespace, "offloadDeletionLagMs")
    click.echo("Unset for namespace" if found is None else f"{found // 60_000} minute(s)")


@click.command(cls=RemoteCommand, help="Set it.")
@NAMESPACE
@click.option(
    "-l", "--lag", "seconds", type=DURATION, required=True, help="Seconds, or 100m, 3h, 2d."
)
def set_offload_deletion(namespace: str, seconds: int) -> None:
    with connection().admin() as admin:
        admin.set_policy(namespace, "offloadDeletionLagMs", seconds * 1000)


@click.command(cls=RemoteCommand, help="By which strategy schemas are judged, in older words.")
@NAMESPACE
def get_schema_autoupdate_strategy(namespace: str) -> None:
    with connection().admin() as admin:
        found = admin.get_policy(namespace, "schemaAutoUpdateCompatibilityStrategy")
    click.echo(str(found or "").upper())


@click.command(cls=RemoteCommand, help="Set it.")
@NAMESPACE
@click.option(
    "-c",
    "--compatibility",
    type=click.Choice(STRATEGIES, case_sensitive=False),
    help="The strategy.",
)
@click.option("-d", "--disabled", is_flag=True, help="No schema may change.")
def set_schema_autoupdate_strategy(
    namespace: str, compatibility: str | None, disabled: bool
) -> None:
    if (compatibility is None) != disabled:
        raise click.UsageError("give either --compatibility or --disabled")
    with connection().admin() as admin:
        admin.set_policy(
            namespace,
            "schemaAutoUpdateCompatibilityStrategy",
            compatibility or "AutoUpdateDisabled",
        )
