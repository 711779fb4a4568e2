"""Which packs are to be merged, and where the bytes of ledgers lie afterwards. Pure.

Each checkpoint writes what came since the last one, so a ledger that grows slowly lies in many small packs,
and a pack stays as long as one of its ledgers does. Two kinds of packs are written anew, without what is
dead:

- *sparse* packs, of which less than half is still named;
- packs of one *tier* (each eight times the size of the one below), as soon as there are eight of them. So a
  byte is written once for each tier, and a shard has a few packs of each tier besides the full ones.

The new packs are named by the next image, as those of a checkpoint are; the old ones are deleted when no
image names them any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from milepost.storage.bucket.image import Extent, Extents

FAN: Final = 8
SMALLEST: Final = 64 * 1024
# Packs that one checkpoint reads to merge them have together at most this size.
MERGE_SIZE: Final = 32 * 1024 * 1024


class Source(NamedTuple):
    """An extent that moves to another pack."""

    path: str
    number: int
    """Which of the file's extents it is."""
    extent: Extent


def live_sizes(extents: Extents) -> dict[str, int]:
    """How many bytes of each pack are named.

    >>> live_sizes({"a": [Extent("p", 0, 3), Extent("q", 0, 4)], "b": [Extent("p", 3, 2)]})
    {'p': 5, 'q': 4}
    """
    sizes: dict[str, int] = {}
    for rows in extents.values():
        for one in rows:
            sizes[one.pack] = sizes.get(one.pack, 0) + one.size
    return sizes


def tier_of(size: int) -> int:
    """The tier that a pack of a size belongs to.

    >>> [tier_of(size) for size in (0, SMALLEST - 1, SMALLEST, FAN * SMALLEST - 1, FAN * SMALLEST)]
    [0, 0, 1, 1, 2]
    """
    tier, end = 0, SMALLEST
    while size >= end:
        tier, end = tier + 1, end * FAN
    return tier


def chosen(extents: Extents, sizes: Mapping[str, int], full_size: int) -> list[str]:
    """The packs to merge now; none if it is not worth the while. `sizes` are those in the bucket; a pack of
    at least half of `full_size` is only merged when it is sparse."""
    live = {pack: size for pack, size in live_sizes(extents).items() if pack in sizes}
    sparse = [pack for pack, size in live.items() if size * 2 < sizes[pack]]
    tiers: dict[int, list[str]] = {}
    for pack, size in live.items():
        if size * 2 >= sizes[pack] and sizes[pack] < full_size // 2:
            tiers.setdefault(tier_of(size), []).append(pack)
    wanted = sorted(sparse, key=lambda pack: (live[pack], pack))
    for tier in sorted(tiers):
        if len(tiers[tier]) >= FAN:
            wanted += sorted(tiers[tier], key=lambda pack: (live[pack], pack))
    taken: list[str] = []
    room = MERGE_SIZE
    for pack in wanted:
        if sizes[pack] <= room or not taken:
            taken.append(pack)
            room -= sizes[pack]
    return taken


def sources(extents: Extents, packs: Sequence[str], size_max: int) -> list[list[Source]]:
    """The named extents of some packs, by the new pack they go to: files one after the other."""
    merged: list[list[Source]] = []
    wanted, room = set(packs), 0
    for path in sorted(extents):
        for number, extent in enumerate(extents[path]):
            if extent.pack not in wanted:
                continue
            if not merged or extent.size > room:
                merged.append([])
                room = size_max
            merged[-1].append(Source(path, number, extent))
            room -= extent.size
    return merged


def relocated(extents: Extents, packs: Mapping[str, Sequence[Source]]) -> dict[str, list[Extent]]:
    """The extents when sources have moved to new packs, by key; neighbours become one.

    >>> rows = {"a": [Extent("p", 7, 3), Extent("q", 0, 4)]}
    >>> (group,) = sources(rows, ["p", "q"], 100)
    >>> relocated(rows, {"new": group})
    {'a': [Extent(pack='new', start=0, size=7)]}
    """
    places: dict[tuple[str, int], Extent] = {}
    for key, group in packs.items():
        start = 0
        for path, number, extent in group:
            places[path, number] = Extent(key, start, extent.size)
            start += extent.size
    moved: dict[str, list[Extent]] = {}
    for path, rows in extents.items():
        joined: list[Extent] = []
        moved[path] = joined
        for number, extent in enumerate(rows):
            one = places.get((path, number), extent)
            if (
                joined
                and joined[-1].pack == one.pack
                and joined[-1].start + joined[-1].size == one.start
            ):
                joined[-1] = joined[-1]._replace(size=joined[-1].size + one.size)
            else:
                joined.append(one)
    return moved
