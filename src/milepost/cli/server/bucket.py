"""`milepost bucket`: tries a bucket out before a broker relies on it.

trial                       good  detail
create only if absent       yes   the second is refused
one of many creators wins   yes   20 races of 8
"""

from __future__ import annotations

import asyncio

import click

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.output import note, show_rows

COLUMNS = ("trial", "good", "detail")


bucket = click.Group("bucket", help="Try out a bucket for `milepost serve --bucket`.")


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
    from milepost.storage.bucket.manifest import KEY, Manifest
    from milepost.storage.bucket.objects import Found, Get
    from milepost.storage.bucket.stores import open_objects

    async def run() -> tuple[list[Trial], Manifest | None]:
        objects = open_objects(url, endpoint=endpoint, region=region)
        try:
            trials = await tried_out(objects, SystemClock())
            found = await objects.answer(Get(KEY))
            manifest = Manifest.decode(found.data) if isinstance(found, Found) else None
            return trials, manifest
        finally:
            await objects.close()

    trials, manifest = asyncio.run(run())
    rows = [(one.name, "yes" if one.is_good else "no", one.detail) for one in trials]
    show_rows(COLUMNS, rows)
    if manifest is not None:
        note(
            f"the bucket holds the data of cluster {manifest.cluster}, in epoch {manifest.epoch} of "
            f"broker {manifest.owner}"
        )
    if bad := [one for one in trials if not one.is_good]:
        first = bad[0]
        todo = first.remedy or "use another store"
        raise CommandFailed(
            f"{url} cannot be used: {first.name}: {first.detail}; {todo}", Exit.STORAGE
        )
