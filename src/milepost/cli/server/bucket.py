"""`milepost bucket`: tries a bucket out before a broker relies on it.

trial                       good  detail
create only if absent       yes   the second is refused
one of many creators wins   yes   20 races of 8
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.groups import Group
from milepost.cli.output import note, show_rows

if TYPE_CHECKING:
    from milepost.storage.bucket.objects import Reply

COLUMNS = ("trial", "good", "detail")


bucket = Group("bucket", help="Try out a bucket for `milepost serve --bucket`.")


@bucket.command(
    help="Try what a broker needs of a bucket: conditional writes, races, listing, deletion. What is written "
    "is deleted again; data of a broker there is not touched. Rules that delete objects by age cannot be "
    "seen from here: there must be none for the prefix."
)
@click.argument("url")
@click.option("--endpoint", default="", metavar="URL", help="As the setting `bucket_endpoint`.")
@click.option("--region", default="", metavar="NAME", help="As the setting `bucket_region`.")
def check(url: str, endpoint: str, region: str) -> None:
    from milepost.clock import SystemClock
    from milepost.storage.bucket.check import Trial, tried_out
    from milepost.storage.bucket.manifest import CLUSTER, KEY
    from milepost.storage.bucket.objects import Get
    from milepost.storage.bucket.stores import open_objects

    async def run() -> tuple[list[Trial], list[Reply]]:
        objects = open_objects(url, endpoint=endpoint, region=region)
        try:
            trials = await tried_out(objects, SystemClock())
            return trials, [await objects.answer(Get(key)) for key in (KEY, CLUSTER)]
        finally:
            await objects.close()

    trials, documents = asyncio.run(run())
    rows = [(one.name, "yes" if one.is_good else "no", one.detail) for one in trials]
    show_rows(COLUMNS, rows)
    if bad := [one for one in trials if not one.is_good]:
        first = bad[0]
        todo = first.remedy or "use another store"
        raise CommandFailed(
            f"{url} cannot be used: {first.name}: {first.detail}; {todo}", Exit.STORAGE
        )
    _tell_whose(*documents)  # raises for what this release cannot read, behind what was tried


def _tell_whose(manifest: Reply, cluster: Reply) -> None:
    """Say whose data the bucket holds, if it has some."""
    from milepost.storage.bucket.manifest import Manifest
    from milepost.storage.bucket.objects import Found
    from milepost.storage.cluster.document import ClusterDocument

    if isinstance(manifest, Found):
        one = Manifest.decode(manifest.data)
        note(
            f"the bucket holds the data of cluster {one.cluster}, in epoch {one.epoch} of "
            f"broker {one.owner}"
        )
    if isinstance(cluster, Found):
        several = ClusterDocument.decode(cluster.data)
        note(f"the bucket holds the data of cluster {several.name}, in {several.shards} shards")
