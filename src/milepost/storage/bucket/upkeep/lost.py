"""Objects that were deleted although others need them: what a start refuses.

A bucket begins with one object that is never deleted. A start that finds it absent would begin an empty
bucket, and call whatever else is there left over. So it first looks whether there is anything: then the
object was lost, and what it named is still there to be saved.
"""

from __future__ import annotations

import re
from typing import Final

from milepost.errors import CorruptData
from milepost.storage.bucket.objects import Steps, fetched, listed

# What is written below these is written behind the object that the bucket begins with.
FOLDERS: Final = ("journal/", "image/", "pack/", "shards/")
# Keys of Milepost, of each folder. Others are another program's, and prove nothing.
_OURS: Final = re.compile(
    r"journal/[0-9]{8}/[0-9]{12}|(image|pack)/[0-9a-f]{32}|shards/[0-9]+/manifest"
)


def checked_new(first: str) -> Steps[None]:
    """Raise `CorruptData` if the object that a bucket begins with is absent and others are there. It was
    absent when it was looked for; another broker may have created it since."""
    there: list[str] = []
    for folder in FOLDERS:
        objects = yield from listed(folder)
        there += [key for key, _ in objects if _OURS.fullmatch(key)]
    if there and (yield from fetched(first)) is None:
        raise lost(first, f"{len(there)} objects that need it are there, {there[0]} among them")


def lost(key: str, proof: str) -> CorruptData:
    """An object is gone that was there."""
    return CorruptData(
        f"{key}: is missing, and {proof}: a rule or a person has deleted it; restore it from the store's "
        "versions"
    )
